"""The Gaussian field over a token's cache: every head vector given its layer and the neighbouring layers.

Keys and values of three neighbouring layers are all linear images of nearly the same residual stream, and
together have more dimensions than it: the cache is its own error-correcting code. What one head lost, the
others still tell (1 to 2 % of its variance remains unexplained on the default model).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from cachemedicpp.gaussian.statistics import Statistics

RIDGE = 1e-3  # added to unit-variance covariances: below it, directions are not trusted
_FLOOR = 1e-4  # noise variance of heads that carry none, in the denoiser
_KEPT = 512 << 20  # bytes of denoisers kept, the least recently used is dropped


@dataclass(frozen=True)
class Precision:
    """One layer's rows of its window's inverse covariance: `(J x)_i / J_ii` is a leave-one-out residual."""

    window: slice  # layers
    rows: Tensor  # [F, W F]
    offset: int  # where the layer's own features begin in the window

    def own(self, group: int, d: int) -> Tensor:
        """A head's precision given everything else, `[d, d]`."""
        start = group * d
        return self.rows[start : start + d, self.offset + start : self.offset + start + d]

    def column(self, group: int, d: int) -> Tensor:
        """How a change of one head moves the layer's rows, `[F, d]`."""
        start = self.offset + group * d
        return self.rows[:, start : start + d]


class Field:
    """Inverse covariances and denoisers of each layer's window, computed when first needed."""

    def __init__(self, stats: Statistics) -> None:
        self.stats = stats
        self._precision: dict[int, Precision] = {}
        self._denoisers: OrderedDict[tuple[int, bytes], Tensor] = OrderedDict()

    def precision(self, layer: int) -> Precision:
        if layer not in self._precision:
            C = self.stats.window_covariance(layer)
            J = torch.linalg.inv(C + RIDGE * torch.eye(len(C)))
            where, F = self.stats.window(layer), C.shape[0] // len(self.stats.window(layer))
            start = (layer - where[0]) * F
            rows = J[start : start + F].contiguous()
            self._precision[layer] = Precision(slice(where[0], where[-1] + 1), rows, start)
        return self._precision[layer]

    def gradient(self, x: Tensor, layer: int) -> Tensor:
        """`J x` in one layer's rows for tokens `x` `[N, L, G, d]`: `[N, F]`."""
        precision = self.precision(layer)
        return x[:, precision.window].flatten(1) @ precision.rows.T

    def disturbance(self, x: Tensor) -> Tensor:
        """`|(J x)_v|²` for every head vector `v`, `[N, L, G]`: how far each is from what the others say."""
        layers = range(self.stats.layers)
        return torch.stack(
            [self.gradient(x, layer).view(len(x), *x.shape[2:]).square().sum(-1) for layer in layers], dim=1
        )

    @cached_property
    def couplings(self) -> Tensor:
        """`|J_vu|²` (Frobenius), `[L G, L G]`: how much noise in head `u` disturbs head `v`."""
        L, G, d = self.stats.mean.shape
        full = torch.zeros(L, G, L, G)
        for layer in range(L):
            precision = self.precision(layer)
            blocks = precision.rows.view(G, d, -1, G, d).square().sum((1, 4))  # [G, W, G]
            full[layer, :, precision.window] = blocks
        return full.view(L * G, L * G)

    def denoiser(self, layer: int, levels: Tensor) -> Tensor:
        """`C (C + D)⁻¹` towards one layer, `[W F, F]`, for noise `levels` `[W, G]` (relative to each RMS)."""
        key = (layer, levels.numpy().tobytes())
        if key not in self._denoisers:
            C = self.stats.window_covariance(layer)
            F = C.shape[0] // levels.shape[0]
            noise = levels.flatten().square().repeat_interleave(self.stats.head_dim)
            start = (layer - self.stats.window(layer)[0]) * F
            factor = torch.linalg.cholesky(C + torch.diag(noise + _FLOOR))
            self._denoisers[key] = torch.cholesky_solve(C[:, start : start + F].contiguous(), factor)
            if sum(W.nbytes for W in self._denoisers.values()) > _KEPT:
                self._denoisers.popitem(last=False)
        self._denoisers.move_to_end(key)
        return self._denoisers[key]
