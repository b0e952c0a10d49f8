"""What every kind of values can do: tell its members, draw them, vary them, make them smaller."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pydantic

from homeostat.core.config import ConfigModel
from skyt.contracts.facts import UNKNOWN, Facts
from skyt.contracts.kinds.material import Material

if TYPE_CHECKING:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
else:

    class _Strategies:
        """hypothesis.strategies, imported when values are first drawn: that takes longer than the rest."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("hypothesis.strategies"), name)

    st, SearchStrategy = _Strategies(), object

__all__ = ["HINTS", "KINDS", "VALUES", "Choose", "Kind", "Read", "SearchStrategy", "Sized", "between"]
__all__ += ["rows", "sizes", "st", "steps", "towards"]

# The choice of the value at hand and the greatest choice -> the choice of a simpler value.
Choose = Callable[[int, int], int]
# A type hint and examples of its values, either of them None where there is none -> the kind.
Read = Callable[[ast.expr | None, list[Any] | None], "Kind"]
INNER = 6  # items of a container inside a container

KINDS: dict[str, type[Kind]] = {}  # by the name that contracts use
HINTS: dict[str, type[Kind]] = {}  # by the names of annotations
VALUES: dict[type, type[Kind]] = {}  # by the Python type of their values


class Kind(ConfigModel):
    """A kind of values, with the bounds that a contract sets."""

    hints: ClassVar[tuple[str, ...]] = ()  # names of annotations
    values_of: ClassVar[Any] = None  # the Python type whose values are read as this kind
    mutable: ClassVar[bool] = False  # its values cannot be in a set
    comparable: ClassVar[bool] = False  # any two of its values can be compared by size
    reasoned: ClassVar[bool] = False  # rewriting rules know the type

    if TYPE_CHECKING:
        type: str

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "type" in cls.model_fields:
            KINDS[cls.model_fields["type"].default] = cls
            HINTS.update(dict.fromkeys(cls.hints, cls))
            if cls.values_of is not None:
                VALUES[cls.values_of] = cls

    @classmethod
    def described(cls, parts: list[ast.expr], values: list[Any] | None, read: Read) -> Kind | None:
        """The kind that a type hint with these parts and these examples describe; None: they do not.

        Examples say how large drawn values are. They never become a bound of the domain: rewriting rules
        believe what a domain says, and examples do not say what is excluded.
        """
        return None if parts else cls()  # type: ignore[call-arg]  # its type has a default

    @property
    def parts(self) -> tuple[Any, ...]:
        """The kinds directly inside this one."""
        return ()

    @property
    def hashable(self) -> bool:
        return not self.mutable and all(part.hashable for part in self.parts)

    @property
    def orderable(self) -> bool:
        return self.comparable and all(part.orderable for part in self.parts)

    @property
    def facts(self) -> Facts:
        """What rewriting rules may take for granted of every value."""
        if not self.reasoned:
            return Facts(type=UNKNOWN)
        own = {name: getattr(self, name, None) for name in Facts.model_fields}
        stated = {name: value for name, value in own.items() if value is not None}
        return Facts(**{n: v.facts if isinstance(v, Kind) else v for n, v in stated.items()})

    def fits(self, value: Any) -> bool:
        """Membership, by exact type: True is not an int."""
        raise NotImplementedError

    def coerced(self, value: Any) -> Any:
        """The value with lists made tuples and sets where this kind has them; as it is if nothing fits."""
        return value

    def affordable(self, value: Any) -> bool:
        """Whether a value is within the sizes that the contract wants to be generated."""
        return True

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        """A strategy, mostly of small and structured values; containers inside containers are short."""
        raise NotImplementedError

    def edges(self) -> list[Any]:
        """The values at the edges, the smallest first: every contract is tried on these before others."""
        return [value for value in self.candidates() if self.fits(value)]

    def candidates(self) -> list[Any]:
        """What may be at the edges, if it fits."""
        return [None]

    def smaller(self, value: Any, choose: Choose) -> Any:
        """The value, or a simpler one."""
        return value

    @classmethod
    def varied(cls, value: Any, rng: random.Random, vary: Callable[[Any], Any]) -> Any:
        """A value of the same Python type, one small step away; `vary` takes such a step inside it."""
        return value

    def suggested(self, source: Material, drawn: list[Any]) -> Iterator[Any]:
        """Values that the constants of two programs suggest. `drawn` are values that were drawn before."""
        drawn = [value for value in drawn if self.fits(value)] or self.edges()
        if drawn:
            yield from self._suggested(source, drawn)

    def _suggested(self, source: Material, drawn: list[Any]) -> Iterator[Any]:
        return iter(())

    def widened(self) -> Kind:
        """The same types without preconditions: any value."""
        return self

    def bound(self, key: str, value: Any) -> dict[str, Any] | None:
        """The fields that a bound of an annotation sets, such as `ge=0`; None: it has no such bound."""
        applies = key in ("min_length", "max_length") and key in type(self).model_fields
        return {key: value} if applies else None


