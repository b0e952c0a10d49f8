"""What a corruption type is: a formula on one sequence's keys or values under a mask, with a severity.

A type is one file in this folder: a registered class whose fields are its settings, `corruption.params`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import Field
from torch import Tensor

from cachemedicpp.corruption.masks import AxesConfig
from cachemedicpp.corruption.streams import Stream
from homeostat.core.config import ConfigModel
from homeostat.core.registry import Registry, Shown


@dataclass(frozen=True)
class Site:
    """Where a corruption acts: which layer, keys or values, and the clean KV of the donor prompt there."""

    layer: int
    tensor: str  # "K" or "V"
    donor: Tensor | None = None  # [H_kv, T_donor, d]


class Corruption(ConfigModel):
    """One type of damage. Its fields are its severity where no epsilon is given, and go on record.

    A field with `exclude=True` is not a setting: an epsilon, or a draw, fills it.
    """

    name: ClassVar[str]
    weight: ClassVar[float] = 0.0  # in the default mixture `Pi`
    needs_donor: ClassVar[bool] = False
    donor: int = Field(0, exclude=True, description="which donor text was drawn, for types that need one")

    @abstractmethod
    def at(self, epsilon: float) -> Self:
        """This type at severity epsilon: the identity at 0, and more damage for larger values."""

    @property
    @abstractmethod
    def is_identity(self) -> bool:
        """True where the severity is zero: the cache is then left as it is, not recomputed."""

    @abstractmethod
    def apply(self, x: Tensor, mask: Tensor, stream: Stream, site: Site) -> Tensor:
        """Damage `x` `[H, T, d]` (float32) where `mask` `[H, T]` is true. Draws come from `stream`."""

    def severity(self) -> dict[str, float]:
        """The numbers that describe the severity, for the record."""
        return self.model_dump()

    def fitted(self, positions: int, focus: int | None) -> Self:
        """This type for a cache in which damage reaches `positions`; `focus` is the one that matters most."""
        return self

    def drawn(self, stream: Stream) -> Self:
        """This type with whatever it draws once per sequence (a rotation, a donor) drawn from `stream`."""
        return self

    def drawn_record(self) -> dict[str, str]:
        """What was drawn once, for the record, as text: seeds are too large for a JSON number."""
        return {}

    def positions(self, time: Tensor, axes: AxesConfig) -> Tensor:
        """Which positions `[T]` may be touched, given those the time mask allows."""
        return time

    def but(self, **fields: Any) -> Self:
        """A copy with other fields."""
        return self.model_copy(update=fields)


CORRUPTIONS: Registry[type[Corruption]] = Registry("corruption type", "cachemedicpp.corruption")


def register(
    name: str, label: str = "", means: str = "", *, weight: float = 0.0, order: int = 100
) -> Callable[[type[Corruption]], type[Corruption]]:
    """Make a type available under a name. Pages call it `label`; `weight` is its share of `Pi`."""

    def add(cls: type[Corruption]) -> type[Corruption]:
        cls.name, cls.weight = name, weight
        return CORRUPTIONS.add(name, cls, Shown("damage", label or name, means, order=order))

    return add


def fraction(epsilon: float) -> float:
    """An epsilon that stands for a share of elements or positions: never more than all of them."""
    return min(epsilon, 1.0)


def under(mask: Tensor, damaged: Tensor, x: Tensor) -> Tensor:
    """`damaged` where the mask `[H, T]` is true, `x` elsewhere."""
    return damaged.where(mask.unsqueeze(-1), x)
