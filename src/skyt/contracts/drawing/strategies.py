"""Hypothesis strategies for specs: values inside the domain and within the sizes that a contract wants."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from skyt.contracts.drawing.edges import arranged, edges
from skyt.contracts.drawing.texts import texts
from skyt.contracts.specs import (
    BoolSpec,
    BytesSpec,
    DictSpec,
    FloatSpec,
    GivenSpec,
    IntSpec,
    ListSpec,
    NoneSpec,
    OptionalSpec,
    RecordSpec,
    SetSpec,
    Spec,
    StrSpec,
    TupleSpec,
    UnionSpec,
    orderable,
    parts,
)

Values = st.SearchStrategy[Any]
_INNER = 6  # items of a container inside a container


def values(spec: Spec, depth: int = 0) -> Values:
    """Values of a spec, mostly small and structured; containers inside containers are short."""
    if isinstance(spec, IntSpec):
        return _integers(spec)
    if isinstance(spec, FloatSpec):
        return _floats(spec)
    if isinstance(spec, BoolSpec):
        return st.booleans()
    if isinstance(spec, NoneSpec):
        return st.none()
    if isinstance(spec, StrSpec):
        edge = edges(spec)
        return st.one_of([*[st.sampled_from(edge)] * bool(edge), *[texts(spec)] * 5])
    if isinstance(spec, BytesSpec):
        least, most = spec.sample_lengths
        return st.binary(min_size=least, max_size=min(most, least + 4)) | st.binary(
            min_size=least, max_size=most
        )
    if isinstance(spec, OptionalSpec):
        inside = values(spec.of, depth)
        return st.one_of(st.none(), inside, inside, inside)
    if isinstance(spec, UnionSpec):
        return st.one_of([values(option, depth) for option in spec.of])
    if isinstance(spec, RecordSpec):
        fields = st.fixed_dictionaries({name: values(part, depth) for name, part in spec.fields.items()})
        return fields.map(lambda found: {name: found[name] for name in spec.fields})
    if isinstance(spec, TupleSpec) and isinstance(spec.elements, tuple):
        return st.tuples(*(values(part, depth) for part in spec.elements))
    if isinstance(spec, GivenSpec):
        return st.nothing()
    least, most = spec.sample_lengths
    most = max(least, min(most, _INNER)) if depth else most
    if isinstance(spec, DictSpec):
        return _dicts(spec, least, most, depth)
    if isinstance(spec, ListSpec):
        return _lists(spec, values(spec.elements, depth + 1), least, most)
    items = values(parts(spec)[0], depth + 1)
    if isinstance(spec, TupleSpec):
        return _sizes(items, least, most).map(tuple)
    sets = [st.sets(items, min_size=least, max_size=high) for high in _steps(least, most)]
    return st.one_of(sets if isinstance(spec, SetSpec) else [some.map(frozenset) for some in sets])


def _integers(spec: IntSpec) -> Values:
    """Near zero or the lower bound, of every magnitude alike, anywhere, and the interesting ones."""
    low, high = spec.sample_range
    centre = min(max(0, low), high)
    near = st.integers(max(low, centre - 20), min(high, centre + 20))
    kinds = [near, near, st.integers(low, high), st.integers(low, high)]
    bits = max(abs(low), abs(high)).bit_length()
    if bits > 5:
        sized = st.integers(1, bits).flatmap(lambda n: st.integers(1 << (n - 1), (1 << n) - 1))
        if low < 0:
            sized = st.tuples(st.sampled_from([1, 1, -1]), sized).map(lambda pair: pair[0] * pair[1])
        kinds += [sized.map(lambda v: min(max(v, low), high))]
    if spec.interesting:
        kinds += [st.sampled_from(spec.interesting)]
    return st.one_of(kinds)


def _floats(spec: FloatSpec) -> Values:
    """Numbers with few digits, any within a thousand or the bounds, and the edges."""
    low, high = spec.sample_range
    anywhere = st.floats(low, high, allow_nan=False, allow_infinity=False)
    short = anywhere.map(lambda v: min(max(round(v, 2), low), high))
    whole = anywhere.map(lambda v: min(max(float(round(v)), low), high))
    return st.one_of(short, whole, anywhere, st.sampled_from(edges(spec) or [low]))


def _steps(least: int, most: int) -> list[int]:
    return sorted({max(least, min(step, most)) for step in (4, 12, most)})


def _sizes(items: Values, least: int, most: int) -> Values:
    """Lists of few items, of more, and of every length alike."""
    some = [st.lists(items, min_size=least, max_size=high) for high in _steps(least, most)]
    even = st.integers(least, most).flatmap(lambda n: st.lists(items, min_size=n, max_size=n))
    return st.one_of([*some, even])


def _lists(spec: ListSpec, items: Values, least: int, most: int) -> Values:
    """Lists, many with few distinct values, some in order and some in reverse."""
    if spec.distinct:
        unique = [st.lists(items, min_size=least, max_size=high, unique=True) for high in _steps(least, most)]
        return st.one_of(unique).map(lambda found: arranged(spec, found))
    few = st.lists(items, min_size=1, max_size=3).flatmap(
        lambda pool: _sizes(st.sampled_from(pool), least, most)
    )
    plain = st.one_of(_sizes(items, least, most), _sizes(items, least, most), few)
    if spec.sorted:
        return plain.map(sorted)
    if not orderable(spec.elements):
        return plain
    return st.one_of(plain, plain, plain.map(sorted), plain.map(lambda found: sorted(found, reverse=True)))


def _dicts(spec: DictSpec, least: int, most: int, depth: int) -> Values:
    """Dicts, many of whose keys have the same few values."""
    keys, items = values(spec.keys, depth + 1), values(spec.values, depth + 1)

    def filled(inside: Values) -> Values:
        return st.one_of(
            [st.dictionaries(keys, inside, min_size=least, max_size=n) for n in _steps(least, most)]
        )

    few = st.lists(items, min_size=1, max_size=2).flatmap(lambda pool: filled(st.sampled_from(pool)))
    return st.one_of(filled(items), filled(items), few)


def widened(spec: Spec) -> Spec:
    """The spec without its preconditions: the same types, any value."""
    if isinstance(spec, IntSpec):
        low, high = spec.sample_range
        return IntSpec(sample_min=min(low, -200), sample_max=max(high, 20))
    if isinstance(spec, FloatSpec):
        return FloatSpec(min=-1e6, max=1e6)
    if isinstance(spec, StrSpec):
        return StrSpec(sample_length=spec.sample_length, shape=spec.shape)
    free = {"min_length": 0, "max_length": None}
    if isinstance(spec, ListSpec):
        more = {"elements": widened(spec.elements), "sorted": False, "distinct": False}
        return spec.model_copy(update=free | more)
    return spec.model_copy(update=free) if isinstance(spec, BytesSpec | SetSpec | DictSpec) else spec
