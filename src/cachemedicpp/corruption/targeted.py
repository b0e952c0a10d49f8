"""Any other type, aimed at chosen layers or KV heads."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import SerializeAsAny
from torch import Tensor

from cachemedicpp.corruption.base import Corruption, Site
from cachemedicpp.corruption.masks import AxesConfig
from cachemedicpp.corruption.streams import Stream


class Targeted(Corruption):
    """A wrapper: the inner formula, under masks aimed at `layers` and `heads` (empty: as configured)."""

    name: ClassVar[str] = "targeted"
    inner: SerializeAsAny[Corruption]
    layers: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()

    @property
    def needs_donor(self) -> bool:  # type: ignore[override]
        return self.inner.needs_donor

    @property
    def donor_number(self) -> int:
        return self.inner.donor_number

    def at(self, epsilon: float) -> Self:
        return self.but(inner=self.inner.at(epsilon))

    def fitted(self, positions: int, focus: int | None) -> Self:
        return self.but(inner=self.inner.fitted(positions, focus))

    def drawn(self, stream: Stream) -> Self:
        return self.but(inner=self.inner.drawn(stream))

    def drawn_record(self) -> dict[str, str]:
        return self.inner.drawn_record()

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
