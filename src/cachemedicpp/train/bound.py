"""What the form of operators A, B and C can reach: the best linear map of rank `r`, in closed form.

For one query, A, B and C add `X M` to the keys or values `X` of a head, with an `M` of rank `r`. Damage does
not depend on the query. So none of them is better in the weighted squares of the local objective,

    E w ||X + X M - Y||²        Y clean;  w = 1 / σ² for damaged vectors, lambda_id / σ² for sound ones,

than the `M` that minimises them, which is a reduced-rank regression of `Y - X` on `X`. Here every head of
every layer has its own, which is more than A, B and C have.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from cachemedicpp.cache.state import KV
from cachemedicpp.repair.operators.states import split
from cachemedicpp.train.local import Local, damage
from homeostat.core.records import Record

_DRAWS = 4  # of damage for every window
_RIDGE = 1e-6


class LinearMap:
    """`X + X M` for the keys and the values of each layer; `M` is `[H_kv, d, d]`."""

    def __init__(self, maps: Mapping[tuple[int, int], Tensor]) -> None:
        self.maps = maps

    def mend(self, damaged: Mapping[int, KV], queries: Mapping[int, Tensor]) -> dict[int, KV]:
        return {
            layer: KV(*(x + x @ self.maps[layer, i] for i, x in enumerate(kv)))
            for layer, kv in damaged.items()
        }


@torch.no_grad()
def linear_bound(local: Local, rank: int) -> Record:
    """The validation of the best map of this rank, fitted to the training windows under the mixture."""
    layers = local.states.layers
    zero = torch.zeros((), device=local.states.x.device)
    grams = {(layer, i): (zero, zero) for layer in layers for i in (0, 1)}
    for draw in range(_DRAWS):
        x, damaged, weight = _drawn(local, draw)
        clean, wrong, weights = split(layers, x), split(layers, damaged), split(layers, weight)
        for place, (gram, cross) in grams.items():
            layer, i = place
            X, Y, w = (each[layer][i].transpose(0, 1).flatten(1, 2) for each in (wrong, clean, weights))
            scaled = (X * w).mT  # [H_kv, d, n]
            grams[place] = gram + scaled @ X, cross + scaled @ (Y - X)
    found = LinearMap({place: reduced_rank(*pair, rank) for place, pair in grams.items()})
    return {"rank": rank, **local.measure(found)}


def _drawn(local: Local, draw: int) -> tuple[Tensor, Tensor, Tensor]:
    """Training windows, damaged by the mixture, and the weight of each vector `[W, T, L, G, 1]`."""
    x, train = local.states.x, local.config.train
    plan = local.family.mixture(draw=draw).plan([f"bound:{i}" for i in range(len(x))], x.shape[1])
    damaged = damage(plan, local.states.layers, x)
    damaged[: round(train.clean_batch_prob * len(x))] = x[: round(train.clean_batch_prob * len(x))]
    sound = (damaged == x).all(-1)
    weight = torch.where(sound, train.local.lambda_id, 1.0) / local.scale
    return x, damaged, weight.unsqueeze(-1)


def reduced_rank(gram: Tensor, cross: Tensor, rank: int) -> Tensor:
    """The minimiser of rank `rank`: least squares, projected on its first directions in the gram's metric."""
    gram, cross = gram.double(), cross.double()
    size = gram.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    factor = torch.linalg.cholesky(gram + _RIDGE * size * torch.eye(gram.shape[-1]).to(gram))
    full = torch.cholesky_solve(cross, factor)
    directions = torch.linalg.svd(factor.mT @ full)[2][..., :rank, :]
    found: Tensor = (full @ directions.mT @ directions).float()
    return found
