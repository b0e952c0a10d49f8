"""Option A: low-rank, query-conditioned."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cachemedicpp.cache.state import Geometry
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators.form import Form
from cachemedicpp.repair.operators.layerwise import Layerwise, layerwise
from cachemedicpp.repair.operators.lowrank import LowRankConfig
from cachemedicpp.repair.registry import trained


class Gated(Form):
    """`X + ((X W) ⊙ g(q)) Uᵀ` with `g(q) = sigmoid(q G / √d + b) ∈ (0, 1)^r`.

    `heads · (3 d r + r)` parameters. `U` starts at zero, so an untrained operator changes nothing.
    """

    def __init__(self, d: int, rank: int, heads: int) -> None:
        super().__init__(d, rank, heads)
        self.W = nn.Parameter(torch.randn(heads, d, rank) * d**-0.5)
        self.U = nn.Parameter(torch.zeros(heads, d, rank))

    def factors(self) -> tuple[Tensor, Tensor]:
        return self.W, self.U

    def modulation(self, q: Tensor, shift: Tensor | None = None) -> Tensor:
        return self.gate_logits(q, shift).sigmoid()


@trained(
    "A",
    "A low-rank",
    "A trained repair: a low-rank correction of each vector, weighed by the query.",
    colour=0,
    order=10,
    settings=LowRankConfig,
)
def low_rank(config: RepairConfig, geometry: Geometry) -> Layerwise:
    return layerwise(config, geometry, lambda: Gated(geometry.head_dim, config.rank, 1))
