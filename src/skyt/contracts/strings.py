"""Strings on which string programs fall apart: nested and nearly nested, palindromes by some reading, words
between all kinds of separators, and Unicode that changes length or meaning when its case does."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from skyt.contracts.specs import StrSpec

BRACKETS = "()[]{}"
_PAIRS = ("()", "[]", "{}")
# Characters on which string programs fall apart: separators, digits of other scripts, case pairs that change
# length or depend on position (dotted I, sharp s, final sigma), letters whose lower case is ASCII (Kelvin
# sign), combining marks, a joiner and an emoji.
_TRICKY = (
    " \t\n\r\x0b\x0c\x1c\x85\xa0\u2003\u3000-_.,;:!?'\"/\\@#&%+*()[]{}<>|~^$=\x00"
    "\u00b2\u00bd\u0663\u00df\u00c9\u00e9\u00f1\u0130\u0131\u03a3\u03c3\u03c2\u212a\u212b\ufb01\u6f22"
    "\u0301\u0308\u200d\U0001f642"
)
_ASCII = "abcxyzABCXYZ0189"
_WORDS = (
    "Hello",
    "World",
    "Python",
    "3.9",
    "release",
    "CamelCase",
    "don't",
    "e-mail",
    "snake_case",
    "naïve",
    "A",
    "\u039f\u0394\u039f\u03a3",
    "C++",
    "100%",
)
_GAPS = (" ", "  ", "-", " - ", "_", "--", "\t", "\n", " \u00a0", ". ", ", ", "! ", "/", "", "...")


def character(rng: random.Random) -> str:
    """One character of the kinds above."""
    return rng.choice(_TRICKY + _ASCII + BRACKETS)


def mutate_items(items: list[Any], rng: random.Random, fresh: Callable[[], Any]) -> list[Any]:
    """One item inserted, dropped, replaced or swapped, or a stretch repeated."""
    items = list(items)
    at = rng.randrange(len(items) + 1)
    match rng.randrange(5):
        case 0:
            items.insert(at, fresh())
        case 1 if items:
            del items[at % len(items)]
        case 2 if items:
            items[at % len(items)] = fresh()
        case 3 if len(items) > 1:
            other = rng.randrange(len(items))
            items[at % len(items)], items[other] = items[other], items[at % len(items)]
        case _:
            cut = rng.randrange(len(items) + 1)
            items = items[:at] + items[min(at, cut) : max(at, cut)] + items[at:]
    return items


def special(spec: StrSpec) -> list[str]:
    """The shortest strings that tell programs apart."""
    if spec.shape == "brackets":
        return [
            "(",
            ")",
            "()",
            "(]",
            ")(",
            "([)]",
            "({[]})",
            "(()",
            "())",
            "a(b)c",
            "][",
            "(a",
            "]",
            "{[()]}()",
            "<>",
            "((((((",
            "))))",
        ]
    if spec.shape == "palindrome":
        return [
            "Aa",
            "aA",
            "a.a",
            "ab.a",
            "A man, a plan, a canal: Panama",
            "race a car",
            "No lemon, no melon",
            "0P",
            ".,",
            "a_a",
            "A a",
            "a. A",
            "aB bA",
            "a-A",
            "A,a a",
            "a_b",
            "ab_a",
            "ée",
            "e\u0301e",
            "12321",
            "123",
            "ßSS",
        ]
    return [
        " a ",
        "-a-",
        "a-b",
        "a--b",
        "a  b",
        "a_b",
        "a.b",
        "A\tB",
        "a\nb",
        "É",
        "\u039f\u0394\u039f\u03a3",
        "\u0130",
        "\u212a",
        "ß",
        "e\u0301",
        "漢字",
        "-",
        "--",
        " - ",
        "a - b",
        "a!",
        "!a",
        "!",
        "a ! b",
        "- a -",
        "_a_",
    ]


def string(spec: StrSpec, rng: random.Random) -> str:
    """A random string, structured more often than not."""
    longest = spec.sample_length if spec.max_length is None else min(spec.sample_length, spec.max_length)
    length = min(rng.choice((rng.randint(0, 4), rng.randint(0, 12), rng.randint(0, longest))), longest)
    if spec.alphabet is not None:
        text = "".join(rng.choice(spec.alphabet) for _ in range(max(length, spec.min_length)))
        return _structured(spec, rng, length) if spec.shape == "brackets" and rng.random() < 0.5 else text
    if rng.random() < 0.6:
        return _structured(spec, rng, length)[: spec.max_length]
    alphabet = rng.choice((_ASCII, _ASCII + " -_.", _TRICKY, _TRICKY + _ASCII * 4, BRACKETS))
    return "".join(rng.choice(alphabet) for _ in range(max(length, spec.min_length)))


def _structured(spec: StrSpec, rng: random.Random, length: int) -> str:
    if spec.shape == "brackets":
        return _bracketed(rng, length, filler=spec.alphabet is None)
    if spec.shape == "palindrome":
        return _palindrome(rng, length)
    count = rng.randint(1, 4)
    parts = [rng.choice(("", "", *_GAPS))]
    for _ in range(count):
        parts += [rng.choice(_WORDS), rng.choice(_GAPS)]
    if rng.random() < 0.5:
        parts.pop()
    return "".join(parts)


def _bracketed(rng: random.Random, length: int, *, filler: bool) -> str:
    """A correctly nested string, often with one flaw, sometimes with letters in between."""
    text: list[str] = []
    open_: list[str] = []
    kinds = rng.sample(_PAIRS, rng.randint(1, 3))
    for _ in range(max(2, length)):
        if open_ and rng.random() < 0.5:
            text.append(open_.pop())
        else:
            pair = rng.choice(kinds)
            text.append(pair[0])
            open_.append(pair[1])
    text += reversed(open_)
    flaw = rng.random()
    if flaw < 0.5:
        text = mutate_items(text, rng, lambda: rng.choice(BRACKETS))
    if filler and rng.random() < 0.4:
        for _ in range(rng.randint(1, 4)):
            text.insert(rng.randrange(len(text) + 1), rng.choice("ab1 <>,\"'\n/é"))
    return "".join(text)


def _palindrome(rng: random.Random, length: int) -> str:
    """A palindrome by some reading: exact, ignoring case, ignoring punctuation; often with one flaw."""
    letters = "abcABC019" + rng.choice(("", "", " ", " .", "_-", "\u00e9\u03a3"))
    half = [rng.choice(letters) for _ in range(max(1, length // 2))]
    text = half + (half[-2::-1] if rng.random() < 0.5 else half[::-1])
    reading = rng.random()
    if reading < 0.4:
        text = [c.swapcase() if rng.random() < 0.3 else c for c in text]
    if 0.2 < reading < 0.7:
        for _ in range(rng.randint(1, 4)):
            text.insert(rng.randrange(len(text) + 1), rng.choice(" ,.!-_'\n:;²\u0301"))
    if rng.random() < 0.4:
        text = mutate_items(text, rng, lambda: rng.choice("abAB01 _"))
    return "".join(text)
