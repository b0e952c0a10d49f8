"""The Gaussian field over a token's cache: every head vector given its layer and the neighbouring layers.

Keys and values of three neighbouring layers are all linear images of nearly the same residual stream, and
together have more dimensions than it: the cache is its own error-correcting code. What one head lost, the
others still tell (1 to 2 % of its variance remains unexplained on the default model).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from cachemedicpp.repair.gaussian.prior import FLOOR as RIDGE
from cachemedicpp.repair.gaussian.statistics import Statistics

_FLOOR = 1e-4  # noise variance of heads that carry none, in the denoiser
_WIDER = 4.0  # times the variance seen: what denoising takes off a rare token hurts more than noise it leaves
_STRUCTURE = 32.0  # the same under rounding: what no token can be goes, rare ones keep what is their own
_DROWNED = 1.4  # noise level from which little is left of a token to take off: the variance as it was seen
_SIGNS = 4  # sums for each head at a glance
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
    """Posterior means of one layer's heads given its noisy window, each token about its own kind's mean.

    With `A = C + D` (`C` the covariance within a kind, `D` the noise) and `m` the mean of the kinds a token
    may be of, weighed by how likely each is: `m + C A⁻¹ (x - m) = x - D A⁻¹ (x - m)`.
    """

    factor: Tensor  # [W F, W F]: lower triangle `R` of `A = R Rᵀ`
    kinds: Tensor  # [W F, K]: `R⁻¹` of each kind's mean
    offset: Tensor  # [K]
    noise: Tensor  # [F]: the layer's own part of `D`
    own: slice  # the layer's features in the window

    def __call__(self, x: Tensor) -> Tensor:
        """`[N, W F]` to `[N, F]`."""
        white = torch.linalg.solve_triangular(self.factor, x.T, upper=False)  # [W F, N]
        kind = (white.T @ self.kinds + self.offset).softmax(-1)  # [N, K]
        pull = torch.linalg.solve_triangular(self.factor.T, white - self.kinds @ kind.T, upper=True)
        mended: Tensor = x[:, self.own] - self.noise * pull[self.own].T
        return mended

    @property
    def nbytes(self) -> int:
        return self.factor.nbytes + self.kinds.nbytes


class Field:
    """Inverse covariances and denoisers of each layer's window, computed when first needed."""

    def __init__(self, stats: Statistics) -> None:
        self.stats = stats
        self._precision: dict[int, Precision] = {}
        self._denoisers: OrderedDict[tuple[int, bool, bytes], Denoiser] = OrderedDict()
        self._last: tuple[int, Tensor, Tensor] | None = None

    def at_scale(self, scale: Tensor) -> Field:
        """The same field for heads that are larger by these factors, `[L, G]`."""
        other = copy(self)
        other.stats = replace(self.stats, scale=self.stats.scale * scale)
        return other

    def precision(self, layer: int) -> Precision:
        if layer not in self._precision:
            C = self.stats.window_covariance(layer)
            J = torch.linalg.inv(C + RIDGE * torch.eye(len(C), device=C.device))
            where, F = self.stats.window(layer), C.shape[0] // len(self.stats.window(layer))
            start = (layer - where[0]) * F
            rows = J[start : start + F].contiguous()
            self._precision[layer] = Precision(slice(where[0], where[-1] + 1), rows, start)
        return self._precision[layer]

    @cached_property
    def head_precision(self) -> Tensor:
        """Inverse covariance of each head by itself, `[L, G, d, d]`."""
        own = self.stats.head_covariance()
        inverse: Tensor = torch.linalg.inv(own + RIDGE * torch.eye(self.stats.head_dim, device=own.device))
        return inverse

    @cached_property
    def own_gain(self) -> Tensor:
        """What white noise of level 1 adds to a vector's squared distance within its own head, `[L, G]`."""
        return self.head_precision.diagonal(dim1=-2, dim2=-1).mean(-1)

    @cached_property
    def amplified(self) -> Tensor:
        """By how much noise in the whole window is louder in an element, and in a head vector, that is
        imputed from it, `[2, L, G]`."""
        L, G, d = self.stats.mean.shape
        found = self.stats.mean.new_empty(2, L, G)
        for layer in range(L):
            precision = self.precision(layer)
            rows = precision.rows.view(G, d, -1)
            own = torch.stack([precision.own(g, d).diagonal() for g in range(G)])
            found[0, layer] = (rows / own.unsqueeze(-1)).square().sum(-1).mean(-1).sqrt()
            found[1, layer] = (self.conditional[layer] @ rows).square().sum(-1).mean(-1).sqrt()
        return found

    @cached_property
    def given(self) -> Tensor:
        """Precision of each head vector given everything else, `[L, G, d, d]`."""
        L, G, d = self.stats.mean.shape
        return torch.stack(
            [torch.stack([self.precision(layer).own(g, d) for g in range(G)]) for layer in range(L)]
        )

    @cached_property
    def conditional(self) -> Tensor:
        """Covariance of each head vector given everything else, `[L, G, d, d]`."""
        inverse: Tensor = torch.linalg.inv(self.given)
        return inverse

    @cached_property
    def _sketches(self) -> list[Tensor]:
        """What each layer's features add to a few sums, with random signs, of the residuals of every head in
        its window: `[F, W G _SIGNS]`."""
        L, G, d = self.stats.mean.shape
        generator = torch.Generator().manual_seed(0)
        signs = torch.randint(0, 2, (_SIGNS, d), generator=generator).to(self.stats.mean) * 2 - 1
        parts: list[list[Tensor]] = [[] for _ in range(L)]
        for layer in range(L):
            precision = self.precision(layer)
            spread = torch.cat([precision.own(g, d).diagonal() for g in range(G)]).sqrt()
            residuals = (precision.rows / spread.unsqueeze(-1)).view(G, d, -1)
            sums = torch.einsum("sd,gdw->wgs", signs / d**0.5, residuals).flatten(1)  # [W F, G _SIGNS]
            for other, part in zip(self.stats.window(layer), torch.split(sums, G * d), strict=True):
                parts[other].append(part)
        return [torch.cat(part, 1) for part in parts]

    def glance(self, layers: Iterable[Tensor]) -> Tensor:
        """How strange each head vector is given all others, cheaply, `[N, L, G]`, from `[N, G, d]` a layer.

        A few sums with random signs stand in the place of a head's residuals.
        """
        L, G, _ = self.stats.mean.shape
        sums: Tensor | None = None
        for layer, x in enumerate(layers):
            if sums is None:
                sums = x.new_zeros(len(x), L, G * _SIGNS)
            window = self.stats.window(layer)
            told = x.flatten(1) @ self._sketches[layer]
            sums[:, window[0] : window[-1] + 1] += told.view(len(x), len(window), -1)
        assert sums is not None  # noqa: S101
        return sums.view(*sums.shape[:2], G, _SIGNS).square().mean(-1)

    def gradient(self, x: Tensor, layer: int, tokens: Tensor | slice = slice(None)) -> Tensor:
        """`J x` in one layer's rows for some of the tokens `x` `[N, L, G, d]`: `[n, F]`."""
        precision = self.precision(layer)
        return x[tokens, precision.window].flatten(1) @ precision.rows.T

    def disturbance(self, x: Tensor, layers: Sequence[int], here: Tensor | None = None) -> Tensor:
        """`|(J x)_v|²` for every head vector `v` of `layers`, `[N, l, G]`: how far from what others say.

        With `here` `[N, L]`, of those tokens and layers only; NaN elsewhere.
        """
        out = x.new_full((len(x), len(layers), x.shape[2]), torch.nan)
        for place, layer in enumerate(layers):
            rows = slice(None) if here is None else here[:, layer].nonzero().squeeze(1)
            pull = self.gradient(x, layer, rows)
            out[rows, place] = pull.view(len(pull), *x.shape[2:]).square().sum(-1)
        return out

    @cached_property
    def couplings(self) -> Tensor:
        """`|J_vu|²` (Frobenius), `[L G, L G]`: how much noise in head `u` disturbs head `v`."""
        L, G, d = self.stats.mean.shape
        full = self.stats.mean.new_zeros(L, G, L, G)
        for layer in range(L):
            precision = self.precision(layer)
            blocks = precision.rows.view(G, d, -1, G, d).square().sum((1, 4))  # [G, W, G]
            full[layer, :, precision.window] = blocks
        return full.view(L * G, L * G)

    def denoiser(self, layer: int, levels: Tensor, rounded: bool = False) -> Denoiser:
        """Towards one layer, for noise `levels` `[W, G, d]` (relative to each head's RMS) in its window."""
        key = (layer, rounded, levels.cpu().numpy().tobytes())
        if key not in self._denoisers:
            self._denoisers[key] = self._solve(layer, levels, rounded)
            if sum(made.nbytes for made in self._denoisers.values()) > _KEPT:
                self._denoisers.popitem(last=False)
        self._denoisers.move_to_end(key)
        return self._denoisers[key]

    def _solve(self, layer: int, levels: Tensor, rounded: bool) -> Denoiser:
        noise = levels.flatten().square() + _FLOOR
        kinds, within = self._about_kinds(layer)
        loudest = levels.square().mean(-1).sqrt().max()
        wider = _STRUCTURE if rounded else ((_DROWNED / loudest) ** 2).clamp(1.0, _WIDER)
        factor = torch.linalg.cholesky(wider * within + torch.diag(noise))
        white = torch.linalg.solve_triangular(factor, kinds.T, upper=False)  # [W F, K]
        offset = self.stats.share.clamp(min=1e-9).log() - white.square().sum(0) / 2
        F = len(noise) // len(levels)
        start = (layer - self.stats.window(layer)[0]) * F
        own = slice(start, start + F)
        return Denoiser(factor, white, offset, noise[own], own)

    def _about_kinds(self, layer: int) -> tuple[Tensor, Tensor]:
        """The kinds' means in a layer's window, `[K, W F]`, and the covariance about them."""
        if self._last is None or self._last[0] != layer:  # denoising goes layer by layer: one is kept
            window = self.stats.window(layer)
            kinds = self.stats.kinds[:, window[0] : window[-1] + 1].flatten(1)
            between = (kinds.T * self.stats.share) @ kinds
            self._last = layer, kinds, self.stats.window_covariance(layer) - between
        return self._last[1:]
