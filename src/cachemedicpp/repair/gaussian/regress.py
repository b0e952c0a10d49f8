"""Fitting the prior: ridge regression on the tokens in one pass, and what held-out text shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from cachemedicpp.repair.gaussian import tails
from cachemedicpp.repair.gaussian.prior import FEWEST, Prior, unit_means

PENALTY = 30.0  # λ, of the squared weights of embeddings of unit RMS
SHRUNK = 0.1  # of the correlations of units, to none: other kinds of text differ in them

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
        units = [torch.zeros(n, n) for n in (L * G, L, 1)]
        return Prior(
            weight=weight,
            inverse=inverse.float(),
            residual=residual,
            mean=mean,
            covariance=covariance,
            typical=torch.zeros(L * G + L + 1),
            heads=units[0],
            layers=units[1],
            whole=units[2],
            tail=torch.zeros(3, 4),
            blocks=torch.tensor(0),
        )


def measured(prior: Prior, heldout: Iterable[Batch]) -> Prior:
    """`prior` with what text shows that it was not fitted to."""
    batches = [unit_means(prior.evidence(x, y), block, blocks) for x, y, block, blocks in heldout]
    means, count = (torch.cat(parts) for parts in zip(*batches, strict=True))
    means = means[count >= FEWEST]
    typical = means.mean(0)
    L, G = prior.mean.shape[:2]
    forms, tail = [], []
    for part in torch.split(typical - means, [L * G, L, 1], 1):
        form = given_the_others(part)
        forms.append(form)
        tail.append(tails.fit((part @ form).amax(1)))
    return replace(
        prior,
        typical=typical,
        heads=forms[0],
        layers=forms[1],
        whole=forms[2],
        tail=torch.tensor(tail),
        blocks=torch.tensor(len(means)),
    )


def given_the_others(missing: Tensor) -> Tensor:
    """What takes missing evidence `[blocks, units]` to each unit's residual given all others, in standard
    deviations: `[units, units]`."""
    spread = missing.std(0).clamp(min=1e-6)
    z = missing / spread
    correlation = z.T @ z / len(z)
    eye = torch.eye(len(correlation))
    precision = torch.linalg.inv((1 - SHRUNK) * correlation + SHRUNK * eye)
    size = (z @ precision).std(0).clamp(min=1e-6)
    form: Tensor = precision / spread.unsqueeze(1) / size
    return form
