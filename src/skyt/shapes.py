"""Values for one parameter: its boundaries, random and structured draws, and small changes to a value."""

from __future__ import annotations

import random
from typing import Any

from skyt.contract import BoolSpec, FloatSpec, IntSpec, ListSpec, Spec, StrSpec

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


def boundary(spec: Spec) -> list[Any]:
    """The values at the edges of a spec, smallest first; every one is in its domain."""
    if isinstance(spec, IntSpec):
        low, high = spec.sample_range
        middle = [v for v in (-2, -1, 0, 1, 2, 3, 4, 5, 9, 10) if low <= v <= high]
        return sorted({low, min(low + 1, high), *middle, *spec.interesting, max(high - 1, low), high})
    if isinstance(spec, FloatSpec):
        return [
            v for v in (spec.min, -1.0, -0.0, 0.0, 0.5, 1.0, spec.max) if v is not None and _within(spec, v)
        ]
    if isinstance(spec, BoolSpec):
        return [False, True]
    if isinstance(spec, ListSpec):
        edge = boundary(spec.elements)
        lists = [
            [],
            [edge[0]],
            [edge[-1]],
            edge[:2],
            edge[:2][::-1],
            edge[:3],
            [edge[-1]] * 2,
            edge,
            edge[::-1],
            edge[:2] * 3,
        ]
        return [_shaped(spec, values) for values in lists]
    texts = ["", "a", "A", " ", "aa", "ab", "0", "-", "_", "aba", "Ab", "a b", "é", *_special(spec)]
    return [text for text in texts if spec.alphabet is None or set(text) <= set(spec.alphabet)]


def draw(spec: Spec, rng: random.Random, *, widen: bool = False) -> Any:
    """One value, mostly small and structured. `widen` forgets the preconditions but keeps the type."""
    if isinstance(spec, IntSpec):
        return _integer(spec, rng, widen)
    if isinstance(spec, FloatSpec):
        low, high = (spec.min if spec.min is not None else -1e3), (spec.max if spec.max is not None else 1e3)
        return rng.uniform(low, high) if not widen else rng.uniform(-1e6, 1e6)
    if isinstance(spec, BoolSpec):
        return rng.random() < 0.5
    if isinstance(spec, ListSpec):
        return _list(spec, rng, widen)
    return _string(spec, rng)


def affordable(spec: Spec, value: Any) -> bool:
    """Whether a value is within the generated sizes: mutation must not lead to calls that take for ever."""
    if isinstance(spec, IntSpec):
        low, high = spec.sample_range
        return low <= value <= high or value in spec.interesting
    if isinstance(spec, ListSpec | StrSpec):
        return len(value) <= 2 * spec.sample_length
    return True


def mutate_value(value: Any, rng: random.Random) -> Any:
    """A value of the same type, one small step away."""
    if type(value) is int:
        return value + rng.choice((-1, 1, 2, -2, value, -value // 2))
    if type(value) is float:
        return value * rng.choice((0.5, -1.0, 2.0)) + rng.choice((0.0, 1.0))
    if type(value) is bool:
        return not value
    if type(value) is str:
        return "".join(_mutate_items(list(value), rng, lambda: rng.choice(_TRICKY + _ASCII + BRACKETS)))
    if type(value) is list:
        fresh = (lambda: mutate_value(rng.choice(value), rng)) if value else (lambda: 0)
        items = _mutate_items(value, rng, fresh)
        return sorted(items) if value == sorted(value) and rng.random() < 0.7 else items
    return value


def _mutate_items(items: list[Any], rng: random.Random, fresh: Any) -> list[Any]:
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


def _within(spec: FloatSpec, value: float) -> bool:
    return (spec.min is None or value >= spec.min) and (spec.max is None or value <= spec.max)


def _integer(spec: IntSpec, rng: random.Random, widen: bool) -> int:
    low, high = spec.sample_range
    if widen:
        low, high = min(low, -20), max(high, 20)
        return rng.choice((rng.randint(low, high), rng.randint(low, min(high, 0)), 0, -1, -2))
    if spec.interesting and rng.random() < 0.1:
        return rng.choice(spec.interesting)
    if rng.random() < 0.5:  # near zero, or near the lower bound
        centre = min(max(0, low), high)
        return min(max(centre + rng.randint(-20, 20), low), high)
    if rng.random() < 0.5 and high > 16:  # every magnitude alike
        magnitude = int(2 ** rng.uniform(0, high.bit_length()))
        return min(max(magnitude * (-1 if low < 0 and rng.random() < 0.4 else 1), low), high)
    return rng.randint(low, high)


def _list(spec: ListSpec, rng: random.Random, widen: bool) -> list[Any]:
    longest = spec.sample_length if spec.max_length is None else min(spec.sample_length, spec.max_length)
    length = rng.choice((rng.randint(0, 4), rng.randint(0, 12), rng.randint(0, longest)))
    length = min(max(length, spec.min_length), longest)
    if rng.random() < 0.35:  # few distinct values: many duplicates
        pool = [draw(spec.elements, rng) for _ in range(rng.randint(1, 3))]
        values = [rng.choice(pool) for _ in range(length)]
    else:
        values = [draw(spec.elements, rng) for _ in range(length)]
    order = rng.random()
    if order < 0.15:
        values.sort()
    elif order < 0.3:
        values.sort(reverse=True)
    return values if widen else _shaped(spec, values)


def _shaped(spec: ListSpec, values: list[Any]) -> list[Any]:
    """The list with the spec's order and distinctness, and no longer than allowed."""
    values = list(dict.fromkeys(values)) if spec.distinct else list(values)
    if spec.max_length is not None:
        values = values[: spec.max_length]
    return sorted(values) if spec.sorted else values


def _special(spec: StrSpec) -> list[str]:
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


def _string(spec: StrSpec, rng: random.Random) -> str:
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
        text = _mutate_items(text, rng, lambda: rng.choice(BRACKETS))
    if filler and rng.random() < 0.4:
        for _ in range(rng.randint(1, 4)):
            text.insert(rng.randrange(len(text) + 1), rng.choice("ab1 <>,\"'\n/é"))
    return "".join(text)


def _palindrome(rng: random.Random, length: int) -> str:
    """A palindrome by some reading: exact, ignoring case, ignoring punctuation; often with one flaw."""
    half = [
        rng.choice("abcABC019" + ("éΣ" if rng.random() < 0.2 else "")) for _ in range(max(1, length // 2))
    ]
    text = half + (half[-2::-1] if rng.random() < 0.5 else half[::-1])
    reading = rng.random()
    if reading < 0.4:
        text = [c.swapcase() if rng.random() < 0.3 else c for c in text]
    if 0.2 < reading < 0.7:
        for _ in range(rng.randint(1, 4)):
            text.insert(rng.randrange(len(text) + 1), rng.choice(" ,.!-_'\n:;²\u0301"))
    if rng.random() < 0.4:
        text = _mutate_items(text, rng, lambda: rng.choice("abAB01 _"))
    return "".join(text)
