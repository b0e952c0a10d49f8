"""Trained repair operators.

A (gated low-rank), B (shrinkage in a basis) and C (one of them for all layers) read the query. D (a Wiener
filter behind a gate) reads the state.
"""

from cachemedicpp.repair.operators.build import build_operator, parameter_count
from cachemedicpp.repair.operators.lowrank import LowRankRepair
from cachemedicpp.repair.operators.trained import Trained

__all__ = ["LowRankRepair", "Trained", "build_operator", "parameter_count"]
