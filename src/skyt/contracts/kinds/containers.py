"""Containers of one kind of elements: lists, tuples, sets."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pydantic

from skyt.contracts.kinds.kind import (
    Choose,
    Kind,
    Read,
    SearchStrategy,
    Sized,
    rearranged,
    rows,
    sizes,
    st,
    steps,
    usual_length,
)
from skyt.contracts.kinds.material import Material
from skyt.contracts.kinds.numbers import IntSpec

if TYPE_CHECKING:
    from skyt.contracts.specs import Spec


_FIXED = set(range(1, 9))  # lengths of tuples that are read as records
_SMALL = (1, 2, 3, 5)


class Container(Sized):
    """Values with elements that are all of one kind."""

    if TYPE_CHECKING:
        elements: Any

    @classmethod
    def described(cls, parts: list[ast.expr], values: list[Any] | None, read: Read) -> Kind | None:
        if values is None and not parts:
            return None
        items = None if values is None else [item for value in values for item in value]
        return cls(elements=read(parts[0] if parts else None, items), **usual_length(values))

    @classmethod
    def make(cls, items: Any) -> Any:
        return cls.values_of(items)

    @property
    def parts(self) -> tuple[Any, ...]:
        return (self.elements,)

    def fits(self, value: Any) -> bool:
        return self.fits_length(value) and all(self.elements.fits(item) for item in value)

    def coerced(self, value: Any) -> Any:
        if type(value) is not list:
            return value
        items = [self.elements.coerced(item) for item in value]
        try:
            return self.make(items)
        except TypeError:  # something that no set can have
            return value

    def candidates(self) -> list[Any]:
        edge = self.elements.edges()
        lists = [[], edge[:1], edge[-1:], edge[:2], edge[:2][::-1], edge[:3], edge[-1:] * 2]
        lists += [edge, edge[::-1], edge[:2] * 3]
        return [self.make(self.arranged(values)[: self.max_length]) for values in lists]

    def arranged(self, values: list[Any]) -> list[Any]:
        """The values with the order and distinctness that this kind wants."""
        return values

    def smaller(self, value: Any, choose: Choose) -> Any:
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return self.make(self.elements.smaller(item, choose) for item in items if choose(1, 1))

    @classmethod
    def varied(cls, value: Any, rng: random.Random, vary: Callable[[Any], Any]) -> Any:
        return cls.make(rearranged(list(value), rng, vary))

    def inner(self, source: Material, drawn: list[Any], most: int = 40) -> list[Any]:
        """Elements that constants suggest."""
        items = [item for value in drawn for item in value]
        return list(islice(self.elements.suggested(source, items), most))


class ListSpec(Container):
    """Lists of one kind of element, in ascending order when `sorted`, without repeats when `distinct`."""

    hints: ClassVar = (
        *("list", "List", "Sequence", "Iterable", "Collection"),
        *("Iterator", "Generator", "AsyncIterator"),
    )
    values_of: ClassVar = list
    mutable: ClassVar = True
    comparable: ClassVar = True
    reasoned: ClassVar = True
    type: Literal["list"] = "list"
    elements: Spec
    sorted: bool = False
    distinct: bool = False

    @pydantic.model_validator(mode="after")
    def _comparable(self) -> ListSpec:
        if self.sorted and not self.elements.orderable:
            raise ValueError(f"a list of {self.elements.type} cannot be sorted")
        if self.distinct and not self.elements.hashable:
            raise ValueError(f"a list of {self.elements.type} cannot be distinct")
        return self

    def fits(self, value: Any) -> bool:
        return (
            super().fits(value)
            and (not self.sorted or value == sorted(value))
            and (not self.distinct or len(set(value)) == len(value))
        )

    def affordable(self, value: Any) -> bool:
        return super().affordable(value) and _items_affordable(self.elements, value)

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        """Lists, many with few distinct values, some in order and some in reverse."""
        least, most = self.lengths(depth)
        items = self.elements.strategy(depth + 1)
        if self.distinct:
            unique = [st.lists(items, min_size=least, max_size=n, unique=True) for n in steps(least, most)]
            return st.one_of(unique).map(self.arranged)
        few = st.lists(items, min_size=1, max_size=3).flatmap(
            lambda pool: sizes(st.sampled_from(pool), least, most)
        )
        plain = st.one_of(sizes(items, least, most), sizes(items, least, most), few)
        if self.sorted:
            return plain.map(sorted)
        if not self.elements.orderable:
            return plain
        return st.one_of(
            plain, plain, plain.map(sorted), plain.map(lambda values: sorted(values, reverse=True))
        )

    def arranged(self, values: list[Any]) -> list[Any]:
        return self._in_order(list(dict.fromkeys(values)) if self.distinct else values)

    def smaller(self, value: Any, choose: Choose) -> Any:
        return self._in_order(super().smaller(value, choose))

    def _in_order(self, values: list[Any]) -> list[Any]:
        return sorted(values) if self.sorted else values

    def _suggested(self, source: Material, drawn: list[Any]) -> Iterator[Any]:
        inner = self.inner(source, drawn)
        for value in inner:
            old = source.rng.choice(drawn)
            cut = source.rng.randrange(len(old) + 1)
            longer = self._in_order([*old[:cut], value, *old[cut:]])
            yield from ([value], longer, [value, source.rng.choice(inner)])
        for size in source.sizes:
            yield from self._of_size(size, source, drawn)

    def _of_size(self, size: int, source: Material, drawn: list[Any]) -> Iterator[Any]:
        """Lists of exactly this size: of one element, of one but the last, and mixed."""
        if self.distinct and isinstance(self.elements, IntSpec):
            low = self.elements.sample_range[0]
            yield self._in_order([low + i for i in range(size)])
            return
        edge, choice = self.elements.edges(), source.rng.choice
        items = [item for value in drawn for item in value] or edge
        if not items:
            return
        mixed = [choice(items) for _ in range(min(size, 40))]
        special = list(islice(self.elements.suggested(replace(source, sizes=_SMALL), items), 40)) or items
        filler = choice([*edge, *special])
        yield [filler] * size
        yield self._in_order([filler] * (size - 1) + [choice(special)])
        yield self._in_order([mixed[i % len(mixed)] for i in range(size)])

    def widened(self) -> Kind:
        free = {"min_length": 0, "max_length": None, "sorted": False, "distinct": False}
        return self.model_copy(update={**free, "elements": self.elements.widened()})


class TupleSpec(Container):
    """Tuples: a list of specs, one for each place, or one spec for all places and a length."""

    hints: ClassVar = ("tuple", "Tuple")
    values_of: ClassVar = tuple
    comparable: ClassVar = True
    type: Literal["tuple"] = "tuple"
    elements: tuple[Spec, ...] | Spec

    @classmethod
    def described(cls, parts: list[ast.expr], values: list[Any] | None, read: Read) -> Kind | None:
        """A spec for each place where a hint says so, or where examples all have one short length."""
        endless = bool(parts) and isinstance(parts[-1], ast.Constant) and parts[-1].value is ...
        lengths = {len(value) for value in values or ()}
        if parts and not endless and lengths <= {len(parts)}:
            places = [None if values is None else [v[at] for v in values] for at in range(len(parts))]
            return cls(elements=tuple(map(read, parts, places)))
        if values is not None and not parts and len(values) > 1 and lengths <= _FIXED and len(lengths) == 1:
            return cls(elements=tuple(read(None, list(place)) for place in zip(*values, strict=True)))
        return super().described(parts[:1] if endless else [], values, read)

    @pydantic.model_validator(mode="after")
    def _fixed_have_no_length(self) -> TupleSpec:
        if isinstance(self.elements, tuple) and (self.min_length or self.max_length is not None):
            raise ValueError("a tuple with a spec for each place has that length")
        return self

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.elements if isinstance(self.elements, tuple) else (self.elements,)

    def fits(self, value: Any) -> bool:
        if not isinstance(self.elements, tuple):
            return super().fits(value)
        return (
            type(value) is tuple
            and len(value) == len(self.elements)
            and all(part.fits(item) for part, item in zip(self.elements, value, strict=True))
        )

    def coerced(self, value: Any) -> Any:
        if not isinstance(self.elements, tuple):
            return super().coerced(value)
        if type(value) is not list or len(value) != len(self.elements):
            return value
        return tuple(part.coerced(item) for part, item in zip(self.elements, value, strict=True))

    def affordable(self, value: Any) -> bool:
        if not super().affordable(value):
            return False
        if isinstance(self.elements, tuple) and isinstance(value, tuple):
            return all(part.affordable(item) for part, item in zip(self.elements, value, strict=False))
        return not self.parts or _items_affordable(self.parts[0], value)

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        if isinstance(self.elements, tuple):
            return st.tuples(*(part.strategy(depth) for part in self.elements))
        return sizes(self.elements.strategy(depth + 1), *self.lengths(depth)).map(tuple)

    def candidates(self) -> list[Any]:
        return rows(self.elements) if isinstance(self.elements, tuple) else super().candidates()

    def smaller(self, value: Any, choose: Choose) -> Any:
        if not isinstance(self.elements, tuple):
            return super().smaller(value, choose)
        return tuple(part.smaller(item, choose) for part, item in zip(self.elements, value, strict=True))

    def _suggested(self, source: Material, drawn: list[Any]) -> Iterator[Any]:
        if not isinstance(self.elements, tuple):
            for item in self.inner(source, drawn):
                old = source.rng.choice(drawn)
                cut = source.rng.randrange(len(old) + 1)
                yield (*old[:cut], item, *old[cut:])
            return
        for at, part in enumerate(self.elements):
            for item in islice(part.suggested(source, [value[at] for value in drawn]), 20):
                old = source.rng.choice(drawn)
                yield (*old[:at], item, *old[at + 1 :])

    def widened(self) -> Kind:
        return self


class _Hashing(Container):
    """Sets of one kind of element."""

    sample_length: int = pydantic.Field(default=12, ge=0)
    elements: Spec

    @pydantic.model_validator(mode="after")
    def _hashable(self) -> _Hashing:
        if not self.elements.hashable:
            raise ValueError(f"{self.elements.type} cannot be in a set")
        return self

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        least, most = self.lengths(depth)
        items = self.elements.strategy(depth + 1)
        sets = [st.sets(items, min_size=least, max_size=n) for n in steps(least, most)]
        return st.one_of([made if self.values_of is set else made.map(self.make) for made in sets])

    @classmethod
    def varied(cls, value: Any, rng: random.Random, vary: Callable[[Any], Any]) -> Any:
        return cls.make(rearranged(sorted(value, key=repr), rng, vary))

    def _suggested(self, source: Material, drawn: list[Any]) -> Iterator[Any]:
        for item in self.inner(source, drawn):
            yield source.rng.choice(drawn) | {item}


class SetSpec(_Hashing):
    hints: ClassVar = ("set", "Set", "AbstractSet")
    values_of: ClassVar = set
    mutable: ClassVar = True
    type: Literal["set"] = "set"


class FrozensetSpec(_Hashing):
    hints: ClassVar = ("frozenset", "FrozenSet")
    values_of: ClassVar = frozenset
    type: Literal["frozenset"] = "frozenset"

    def widened(self) -> Kind:
        return self


def _items_affordable(elements: Kind, value: Any) -> bool:
    """Integers in a container may be of any size."""
    if elements.type == "int" or not isinstance(value, list | tuple):
        return True
    return all(elements.affordable(item) for item in value)
