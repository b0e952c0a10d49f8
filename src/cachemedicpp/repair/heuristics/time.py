"""Which stored positions the protocol's time mask lets damage reach.

The time mode is part of the protocol and known to everyone, unlike what was drawn. Heuristics that throw
state away use it, so that they never throw away what cannot be damaged.
"""

from __future__ import annotations

from torch import Tensor

from cachemedicpp.corruption.masks import AxesConfig


def reachable(axes: AxesConfig, real: Tensor, positions: Tensor, dropped: int = 0) -> Tensor:
    """`[B, T]`: true where a time mode reaches, given real positions and their numbers (both `[B, T]`).

    `dropped` positions before them are no longer stored (a sliding window).
    """
    if axes.time_mode == "window":
        a, b = axes.window or (0, 0)
        return real & (positions >= a) & (positions < b)
    length = real.sum(-1, keepdim=True) + dropped
    return real & (positions < length - axes.recent)
