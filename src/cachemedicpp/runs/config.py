"""The configuration of a whole run: the sections that the rooms define, put together."""

from __future__ import annotations

from cachemedicpp.stability.config import StabilityRunConfig
from cachemedicpp.train.config import TrainingConfig


class MedicConfig(StabilityRunConfig, TrainingConfig):
    """Every setting of one run of cachemedicpp."""
