"""From a `repair:` section to an operator."""

from __future__ import annotations

import torch

from cachemedicpp.cache.state import Geometry
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators.form import Form
from cachemedicpp.repair.operators.gated import Gated
from cachemedicpp.repair.operators.layerwise import Layerwise
from cachemedicpp.repair.operators.shared import Shared
from cachemedicpp.repair.operators.shrinkage import Shrinkage
from cachemedicpp.repair.operators.statewise import Statewise
from cachemedicpp.repair.operators.trained import Trained
from homeostat.core.errors import UserError

TRAINED = ("A", "B", "C", "D")


def build_operator(config: RepairConfig, geometry: Geometry, seed: int = 0) -> Trained:
    """An untrained operator A, B, C or D; `seed` fixes its start without touching torch's global state."""
    if config.family not in TRAINED:
        raise UserError(f"repair.family = {config.family!r} is not trained: choose {', '.join(TRAINED)}")
    if config.rank > geometry.head_dim:
        raise UserError(
            f"repair.rank = {config.rank} is above the model's head dimension {geometry.head_dim}: "
            "choose at most that"
        )
    layers = config.layers(geometry.layers)
    if config.family == "D":
        return Statewise("D", layers, geometry, config.apply_to)
    heads = geometry.kv_heads if config.per_head else 1
    form = config.base if config.family == "C" else config.family

    def make() -> Form:
        if form == "A":
            return Gated(geometry.head_dim, config.rank, heads)
        return Shrinkage(geometry.head_dim, config.rank, heads, config.alpha_max)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if config.family == "C":
            extra = config.rank, config.head_embedding, config.before_rotary
            return Shared("C", layers, geometry, config.apply_to, make, *extra)
        return Layerwise(config.family, layers, geometry, config.apply_to, make, config.before_rotary)


def parameter_count(operator: Trained) -> int:
    return sum(p.numel() for p in operator.parameters())
