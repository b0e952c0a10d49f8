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
_WIDER = 4.0  # times the variance seen: what denoising takes off a rare token hurts more than noise it leaves
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


@dataclass(frozen=True)
class Denoiser:
    """Posterior means of one layer's heads given its noisy window, each token about its own kind's mean."""

    weights: Tensor  # [W F, F]: C (C + D)⁻¹, `C` within a kind, `D` the noise
    kinds: Tensor  # [K, W F]
    evidence: Tensor  # [W F, K]
    offset: Tensor  # [K]
    own: slice  # the layer's features in the window

    def __call__(self, x: Tensor) -> Tensor:
        """`[N, W F]` to `[N, F]`."""
        centre = (x @ self.evidence + self.offset).softmax(-1) @ self.kinds
        return centre[:, self.own] + (x - centre) @ self.weights

    @property
    def nbytes(self) -> int:
        return self.weights.nbytes + self.kinds.nbytes + self.evidence.nbytes


class Field:
    """Inverse covariances and denoisers of each layer's window, computed when first needed."""

    def __init__(self, stats: Statistics) -> None:
        self.stats = stats
        self._precision: dict[int, Precision] = {}
        self._denoisers: OrderedDict[tuple[int, bytes], Denoiser] = OrderedDict()

    def precision(self, layer: int) -> Precision:
        if layer not in self._precision:
            C = self.stats.window_covariance(layer)
            J = torch.linalg.inv(C + RIDGE * torch.eye(len(C)))
            where, F = self.stats.window(layer), C.shape[0] // len(self.stats.window(layer))
            start = (layer - where[0]) * F
            rows = J[start : start + F].contiguous()
            self._precision[layer] = Precision(slice(where[0], where[-1] + 1), rows, start)
        return self._precision[layer]

    @cached_property
    def head_precision(self) -> Tensor:
        """Inverse covariance of each head by itself, `[L, G, d, d]`."""
        own = self.stats.head_covariance()
        inverse: Tensor = torch.linalg.inv(own + RIDGE * torch.eye(self.stats.head_dim))
        return inverse

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

    def denoiser(self, layer: int, levels: Tensor) -> Denoiser:
        """Towards one layer, for noise `levels` `[W, G]` (relative to each RMS) in its window."""
        key = (layer, levels.numpy().tobytes())
        if key not in self._denoisers:
            self._denoisers[key] = self._solve(layer, levels)
            if sum(made.nbytes for made in self._denoisers.values()) > _KEPT:
                self._denoisers.popitem(last=False)
        self._denoisers.move_to_end(key)
        return self._denoisers[key]

    def _solve(self, layer: int, levels: Tensor) -> Denoiser:
        stats, window = self.stats, self.stats.window(layer)
        kinds = stats.kinds[:, window[0] : window[-1] + 1].flatten(1)  # [K, W F]
        between = (kinds.T * stats.share) @ kinds
        within = _WIDER * (stats.window_covariance(layer) - between)
        noise = levels.flatten().square().repeat_interleave(stats.head_dim)
        F = len(within) // len(window)
        own = slice((layer - window[0]) * F, (layer - window[0] + 1) * F)
        factor = torch.linalg.cholesky(within + torch.diag(noise + _FLOOR))
        evidence = torch.cholesky_solve(kinds.T.contiguous(), factor)
        offset = stats.share.clamp(min=1e-9).log() - (kinds * evidence.T).sum(-1) / 2
        weights = torch.cholesky_solve(within[:, own].contiguous(), factor)
        return Denoiser(weights, kinds, evidence, offset, own)
