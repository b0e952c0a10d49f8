"""From a `repair:` section to an operator."""

from __future__ import annotations

import torch

from cachemedicpp.cache.state import Geometry
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators.trained import Trained
from cachemedicpp.repair.registry import DEFENCES
from homeostat.core.errors import UserError


def build_operator(config: RepairConfig, geometry: Geometry, seed: int = 0) -> Trained:
    """An untrained operator; `seed` fixes its start without touching torch's global state."""
    build = DEFENCES[config.family].untrained
    if build is None:
        names = [name for name, kind in DEFENCES.items() if kind.untrained is not None]
        raise UserError(f"repair.family = {config.family!r} is not trained: choose {', '.join(names)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(config, geometry)


def parameter_count(operator: Trained) -> int:
    return sum(p.numel() for p in operator.parameters())
