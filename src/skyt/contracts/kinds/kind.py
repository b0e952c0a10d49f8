"""What every kind of values can do: tell its members, draw them, make them smaller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pydantic

from homeostat.core.config import ConfigModel
from skyt.contracts.facts import UNKNOWN, Facts

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Choose = Callable[
    [int, int], int
]  # what the given value chose and the greatest choice -> this value's choice
INNER = 6  # items of a container inside a container


class Kind(ConfigModel):
    """A kind of values, with the bounds that a contract sets."""

    hints: ClassVar[tuple[str, ...]] = ()  # the names of annotations that say it

    if TYPE_CHECKING:
        type: str

    @property
    def parts(self) -> tuple[Any, ...]:
        """The kinds directly inside this one."""
        return ()

    @property
    def hashable(self) -> bool:
        """Whether every value can be in a set."""
        return True

    @property
    def orderable(self) -> bool:
        """Whether any two values can be compared by size."""
        return False

    @property
    def facts(self) -> Facts:
        """What rewriting rules may take for granted of every value."""
        return Facts(type=UNKNOWN)

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

    def widened(self) -> Kind:
        """The same types without preconditions: any value."""
        return self

    def bound(self, key: str, value: Any) -> dict[str, Any] | None:
        """The fields that a bound of an annotation sets, such as `ge=0`; None: it has no such bound."""
        known = key in ("min_length", "max_length") and key in type(self).model_fields
        return {key: value} if known else None


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
        return type(value).__name__ == self.type and between(self.min_length, len(value), self.max_length)

    def affordable(self, value: Any) -> bool:
        return len(value) <= 2 * max(self.sample_length, self.min_length)

    def lengths(self, depth: int) -> tuple[int, int]:
        least, most = self.sample_lengths
        return least, max(least, min(most, INNER)) if depth else most


def between(low: float | None, value: float, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def steps(least: int, most: int) -> list[int]:
    return sorted({max(least, min(step, most)) for step in (4, 12, most)})


def sizes(items: SearchStrategy[Any], least: int, most: int) -> SearchStrategy[Any]:
    """Lists of few items, of more, and of every length alike."""
    from hypothesis import strategies as st

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
