"""The values at the edges of a spec, the smallest first: every contract is tried on these before others."""

from __future__ import annotations

from typing import Any

from skyt.contracts.membership import fits
from skyt.contracts.specs import (
    BoolSpec,
    BytesSpec,
    DictSpec,
    FloatSpec,
    FrozensetSpec,
    IntSpec,
    ListSpec,
    OptionalSpec,
    RecordSpec,
    SetSpec,
    Spec,
    StrSpec,
    TupleSpec,
    UnionSpec,
    parts,
)

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


def edges(spec: Spec) -> list[Any]:
    """Values at the edges of a spec; every one is in its domain."""
    return [value for value in _edges(spec) if fits(spec, value)]


def _edges(spec: Spec) -> list[Any]:
    if isinstance(spec, IntSpec):
        low, high = spec.sample_range
        middle = [v for v in (-2, -1, 0, 1, 2, 3, 4, 5, 9, 10) if low <= v <= high]
        return sorted({low, min(low + 1, high), *middle, *spec.interesting, max(high - 1, low), high})
    if isinstance(spec, FloatSpec):
        least, most = spec.sample_range
        between = [v for v in (-1.0, -0.0, 0.0, 0.5, 1.0) if least <= v <= most]
        return [v for v in (spec.min, *between, spec.max) if v is not None]
    if isinstance(spec, BoolSpec):
        return [False, True]
    if isinstance(spec, StrSpec):
        known = [*_SHORT, *_TELLING[spec.shape]]
        letters = spec.sample_alphabet
        return known if letters is None else [text for text in known if set(text) <= set(letters)]
    if isinstance(spec, BytesSpec):
        return [b"", b"\x00", b"a", b"ab", b"\xff\x00"]
    if isinstance(spec, OptionalSpec):
        return [None, *edges(spec.of)]
    if isinstance(spec, UnionSpec):
        return [value for option in spec.of for value in edges(option)[:8]]
    if isinstance(spec, RecordSpec):
        return [dict(zip(spec.fields, row, strict=True)) for row in _rows(spec.fields.values())]
    if isinstance(spec, TupleSpec) and isinstance(spec.elements, tuple):
        return _rows(spec.elements)
    if isinstance(spec, DictSpec):
        keys, values = edges(spec.keys), edges(spec.values) or [None]
        pairs = [(key, values[i % len(values)]) for i, key in enumerate(keys)]
        same = [(key, values[-1]) for key in keys[:3]]
        some: tuple[list[tuple[Any, Any]], ...] = ([], pairs[:1], pairs[:2], pairs[:2][::-1], same, pairs)
        return [dict(chosen[: spec.max_length]) for chosen in some]
    if isinstance(spec, ListSpec | TupleSpec | SetSpec | FrozensetSpec):
        return _containers(spec, edges(parts(spec)[0]))
    return [None]


def _rows(specs: Any) -> list[tuple[Any, ...]]:
    """One value for each place: the first ones, the second ones, and so on."""
    columns = [edges(spec) for spec in specs]
    if not all(columns):
        return []
    return [tuple(col[i % len(col)] for col in columns) for i in range(max(map(len, columns), default=1))]


def _containers(spec: ListSpec | TupleSpec | SetSpec | FrozensetSpec, edge: list[Any]) -> list[Any]:
    lists = [[], edge[:1], edge[-1:], edge[:2], edge[:2][::-1], edge[:3], edge[-1:] * 2]
    lists += [edge, edge[::-1], edge[:2] * 3]
    if isinstance(spec, ListSpec):
        lists = [arranged(spec, values) for values in lists]
    kind: Any = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[spec.type]
    return [kind(values[: spec.max_length]) for values in lists]


def arranged(spec: ListSpec, values: list[Any]) -> list[Any]:
    """The list with the order and distinctness of its spec."""
    values = list(dict.fromkeys(values)) if spec.distinct else values
    return sorted(values) if spec.sorted else values
