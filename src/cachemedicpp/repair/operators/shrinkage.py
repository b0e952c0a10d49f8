"""Option B: shrinkage in a learned basis."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from cachemedicpp.cache.state import Geometry
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators.form import Form
from cachemedicpp.repair.operators.layerwise import Layerwise, layerwise
from cachemedicpp.repair.operators.lowrank import LowRankConfig
from cachemedicpp.repair.registry import trained

_NEARLY_ZERO = 1e-7  # a strength that changes nothing yet has a gradient


class Shrinkage(Form):
    """`X - (c - c ⊙ s(q)) Bᵀ` with `c = X B` and `0 ≤ s(q) ≤ alpha_max < 1`.

    `B = Q diag(√β)`, with `Q` orthonormal (QR of `basis`) and `0 ≤ β < 1`, so the coefficients after repair
    are `c ⊙ (1 - β ⊙ (1 - s))`: each shrinks, none ever grows. `β = 1 - exp(-|strength|)` starts near zero,
    which makes an untrained operator the identity. `heads · (2 d r + 2 r)` parameters.
    """

    def __init__(self, d: int, rank: int, heads: int, alpha_max: float) -> None:
        super().__init__(d, rank, heads)
        self.basis = nn.Parameter(torch.randn(heads, d, rank) * d**-0.5)
        self.strength = nn.Parameter(torch.full((heads, 1, rank), _NEARLY_ZERO))
        self._alpha_max = alpha_max
        self._known: tuple[tuple[int, int], Tensor] | None = None

    def factors(self) -> tuple[Tensor, Tensor]:
        B = self._basis()
        return B, B

    def modulation(self, q: Tensor, shift: Tensor | None = None) -> Tensor:
        return self._alpha_max * self.gate_logits(q, shift).sigmoid() - 1.0  # s(q) - 1

    def _basis(self) -> Tensor:
        """`B` `[heads, d, r]`; without gradients it is computed once for the parameters' current values."""
        version = (self.basis._version, self.strength._version)
        if not torch.is_grad_enabled() and self._known is not None and self._known[0] == version:
            return self._known[1]
        Q, _ = torch.linalg.qr(self.basis.float())
        B: Tensor = Q.to(self.basis.dtype) * (-torch.expm1(-self.strength.abs())).sqrt()
        self._known = None if torch.is_grad_enabled() else (version, B)
        return B


class ShrinkageConfig(LowRankConfig):
    """Settings of operator B."""

    alpha_max: float = Field(0.98, gt=0.0, lt=1.0, description="B: the largest shrinkage factor s(q)")


@trained(
    "B",
    "B shrinkage",
    "A trained repair: each vector shrinks along learned directions and never grows.",
    colour=5,
    order=11,
    settings=ShrinkageConfig,
)
def shrinkage(config: RepairConfig, geometry: Geometry) -> Layerwise:
    return layerwise(config, geometry, lambda: Shrinkage(geometry.head_dim, config.rank, 1, config.alpha_max))
