"""Operator G on disk: its statistics as safetensors, and the card every repair has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachemedicpp.repair.cards import make_card, read_tensors, save_repair
from cachemedicpp.repair.gaussian.operator import GaussianRepair
from cachemedicpp.repair.gaussian.statistics import Statistics
from homeostat.core.records import Record


def make(stats: Statistics, model: Any, settings: Record) -> GaussianRepair:
    """The operator for `model`; `settings` say what it was calibrated on."""
    tensors = stats.tensors()
    told = {
        "reach": stats.reach,
        "tokens": int(stats.count),
        "sinks": 0 if stats.sink is None else int(stats.sink.count),
    }
    card = make_card("G", model, tuple(range(stats.layers)), tensors, settings | told)
    return GaussianRepair(stats, card)


def save(operator: GaussianRepair, folder: Path) -> None:
    save_repair(folder, operator.stats.tensors(), operator.card)


def load(folder: Path, card: Record) -> GaussianRepair:
    return GaussianRepair(Statistics.from_tensors(read_tensors(folder, card)), card)
