"""The form of option D: a Wiener filter whose noise level is read off the vector itself.

    c = (x - μ) B,   m(x) = mean_i c_i² / λ_i            μ, B, λ: mean, directions and variances of clean text
    σ²(x) = e^a · max(0, m(x) - θ)
    x̂ = μ + Σ_i  λ_i e^{g_i} / (λ_i e^{g_i} + σ²(x)) · c_i B_i

A vector as near to its mean as clean text is (`m ≤ θ`) is returned bit for bit. One that is far off goes to
the mean. In between, directions in which clean text hardly varies are trusted least. For noise of variance
`σ²`, `m` is `1 + σ² mean(1/λ)` on average, which gives the start `a = -log mean(1/λ)`. Trained are `a`, `g`,
and how far `θ` lies above its calibrated value: never below, so training cannot cost clean text its bits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_LARGEST = 1e15  # anything beyond counts as this, and so does what is no number
_NEVER = 1e30  # the threshold of a filter that was not fitted: it changes nothing
_START = -6.0  # softplus of it is 0.0025: the threshold starts where it was calibrated
_LEAST = 1e-3  # the smallest variance of a direction, relative to the mean of its head


class Wiener(nn.Module):
    """One filter for each of the `G` head vectors of a token in one layer: `G · (d + 2)` parameters."""

    mean: Tensor
    basis: Tensor
    variance: Tensor
    bound: Tensor

    def __init__(self, groups: int, d: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(groups, 1, d))
        self.register_buffer("basis", torch.eye(d).repeat(groups, 1, 1))
        self.register_buffer("variance", torch.ones(groups, 1, d))
        self.register_buffer("bound", torch.full((groups, 1), _NEVER))
        self.noise = nn.Parameter(torch.zeros(groups, 1))
        self.slack = nn.Parameter(torch.full((groups, 1), _START))
        self.gain = nn.Parameter(torch.zeros(groups, 1, d))

    @torch.no_grad()
    def fit(self, mean: Tensor, covariance: Tensor) -> None:
        """The closed form, from the mean `[G, d]` and covariance `[G, d, d]` of clean text."""
        found, basis = torch.linalg.eigh(covariance.double())
        variance = torch.maximum(found, _LEAST * found.mean(-1, keepdim=True)).clamp(min=1e-12).float()
        self.mean.copy_(mean.unsqueeze(1))
        self.basis.copy_(basis.float())
        self.variance.copy_(variance.unsqueeze(1))
        self.noise.copy_(-variance.reciprocal().mean(-1, keepdim=True).log())

    @torch.no_grad()
    def spare(self, distance: Tensor) -> None:
        """Leave alone whatever is no farther off than `distance` `[G]`."""
        self.bound.copy_(distance.unsqueeze(1))

    def distance(self, x: Tensor) -> Tensor:
        """`m(x)` `[…, G, T]` of head vectors `[…, G, T, d]`."""
        return self._coordinates(x)[1]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Filtered head vectors `[…, G, T, d]`, and which of them are not as they were, `[…, G, T]`."""
        c, m = self._coordinates(x)
        theta = self.bound * (1 + F.softplus(self.slack))
        noise = self.noise.exp() * (m - theta).clamp(min=0)  # [..., G, T]
        trusted = self.variance * self.gain.exp()
        keep = trusted / (trusted + noise.unsqueeze(-1))
        return self.mean + (keep * c) @ self.basis.mT, noise > 0

    def _coordinates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.float().nan_to_num(_LARGEST).clamp(-_LARGEST, _LARGEST)
        c: Tensor = (x - self.mean) @ self.basis
        return c, (c.square() / self.variance).mean(-1)
