"""Numbers and the other values without parts: integers, floats, booleans, None, and values of any type."""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal

import pydantic

from skyt.contracts.kinds.kind import Choose, Kind, Read, SearchStrategy, between, st, towards, usual
from skyt.contracts.kinds.material import Material

Identifier = Annotated[str, pydantic.Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class IntSpec(Kind):
    """Integers. `min` and `max` are the domain; `sample_min` and `sample_max` only bound what is generated.

    `interesting` values are generated more often than others (squares of primes, say). `draw_from` names
    another parameter: from a list its elements and their neighbours are drawn half of the time, from an
    integer numbers that share factors with it.
    """

    hints: ClassVar = ("int",)
    values_of: ClassVar = int
    comparable: ClassVar = True
    reasoned: ClassVar = True
    type: Literal["int"] = "int"
    min: int | None = None
    max: int | None = None
    sample_min: int | None = None
    sample_max: int | None = None
    interesting: tuple[int, ...] = ()
    draw_from: Identifier | None = None

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> IntSpec:
        low, high = self.sample_range
        if low > high:
            raise ValueError(f"nothing lies between {low} and {high}")
        return self

    @classmethod
    def described(cls, parts: list[ast.expr], values: list[Any] | None, read: Read) -> Kind | None:
        return None if parts else cls(**usual(values))

    @property
    def sample_range(self) -> tuple[int, int]:
        low = self.sample_min if self.sample_min is not None else self.min
        high = self.sample_max if self.sample_max is not None else self.max
        if low is None:
            low = min(-1000, high if high is not None else 0)
        if high is None:
            high = max(1000, low)
        return max(low, self.min if self.min is not None else low), min(
            high, self.max if self.max is not None else high
        )

    def fits(self, value: Any) -> bool:
        return type(value) is int and between(self.min, value, self.max)

    def affordable(self, value: Any) -> bool:
        low, high = self.sample_range
        return type(value) is not int or low <= value <= high or value in self.interesting

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        """Near zero or the lower bound, of every magnitude alike, anywhere, and the interesting ones."""
        low, high = self.sample_range
        centre = min(max(0, low), high)
        near = st.integers(max(low, centre - 20), min(high, centre + 20))
        kinds = [near, near, st.integers(low, high), st.integers(low, high)]
        bits = max(abs(low), abs(high)).bit_length()
        if bits > 5:
            sized = st.integers(1, bits).flatmap(lambda n: st.integers(1 << (n - 1), (1 << n) - 1))
            if low < 0:
                sized = st.tuples(st.sampled_from([1, 1, -1]), sized).map(lambda pair: pair[0] * pair[1])
            kinds += [sized.map(lambda v: min(max(v, low), high))]
        if self.interesting:
            kinds += [st.sampled_from(self.interesting)]
        return st.one_of(kinds)

    def candidates(self) -> list[Any]:
        low, high = self.sample_range
        middle = [v for v in (-2, -1, 0, 1, 2, 3, 4, 5, 9, 10) if low <= v <= high]
        return sorted({low, min(low + 1, high), *middle, *self.interesting, max(high - 1, low), high})

    def smaller(self, value: Any, choose: Choose) -> Any:
        return towards(value, self.min, self.max, choose)

    @classmethod
    def varied(cls, value: Any, rng: random.Random, vary: Callable[[Any], Any]) -> Any:
        return value + rng.choice((-2, -1, -1, 1, 1, 2, 10, -value, value, -(value // 2)))

    def _suggested(self, source: Material, drawn: list[Any]) -> Iterator[Any]:
        return iter(source.constants.numbers)

    def widened(self) -> Kind:
        low, high = self.sample_range
        return IntSpec(sample_min=min(low, -200), sample_max=max(high, 20))

    def bound(self, key: str, value: Any) -> dict[str, Any] | None:
        if key in ("gt", "lt") and type(value) is int:
            return {"min": value + 1} if key == "gt" else {"max": value - 1}
        return _inclusive(key, value)


class FloatSpec(Kind):
    """Finite floating-point numbers. `sample_min` and `sample_max` only bound what is generated."""

    hints: ClassVar = ("float",)
    values_of: ClassVar = float
    comparable: ClassVar = True
    reasoned: ClassVar = True
    type: Literal["float"] = "float"
    min: float | None = None
    max: float | None = None
    sample_min: float | None = None
    sample_max: float | None = None

    @classmethod
    def described(cls, parts: list[ast.expr], values: list[Any] | None, read: Read) -> Kind | None:
        return None if parts else cls(**usual([*filter(math.isfinite, values or ())]))

    @property
    def sample_range(self) -> tuple[float, float]:
        low = self.min if self.sample_min is None else self.sample_min
        high = self.max if self.sample_max is None else self.sample_max
        low = min(-1e3, 0.0 if high is None else high) if low is None else low
        return low, max(1e3, low) if high is None else high

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> FloatSpec:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"nothing lies between {self.min} and {self.max}")
        return self

    def fits(self, value: Any) -> bool:
        return type(value) is float and abs(value) < float("inf") and between(self.min, value, self.max)

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        """Numbers with few digits, any within a thousand or the bounds, and the edges."""
        low, high = self.sample_range
        anywhere = st.floats(low, high, allow_nan=False, allow_infinity=False)
        short = anywhere.map(lambda v: min(max(round(v, 2), low), high))
        whole = anywhere.map(lambda v: min(max(float(round(v)), low), high))
        return st.one_of(short, whole, anywhere, st.sampled_from(self.edges() or [low]))

    def candidates(self) -> list[Any]:
        least, most = self.sample_range
        middle = [v for v in (-1.0, -0.0, 0.0, 0.5, 1.0) if least <= v <= most]
        return [v for v in (self.min, *middle, self.max) if v is not None]

    def smaller(self, value: Any, choose: Choose) -> Any:
        """A number with fewer decimals, or nearer to the simplest with as many."""
        exact = next((n for n in range(3) if repr(round(value * 10**n) / 10**n) == repr(value)), 3)
        decimals = choose(exact, 3)
        if decimals == 3:
            return value
        unit = float(10**decimals)
        low = None if self.min is None else math.ceil(self.min * unit)
        high = None if self.max is None else math.floor(self.max * unit)
        return towards(round(value * unit), low, high, choose) / unit

    @classmethod
    def varied(cls, value: Any, rng: random.Random, vary: Callable[[Any], Any]) -> Any:
        if not math.isfinite(value):
            return value
        return rng.choice(
            (value + 1.0, value - 1.0, value * 0.5, -value, float(round(value)), round(value, 1))
        )

    def _suggested(self, source: Material, drawn: list[Any]) -> Iterator[Any]:
        yield from source.constants.floats
        yield from (float(n) for n in source.constants.numbers if abs(n) < 2**53)

    def widened(self) -> Kind:
        return FloatSpec(min=-1e6, max=1e6)

    def bound(self, key: str, value: Any) -> dict[str, Any] | None:
        return _inclusive(key, value)


class BoolSpec(Kind):
    hints: ClassVar = ("bool",)
    values_of: ClassVar = bool
    comparable: ClassVar = True
    reasoned: ClassVar = True
    type: Literal["bool"] = "bool"

    def fits(self, value: Any) -> bool:
        return type(value) is bool

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        return st.booleans()

    def candidates(self) -> list[Any]:
        return [False, True]

    def smaller(self, value: Any, choose: Choose) -> Any:
        return bool(choose(int(value), 1))

    @classmethod
    def varied(cls, value: Any, rng: random.Random, vary: Callable[[Any], Any]) -> Any:
        return rng.random() < 0.5


class NoneSpec(Kind):
    hints: ClassVar = ("None",)
    values_of: ClassVar = NoneType
    type: Literal["none"] = "none"

    def fits(self, value: Any) -> bool:
        return value is None

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        return st.none()


class GivenSpec(Kind):
    """Values of any type, of which none can be generated: only the calls that a contract lists are made."""

    type: Literal["given"] = "given"

    def fits(self, value: Any) -> bool:
        return True

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        return st.nothing()


def _inclusive(key: str, value: Any) -> dict[str, Any] | None:
    applies = key in ("ge", "le") and type(value) in (int, float)
    return {"min" if key == "ge" else "max": value} if applies else None
