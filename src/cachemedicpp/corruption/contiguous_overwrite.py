"""Foreign content in the cache: a range of positions holds the KV of another prompt."""

from __future__ import annotations

import math
from typing import Self

import torch
from pydantic import Field
from torch import Tensor

from cachemedicpp.corruption.base import Corruption, Site, fraction, register, under
from cachemedicpp.corruption.masks import AxesConfig, Window
from cachemedicpp.corruption.streams import Stream
from homeostat.core.errors import UserError

DEFAULT_DONOR = (
    "The harbour master kept two ledgers, one for the ships that came and one for the ships that were "
    "expected. By the end of winter the second was longer than the first, and nobody in the town spoke of it."
)
_MEANS = "Damage: a window of the cache is replaced by another text's."


@register("contiguous_overwrite", "overwritten window", _MEANS, weight=0.10, order=6)
class ContiguousOverwrite(Corruption):
    """Positions `[a, b)` become those of the donor prompt, run clean. Epsilon is their share, from `a` on.

    A `window` time mask takes precedence over the type's own; any other time mask still protects what it
    protects.
    """

    needs_donor = True
    overwrite_window: Window = (16, 48)
    donor_prompt: str = Field(DEFAULT_DONOR, min_length=1)
    share: float = Field(1.0, exclude=True)

    def at(self, epsilon: float) -> Self:
        return self.but(share=fraction(epsilon))

    def fitted(self, positions: int, focus: int | None) -> Self:
        """The window where it lies inside; else from (at most) the first quarter to the last position.

        With a `focus`, the window begins there, as wide as configured: an overwrite that cannot reach what a
        task asks for would measure nothing.
        """
        a, b = self.overwrite_window
        if focus is not None and focus < positions:
            return self.but(overwrite_window=(focus, min(focus + b - a, positions)))
        if b <= positions:
            return self
        return self.but(overwrite_window=(min(a, positions // 4), max(positions, 1)))

    def drawn(self, stream: Stream) -> Self:
        return self.but(donor=stream.at("donor").seed)

    def severity(self) -> dict[str, float]:
        a, b = self.overwrite_window
        return {"share": self.share, "window_start": a, "window_end": b}

    @property
    def is_identity(self) -> bool:
        return self.share == 0

    def positions(self, time: Tensor, axes: AxesConfig) -> Tensor:
        a, b = axes.window if axes.time_mode == "window" and axes.window else self.overwrite_window
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
