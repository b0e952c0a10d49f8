"""Foreign content in the cache: a range of positions holds the KV of another prompt."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from cachemedicpp.corruption.base import Corruption, Site, fraction, register, under
from cachemedicpp.corruption.config import AxesConfig, CorruptionParams, Window
from cachemedicpp.corruption.streams import Stream
from homeostat.core.errors import UserError


@register("contiguous_overwrite")
@dataclass(frozen=True)
class ContiguousOverwrite(Corruption):
    """Positions `[a, b)` become those of the donor prompt, run clean. Epsilon is their share, from `a` on.

    A `window` time mask takes precedence over `window`; any other time mask still protects what it protects.
    """

    needs_donor = True
    window: Window
    share: float = 1.0
    donor: int = 0  # which donor text, where there are several

    @classmethod
    def from_params(cls, params: CorruptionParams) -> Self:
        return cls(params.overwrite_window)

    @classmethod
    def from_epsilon(cls, epsilon: float, params: CorruptionParams) -> Self:
        return cls(params.overwrite_window, fraction(epsilon))

    def drawn(self, stream: Stream) -> Self:
        return replace(self, donor=stream.at("donor").seed)

    def severity(self) -> dict[str, float]:
        return {"share": self.share, "window_start": self.window[0], "window_end": self.window[1]}

    @property
    def is_identity(self) -> bool:
        return self.share == 0

    def positions(self, time: Tensor, axes: AxesConfig) -> Tensor:
        a, b = axes.window if axes.time_mode == "window" and axes.window else self.window
        if b > len(time):
            raise UserError(
                f"corruption.params.overwrite_window = [{a}, {b}]: the cache holds {len(time)} positions; "
                "choose a window inside it, or longer prompts"
            )
        inside = torch.zeros_like(time)
        inside[a : a + math.ceil(self.share * (b - a))] = True
        return inside & time

    def apply(self, x: Tensor, mask: Tensor, stream: Stream, site: Site) -> Tensor:
        if site.donor is None:
            raise ValueError("contiguous_overwrite was given no donor")
        length = min(x.shape[-2], site.donor.shape[-2])
        damaged = x.clone()
        damaged[:, :length] = site.donor[:, :length].to(x)
        return under(mask, damaged, x)


def fit_window(window: Window, positions: int, focus: int | None = None) -> Window:
    """`window` where it lies inside; else from (at most) the first quarter to the last of `positions`.

    With a `focus`, the window begins there, as wide as configured: an overwrite that cannot reach what a task
    asks for would measure nothing.
    """
    a, b = window
    if focus is not None and focus < positions:
        return focus, min(focus + b - a, positions)
    return window if b <= positions else (min(a, positions // 4), max(positions, 1))
