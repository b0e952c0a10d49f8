"""Strings and bytes."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import pydantic

from skyt.contracts.kinds.kind import Choose, Kind, Read, SearchStrategy, Sized, rearranged, st, usual_length
from skyt.contracts.kinds.material import Material

_SHORT = ["", "a", "A", " ", "aa", "ab", "0", "-", "_", "aba", "Ab", "a b", "é"]
# The shortest strings that tell programs apart, by the shape of the text.
_TELLING: dict[str, list[str]] = {
    "brackets": [
        *("(", ")", "()", "(]", ")(", "([)]", "({[]})", "(()", "())", "a(b)c", "][", "(a", "]", "{[()]}()"),
        *("<>", "((((((", "))))"),
    ],
    "palindrome": [
        *("Aa", "aA", "a.a", "ab.a", "A man, a plan, a canal: Panama", "race a car", "No lemon, no melon"),
        *("0P", ".,", "a_a", "A a", "a. A", "aB bA", "a-A", "A,a a", "a_b", "ab_a", "ée", "e\u0301e"),
        *("12321", "123", "ßSS"),
    ],
    # Separators alone, doubled and at the ends; letters whose case depends on their place or changes length.
    "text": [
        *(" a ", "-a-", "a-b", "a--b", "a  b", "a_b", "a.b", "A\tB", "a\nb", "É", "\u039f\u0394\u039f\u03a3"),
        *("\u0130", "\u212a", "ß", "e\u0301", "漢字", "-", "--", " - ", "a - b", "a!", "!a", "!", "a ! b"),
        *("- a -", "_a_"),
    ],
}


class StrSpec(Sized):
    """Strings over an alphabet, or those that a regular expression matches as a whole (neither given: all of
    Unicode but surrogates).

    `shape` says what structured strings to generate beside random ones, and `sample_alphabet` which
    characters to generate them from: neither narrows the domain.
    """

    hints: ClassVar = ("str",)
    values_of: ClassVar = str
    comparable: ClassVar = True
    reasoned: ClassVar = True
    type: Literal["str"] = "str"
    alphabet: str | None = None
    sample_alphabet: str | None = None
    regex: str | None = None
    shape: Literal["text", "brackets", "palindrome"] = "text"

    @pydantic.model_validator(mode="after")
    def _one_description(self) -> StrSpec:
        if self.alphabet is not None and self.regex is not None:
            raise ValueError("give `alphabet` or `regex`, not both")
        if self.alphabet == "" and self.min_length:
            raise ValueError("an empty alphabet has only the empty string")
        if self.regex is not None:
            try:
                re.compile(self.regex)
            except re.error as error:
                raise ValueError(f"{self.regex!r} is not a regular expression: {error}") from None
        return self

    @classmethod
    def described(cls, parts: list[ast.expr], values: list[Any] | None, read: Read) -> Kind | None:
        letters = "".join(sorted(set().union(*values or ())))
        return None if parts else cls(**usual_length(values, 4), sample_alphabet=letters or None)

    def fits(self, value: Any) -> bool:
        return (
            self.fits_length(value)
            and not any("\ud800" <= c <= "\udfff" for c in value)
            and (self.alphabet is None or set(value) <= set(self.alphabet))
            and (self.regex is None or re.fullmatch(self.regex, value) is not None)
        )

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        from skyt.contracts.kinds.shapes import texts

        edge = self.edges()
        return st.one_of([*[st.sampled_from(edge)] * bool(edge), *[texts(self)] * 5])

    def candidates(self) -> list[Any]:
        texts, letters = [*_SHORT, *_TELLING[self.shape]], self.sample_alphabet
        return texts if letters is None else [text for text in texts if set(text) <= set(letters)]

    def smaller(self, value: Any, choose: Choose) -> Any:
        return "".join(self._letter(letter, choose) for letter in value if choose(1, 1))

    def _letter(self, letter: str, choose: Choose) -> str:
        """The letter or an `a`; of an alphabet an earlier one, under a pattern an earlier one of its kind."""
        if self.alphabet is not None:
            place = self.alphabet.index(letter)
            return self.alphabet[choose(place, place)]
        for first, last in ("09", "az", "AZ"):
            if self.regex is not None and first <= letter <= last:
                place = ord(letter) - ord(first)
                return chr(ord(first) + choose(place, place))
        return letter if choose(int(letter != "a"), 1) else "a"

    @classmethod
    def varied(cls, value: Any, rng: random.Random, vary: Callable[[Any], Any]) -> Any:
        return "".join(rearranged(list(value), rng, vary))

    def _suggested(self, source: Material, drawn: list[Any]) -> Iterator[Any]:
        """The strings, parts of others, and texts of exactly some sizes: of one letter, all but the end, and
        mixed."""
        strings, rng, letters = source.constants.strings, source.rng, self.alphabet or "ab "
        for text in strings:
            other, old = rng.choice(strings), rng.choice(drawn)
            cut = rng.randrange(len(old) + 1)
            yield from (text, old[:cut] + text + old[cut:], text + other, old + text, text + old)
        for size in source.sizes:
            mark = rng.choice([s for s in strings if s] or ["b"])
            yield letters[0] * size
            yield (letters[0] * size)[: max(0, size - len(mark))] + mark[:size]
            yield "".join(rng.choice(letters) for _ in range(size))

    def widened(self) -> Kind:
        return StrSpec(sample_length=self.sample_length, shape=self.shape)

    def bound(self, key: str, value: Any) -> dict[str, Any] | None:
        return {"regex": value} if key == "pattern" else super().bound(key, value)


class BytesSpec(Sized):
    hints: ClassVar = ("bytes",)
    values_of: ClassVar = bytes
    comparable: ClassVar = True
    type: Literal["bytes"] = "bytes"

    def fits(self, value: Any) -> bool:
        return self.fits_length(value)

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        least, most = self.sample_lengths
        few = st.binary(min_size=least, max_size=min(most, least + 4))
        return few | st.binary(min_size=least, max_size=most)

    def candidates(self) -> list[Any]:
        return [b"", b"\x00", b"a", b"ab", b"\xff\x00"]

    def smaller(self, value: Any, choose: Choose) -> Any:
        return bytes(choose(byte, 255) for byte in value if choose(1, 1))
