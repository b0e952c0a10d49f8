"""Trained operators on disk: tensors by parameter name, and the settings that rebuild the module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachemedicpp.cache.state import Geometry
from cachemedicpp.repair.cards import make_card, read_tensors, save_repair
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators.build import build_operator
from cachemedicpp.repair.operators.trained import Trained
from homeostat.core.config import parse_config, resolved
from homeostat.core.records import Record


def save(
    operator: Trained,
    folder: Path,
    config: RepairConfig,
    model: Any,
    config_hash: str,
    training: Record,
) -> None:
    """Write a trained operator and its card."""
    tensors = operator.state_dict()
    card = make_card(config.family, model, operator.layers, tensors, resolved(config), config_hash, training)
    save_repair(folder, tensors, card)


def load(folder: Path, card: Record) -> Trained:
    """Rebuild the operator a card describes and fill it with its tensors."""
    config = parse_config(RepairConfig, card["settings"], source=str(folder))
    operator = build_operator(config, Geometry(**card["geometry"]))
    operator.load_state_dict(read_tensors(folder, card))
    operator.model_id = card["model"]
    if not bool(operator.useful):
        operator.layers = ()  # the identity
    return operator.eval().requires_grad_(False)
