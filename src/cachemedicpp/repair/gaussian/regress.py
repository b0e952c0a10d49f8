"""Fitting the prior: ridge regression on the tokens in one pass, and what held-out text shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from cachemedicpp.repair.gaussian import tails
from cachemedicpp.repair.gaussian.prior import FEWEST, Prior, unit_means

PENALTY = 30.0  # λ, of the squared weights of embeddings of unit RMS; a tenth and ten times it do as well

# ordinary tokens: features `[N, P]`, head vectors `[N, L, G, d]`, the block of each `[N]`, number of blocks
Batch = tuple[Tensor, Tensor, Tensor, int]


def fit(learn: Iterable[Batch], heldout: Iterable[Batch]) -> Prior:
    """The prior from batches of ordinary tokens, and how it does on others."""
    gram: Gram | None = None
    for x, y, _, _ in learn:
        gram = gram or Gram(x.shape[1], y.shape[1:])
        gram.add(x, y)
    assert gram is not None  # noqa: S101
    return measured(gram.solve(), heldout)


class Gram:
    """Sums over ordinary tokens, from which the regression is solved."""

    def __init__(self, features: int, shape: torch.Size) -> None:
        L, G, d = shape
        self.count = 0
        self._xx = torch.zeros(features, features, dtype=torch.float64)
        self._xy = torch.zeros(features, L * G * d)
        self._yy = torch.zeros(L, G, d, d)
        self._shape = shape

    def add(self, x: Tensor, y: Tensor) -> None:
        """Features `[N, P]` and head vectors `[N, L, G, d]`."""
        self.count += len(x)
        self._xx += (x.T @ x).double()
        self._xy += x.T @ y.flatten(1)
        heads = y.permute(1, 2, 3, 0)  # [L, G, d, N]
        self._yy += heads @ heads.mT

    def solve(self) -> Prior:
        penalty = torch.full((len(self._xx),), PENALTY, dtype=torch.float64)
        penalty[-1] = 0  # of the constant
        inverse = torch.linalg.inv(self._xx + penalty.diag())
        L, G, d = self._shape
        weight = (inverse @ self._xy.double()).float().view(-1, L, G, d)
        free = self.count - float((inverse * self._xx).sum())  # degrees of freedom that are left
        mean = (self._xy[-1] / self.count).view(self._shape)
        covariance = self._yy / self.count - mean.unsqueeze(-1) * mean.unsqueeze(-2)
        xy = self._xy.view(-1, L, G, d)
        fitted = torch.einsum("plgi,plgj->lgij", weight, xy)  # WᵀXᵀY = Wᵀ(XᵀX + λ)W
        shrunk = torch.einsum("plgi,p,plgj->lgij", weight, penalty.float(), weight)
        residual = (self._yy - fitted - shrunk) / free
        none = torch.zeros(2, L * G + L + 1)
        return Prior(
            weight, inverse.float(), residual, mean, covariance, none, torch.zeros(3, 4), torch.tensor(0)
        )


def measured(prior: Prior, heldout: Iterable[Batch]) -> Prior:
    """`prior` with what text shows that it was not fitted to."""
    batches = [unit_means(prior.evidence(x, y), block, blocks) for x, y, block, blocks in heldout]
    means, count = (torch.cat(parts) for parts in zip(*batches, strict=True))
    means = means[count >= FEWEST]
    typical = torch.stack((means.mean(0), means.std(0).clamp(min=1e-6)))
    z = (typical[0] - means) / typical[1]
    L, G = prior.mean.shape[:2]
    tail = [tails.fit(part.amax(1)) for part in torch.split(z, [L * G, L, 1], 1)]
    return replace(prior, typical=typical, tail=torch.tensor(tail), blocks=torch.tensor(len(z)))
