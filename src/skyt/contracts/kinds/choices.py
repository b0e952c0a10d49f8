"""Values of one of several kinds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic

from skyt.contracts.kinds.kind import Choose, Kind, SearchStrategy, st
from skyt.contracts.kinds.material import Material

if TYPE_CHECKING:
    from skyt.contracts.specs import Spec


class Choice(Kind):
    """A value of one of the kinds in `parts`."""

    def fits(self, value: Any) -> bool:
        return any(part.fits(value) for part in self.parts)

    def coerced(self, value: Any) -> Any:
        if value is None or self.fits(value):
            return value
        made = ((part, part.coerced(value)) for part in self.parts)
        return next((new for part, new in made if part.fits(new)), value)

    def affordable(self, value: Any) -> bool:
        return value is None or any(part.fits(value) and part.affordable(value) for part in self.parts)

    def smaller(self, value: Any, choose: Choose) -> Any:
        return next(part for part in self.parts if part.fits(value)).smaller(value, choose)

    def _suggested(self, source: Material, drawn: list[Any]) -> Iterator[Any]:
        for part in self.parts:
            yield from islice(part.suggested(source, drawn), 40)


class OptionalSpec(Choice):
    """None, or a value of a spec."""

    type: Literal["optional"] = "optional"
    of: Spec

    @property
    def parts(self) -> tuple[Any, ...]:
        return (self.of,)

    def fits(self, value: Any) -> bool:
        return value is None or self.of.fits(value)

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        inside = self.of.strategy(depth)
        return st.one_of(st.none(), inside, inside, inside)

    def candidates(self) -> list[Any]:
        return [None, *self.of.edges()]

    def smaller(self, value: Any, choose: Choose) -> Any:
        return None if value is None or not choose(1, 1) else self.of.smaller(value, choose)


class UnionSpec(Choice):
    """A value of any of several specs."""

    type: Literal["union"] = "union"
    of: Annotated[tuple[Spec, ...], pydantic.Field(min_length=1)]

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.of

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        return st.one_of([option.strategy(depth) for option in self.of])

    def candidates(self) -> list[Any]:
        return [value for option in self.of for value in option.edges()[:8]]
