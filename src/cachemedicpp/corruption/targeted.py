"""Any other type, aimed at chosen layers or KV heads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from cachemedicpp.corruption.base import Corruption, Site
from cachemedicpp.corruption.config import AxesConfig, CorruptionParams
from cachemedicpp.corruption.streams import Stream


@dataclass(frozen=True)
class Targeted(Corruption):
    """A wrapper: the inner formula, under masks aimed at `layers` and `heads` (empty: as configured)."""

    name = "targeted"
    inner: Corruption
    layers: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()

    @classmethod
    def from_params(cls, params: CorruptionParams) -> Self:
        raise TypeError("wrap a corruption: Targeted(inner, layers=…, heads=…)")

    @classmethod
    def from_epsilon(cls, epsilon: float, params: CorruptionParams) -> Self:
        raise TypeError("wrap a corruption: Targeted(inner, layers=…, heads=…)")

    @property
    def needs_donor(self) -> bool:  # type: ignore[override]
        return self.inner.needs_donor

    def drawn(self, stream: Stream) -> Self:
        return replace(self, inner=self.inner.drawn(stream))

    def severity(self) -> dict[str, float]:
        return self.inner.severity()

    @property
    def is_identity(self) -> bool:
        return self.inner.is_identity

    def axes(self, axes: AxesConfig) -> AxesConfig:
        aim: dict[str, object] = {}
        if self.layers:
            aim |= {"layer_mode": "targeted", "layers": self.layers}
        if self.heads:
            aim |= {"head_mode": "targeted", "heads": self.heads}
        return self.inner.axes(axes.model_copy(update=aim))

    def positions(self, time: Tensor, axes: AxesConfig) -> Tensor:
        return self.inner.positions(time, axes)

    def apply(self, x: Tensor, mask: Tensor, stream: Stream, site: Site) -> Tensor:
        return self.inner.apply(x, mask, stream, site)
