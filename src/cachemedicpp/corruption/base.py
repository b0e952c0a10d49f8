"""What a corruption type is: a formula on one sequence's keys or values under a mask, with a severity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor

from cachemedicpp.corruption.config import AxesConfig, CorruptionParams
from cachemedicpp.corruption.streams import Stream
from homeostat.core.errors import UserError, nearest


@dataclass(frozen=True)
class Site:
    """Where a corruption acts: which layer, keys or values, and the clean KV of the donor prompt there."""

    layer: int
    tensor: str  # "K" or "V"
    donor: Tensor | None = None  # [H_kv, T_donor, d]


class Corruption(ABC):
    """One type of damage. Subclasses are frozen dataclasses whose fields are the severity."""

    name: ClassVar[str]
    needs_donor: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def from_params(cls, params: CorruptionParams) -> Self:
        """This type at the severity that the configuration names."""

    @classmethod
    @abstractmethod
    def from_epsilon(cls, epsilon: float, params: CorruptionParams) -> Self:
        """This type at severity epsilon: the identity at 0, and more damage for larger values."""

    @abstractmethod
    def severity(self) -> dict[str, float]:
        """The numbers that describe the severity, for the record."""

    @property
    @abstractmethod
    def is_identity(self) -> bool:
        """True where the severity is zero: the cache is then left as it is, not recomputed."""

    @abstractmethod
    def apply(self, x: Tensor, mask: Tensor, stream: Stream, site: Site) -> Tensor:
        """Damage `x` `[H, T, d]` (float32) where `mask` `[H, T]` is true. Draws come from `stream`."""

    def axes(self, axes: AxesConfig) -> AxesConfig:
        """The masks this type uses; most take them as configured."""
        return axes

    def drawn(self, stream: Stream) -> Self:
        """This type with whatever it draws once per sequence (a rotation, a donor) drawn from `stream`."""
        return self

    def positions(self, time: Tensor, axes: AxesConfig) -> Tensor:
        """Which positions `[T]` may be touched, given those the time mask allows."""
        return time


REGISTRY: dict[str, type[Corruption]] = {}


def register(name: str) -> Callable[[type[Corruption]], type[Corruption]]:
    """Make a type available under a name."""

    def add(cls: type[Corruption]) -> type[Corruption]:
        cls.name = name
        REGISTRY[name] = cls
        return cls

    return add


def corruption_type(name: str) -> type[Corruption]:
    if name not in REGISTRY:
        raise UserError(f"unknown corruption type {name!r}; {nearest(name, REGISTRY)}")
    return REGISTRY[name]


def fraction(epsilon: float) -> float:
    """An epsilon that stands for a share of elements or positions: never more than all of them."""
    return min(epsilon, 1.0)


def under(mask: Tensor, damaged: Tensor, x: Tensor) -> Tensor:
    """`damaged` where the mask `[H, T]` is true, `x` elsewhere."""
    return damaged.where(mask.unsqueeze(-1), x)
