"""Encoded values as a person would write them, in bounded time and space.

Works on the beginning of the encoded text and builds no value, so it is safe on texts that a stranger's
program made up: the cost does not depend on what the text would decode to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

LIMIT = 200  # characters shown
_LOOK_AT = 8192  # characters of the text that are looked at
_BIG_INT = 400  # hexadecimal digits beyond which an integer stays hexadecimal

_SCALAR = re.compile(r"-?\d{1,400}|true|false|null")
_CHARACTERS = r'"(?:[^"\\]|\\u[0-9a-f]{4}|\\["\\/bfnrt])*'
_STRING = re.compile(_CHARACTERS + '"')
_CUT_STRING = re.compile(_CHARACTERS)
_COMPLEX = re.compile(r'\["[^"\\]{1,40}","[^"\\]{1,40}"\]')
_TAG = re.compile(r'\{"([a-z])":')
_WORDS = {"true": "True", "false": "False", "null": "None"}
_MARKS = {"g": "a generator of ", "a": "a coroutine that gives "}
_BRACKETS = {"t": ("(", ")", "()"), "s": ("{", "}", "set()"), "z": ("frozenset({", "})", "frozenset()")}


class _StopError(Exception):
    """Enough has been written, or the text cannot be read further."""


def show(text: str, limit: int = LIMIT) -> str:
    """`[1, 'a', {2: 3.5}]` for an encoded value; a text that encodes nothing is shown as it is."""
    writer = _Writer(text[:_LOOK_AT], limit)
    try:
        writer.value()
        whole = writer.at == len(text)
    except (_StopError, ValueError, OverflowError, IndexError, RecursionError):
        whole = False
        if writer.room > 0 and len(text) <= _LOOK_AT:  # not cut short, so it is not an encoded value
            return short(text, limit)
    shown = "".join(writer.parts)
    return short(shown, limit) if whole else shown[: limit - 3] + "..."


def short(text: str, limit: int = LIMIT) -> str:
    """The beginning of a text, with dots where there is more."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


class _Writer:
    """One pass over a text; `parts` are what has been written, `room` is how much more may be."""

    def __init__(self, text: str, limit: int) -> None:
        self.text, self.at, self.parts, self.room = text, 0, list[str](), limit + 1

    def value(self) -> None:
        first = self.text[self.at]
        if first == "[":
            self._items("[", "]", "[]")
        elif first == '"':
            self._write(repr(self._string()))
        elif first == "{":
            self._tagged()
        else:
            word = self._match(_SCALAR)
            self._write(_WORDS.get(word, word))

    def _tagged(self) -> None:
        tag = self._match(_TAG)[2]
        if tag in _BRACKETS:
            self._items(*_BRACKETS[tag])
        elif tag in _MARKS:
            self._write(_MARKS[tag])
            self.value()
        elif tag == "d":
            self._items("{", "}", "{}", pairs=True)
        elif tag == "c":
            parts = json.loads(self._match(_COMPLEX))
            self._write(repr(complex(*(float.fromhex(part) for part in parts))))
        elif tag in _SIMPLE:
            self._write(_SIMPLE[tag](self._string()))
        else:
            raise _StopError
        self._expect("}")

    def _items(self, opening: str, closing: str, empty: str, *, pairs: bool = False) -> None:
        self._expect("[")
        if self.text[self.at] == "]":
            self.at += 1
            self._write(empty)
            return
        self._write(opening)
        count = 0
        while True:
            if pairs:
                self._expect("[")
                self.value()
                self._expect(",")
                self._write(": ")
            self.value()
            if pairs:
                self._expect("]")
            count += 1
            if self.text[self.at] == "]":
                break
            self._expect(",")
            self._write(", ")
        self.at += 1
        self._write("," + closing if opening == "(" and count == 1 else closing)

    def _string(self) -> str:
        cut = _STRING.match(self.text, self.at) is None and len(self.text) == _LOOK_AT
        found: str = json.loads(self._match(_CUT_STRING) + '"' if cut else self._match(_STRING))
        return found

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _StopError
        self.at = found.end()
        return found[0]

    def _expect(self, character: str) -> None:
        if self.text[self.at] != character:
            raise _StopError
        self.at += 1

    def _write(self, part: str) -> None:
        self.parts.append(part)
        self.room -= len(part)
        if self.room <= 0:
            raise _StopError


def _integer(digits: str) -> str:
    return str(int(digits, 16)) if len(digits) <= _BIG_INT else digits


_SIMPLE: dict[str, Callable[[str], str]] = {
    "i": _integer,
    "f": lambda digits: repr(float.fromhex(digits)),
    "b": lambda digits: repr(bytes.fromhex(digits[: len(digits) & -2])),
    "o": lambda kind: f"<{kind}>",
    "h": lambda kind: f"<{kind}>",
    "x": lambda name: f"raises {name}",
    "w": lambda _: "...",
}