class Sized(Kind):
    """Values with a length. `sample_length` only bounds what is generated."""

    min_length: int = pydantic.Field(default=0, ge=0)
    max_length: int | None = None
    sample_length: int = pydantic.Field(default=40, ge=0)

    @pydantic.model_validator(mode="after")
    def _some_length(self) -> Self:
        if self.max_length is not None and self.max_length < self.min_length:
            raise ValueError(f"no length lies between {self.min_length} and {self.max_length}")
        return self

    @property
    def sample_lengths(self) -> tuple[int, int]:
        """The least and the greatest length that is generated."""
        most = self.sample_length if self.max_length is None else min(self.sample_length, self.max_length)
        return self.min_length, max(self.min_length, most)

    def fits_length(self, value: Any) -> bool:
        return type(value) is self.values_of and between(self.min_length, len(value), self.max_length)

    def affordable(self, value: Any) -> bool:
        return len(value) <= 2 * max(self.sample_length, self.min_length)

    def lengths(self, depth: int) -> tuple[int, int]:
        least, most = self.sample_lengths
        return least, max(least, min(most, INNER)) if depth else most

    def widened(self) -> Kind:
        return self.model_copy(update={"min_length": 0, "max_length": None})


def between(low: float | None, value: float, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def usual(values: Sequence[Any] | None) -> dict[str, Any]:
    """The range of drawn numbers after examples: all but the outermost twentieth of them at each end, since
    outliers are rare and expensive. Numbers that are never negative begin at the least of them."""
    if not values:
        return {}
    ordered = sorted(values)
    cut = len(ordered) // 20
    low = ordered[0] if ordered[0] >= 0 else ordered[cut]
    return {"sample_min": low, "sample_max": ordered[-1 - cut]}


def usual_length(values: list[Any] | None, least: int = 2) -> dict[str, int]:
    """The length of drawn values after examples: that of all but the longest twentieth."""
    if values is None:
        return {}
    lengths: list[int] = sorted(len(value) for value in values)
    return {"sample_length": max(least, lengths[-1 - len(lengths) // 20] if lengths else 4)}


def rearranged(items: list[Any], rng: random.Random, vary: Callable[[Any], Any]) -> list[Any]:
    """One item repeated, dropped, moved or varied, or a stretch of them repeated, reversed or left out."""
    if not items:
        return items
    at, other = sorted((rng.randrange(len(items)), rng.randrange(len(items))))
    match rng.randrange(7):
        case 0:
            items.insert(other, items[at])
        case 1:
            del items[at]
        case 2:
            items[at], items[other] = items[other], items[at]
        case 3 if type(items[at]) is not str or len(items[at]) > 1:
            items[at] = vary(items[at])
        case 4:
            items[at:other] = reversed(items[at:other])
        case 5:
            items = items[at:] if rng.random() < 0.5 else items[:other]
        case _:
            items[at:at] = items[at:other][: max(1, 40 - len(items))]
    return items


def steps(least: int, most: int) -> list[int]:
    return sorted({max(least, min(step, most)) for step in (4, 12, most)})


def sizes(items: SearchStrategy[Any], least: int, most: int) -> SearchStrategy[Any]:
    """Lists of few items, of more, and of every length alike."""
    some = [st.lists(items, min_size=least, max_size=high) for high in steps(least, most)]
    even = st.integers(least, most).flatmap(lambda n: st.lists(items, min_size=n, max_size=n))
    return st.one_of([*some, even])


def towards(value: int, low: int | None, high: int | None, choose: Choose) -> int:
    """A number between the simplest of the domain and this one."""
    simple = max(0, low) if low is not None else 0
    simple = min(simple, high) if high is not None else simple
    distance = choose(abs(value - simple), abs(value - simple))
    return simple + distance if value > simple else simple - distance


def rows(kinds: Any) -> list[tuple[Any, ...]]:
    """One edge for each place: the first ones, the second ones, and so on."""
    columns = [kind.edges() for kind in kinds]
    if not all(columns):
        return []
    return [tuple(col[i % len(col)] for col in columns) for i in range(max(map(len, columns), default=1))]
