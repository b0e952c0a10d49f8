"""Containers of one kind of elements: lists, tuples, sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pydantic

from skyt.contracts.facts import Facts
from skyt.contracts.kinds.kind import Choose, Kind, Sized, rows, sizes, steps

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from skyt.contracts.specs import Spec


class Container(Sized):
    """Values with elements that are all of one kind."""

    make: ClassVar[type[Any]] = list

    if TYPE_CHECKING:
        elements: Any

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


class ListSpec(Container):
    """Lists of one kind of element, in ascending order when `sorted`, without repeats when `distinct`."""

    hints: ClassVar = (
        *("list", "List", "Sequence", "Iterable", "Collection"),
        *("Iterator", "Generator", "AsyncIterator"),
    )
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

    @property
    def hashable(self) -> bool:
        return False

    @property
    def orderable(self) -> bool:
        return self.elements.orderable

    @property
    def facts(self) -> Facts:
        return Facts(
            type="list",
            min_length=self.min_length,
            max_length=self.max_length,
            sorted=self.sorted,
            distinct=self.distinct,
            elements=self.elements.facts,
        )

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
        from hypothesis import strategies as st

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
            plain, plain, plain.map(sorted), plain.map(lambda found: sorted(found, reverse=True))
        )

    def arranged(self, values: list[Any]) -> list[Any]:
        values = list(dict.fromkeys(values)) if self.distinct else values
        return sorted(values) if self.sorted else values

    def smaller(self, value: Any, choose: Choose) -> Any:
        made = super().smaller(value, choose)
        return sorted(made) if self.sorted else made

    def widened(self) -> Kind:
        free = {"min_length": 0, "max_length": None, "sorted": False, "distinct": False}
        return self.model_copy(update={**free, "elements": self.elements.widened()})


class TupleSpec(Container):
    """Tuples: a list of specs, one for each place, or one spec for all places and a length."""

    make: ClassVar = tuple
    type: Literal["tuple"] = "tuple"
    elements: tuple[Spec, ...] | Spec

    @pydantic.model_validator(mode="after")
    def _fixed_have_no_length(self) -> TupleSpec:
        if isinstance(self.elements, tuple) and (self.min_length or self.max_length is not None):
            raise ValueError("a tuple with a spec for each place has that length")
        return self

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.elements if isinstance(self.elements, tuple) else (self.elements,)

    @property
    def hashable(self) -> bool:
        return all(part.hashable for part in self.parts)

    @property
    def orderable(self) -> bool:
        return all(part.orderable for part in self.parts)

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
        from hypothesis import strategies as st

        if isinstance(self.elements, tuple):
            return st.tuples(*(part.strategy(depth) for part in self.elements))
        return sizes(self.elements.strategy(depth + 1), *self.lengths(depth)).map(tuple)

    def candidates(self) -> list[Any]:
        return rows(self.elements) if isinstance(self.elements, tuple) else super().candidates()

    def smaller(self, value: Any, choose: Choose) -> Any:
        if not isinstance(self.elements, tuple):
            return super().smaller(value, choose)
        return tuple(part.smaller(item, choose) for part, item in zip(self.elements, value, strict=True))


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
        from hypothesis import strategies as st

        least, most = self.lengths(depth)
        items = self.elements.strategy(depth + 1)
        return st.one_of([self.of(st.sets(items, min_size=least, max_size=n)) for n in steps(least, most)])

    def of(self, sets: SearchStrategy[Any]) -> SearchStrategy[Any]:
        return sets


class SetSpec(_Hashing):
    hints: ClassVar = ("set", "Set", "AbstractSet")
    make: ClassVar = set
    type: Literal["set"] = "set"

    @property
    def hashable(self) -> bool:
        return False

    def widened(self) -> Kind:
        return self.model_copy(update={"min_length": 0, "max_length": None})


class FrozensetSpec(_Hashing):
    hints: ClassVar = ("frozenset", "FrozenSet")
    make: ClassVar = frozenset
    type: Literal["frozenset"] = "frozenset"

    def of(self, sets: SearchStrategy[Any]) -> SearchStrategy[Any]:
        return sets.map(frozenset)


def _items_affordable(elements: Kind, value: Any) -> bool:
    """Integers in a container may be of any size."""
    if elements.type == "int" or not isinstance(value, list | tuple):
        return True
    return all(elements.affordable(item) for item in value)
