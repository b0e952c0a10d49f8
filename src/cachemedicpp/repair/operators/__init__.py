"""Trained repair operators: A (gated low-rank), B (shrinkage in a basis), C (one of them for all layers)."""

from cachemedicpp.repair.operators.build import TRAINED, build_operator, parameter_count
from cachemedicpp.repair.operators.lowrank import LowRankRepair

__all__ = ["TRAINED", "LowRankRepair", "build_operator", "parameter_count"]
