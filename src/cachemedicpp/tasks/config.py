"""The `data:` and `eval:` sections of a configuration, and everything an evaluation reads."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator

from cachemedicpp.corruption.config import CorruptionConfig, default_types
from cachemedicpp.repair.config import RepairConfig, TrainedFamily
from cachemedicpp.tasks.base import TASKS
from homeostat.core.config import ConfigModel
from homeostat.core.models import ModelConfig
from homeostat.core.registry import Named, OpenConfig


class DataConfig(OpenConfig):
    """Where texts come from: the hub, else a local path, else the samples that come with the program.

    Every task has its own section here.
    """

    use_offline: bool = Field(
        False, description="true: only the offline samples, no network and no local path"
    )

    @classmethod
    def parts(cls) -> dict[str, Any]:
        kinds = [kind for _, kind in TASKS.items()]
        return {kind.section: (kind.settings, kind.settings()) for kind in kinds if kind.settings is not None}


class CorruptionEvalConfig(ConfigModel):
    """The grid: every type at every epsilon. Epsilon 0 is the clean run and is always measured."""

    eps: list[float] = Field([0.0, 0.08, 0.16, 0.32], min_length=1)
    types: list[str] = Field(default_factory=default_types, min_length=1)

    @field_validator("eps")
    @classmethod
    def _increasing(cls, eps: list[float]) -> list[float]:
        if any(not 0.0 <= e < float("inf") for e in eps):
            raise ValueError("every epsilon must be a finite number that is at least 0")
        return sorted({0.0, *eps})

    @field_validator("types")
    @classmethod
    def _distinct(cls, types: list[str]) -> list[str]:
        return list(dict.fromkeys(types))


class EvalConfig(ConfigModel):
    """What is evaluated, against what, and how much at a time."""

    tasks: list[Annotated[str, Named(TASKS)]] = Field(["wikitext2", "sst2", "needle"], min_length=1)
    max_seq_len: int = Field(256, ge=16, description="tokens of a Wikitext window: prefix and scored part")
    corruption_eval: CorruptionEvalConfig = Field(default_factory=CorruptionEvalConfig)
    families: list[TrainedFamily] | None = Field(
        None, description="operators a run trains and evaluates; null: repair.family alone"
    )
    defences: list[str] | None = Field(
        None,
        description="null: none, the heuristics, the run's trained operators, G and guard where available",
    )
    calibration_windows: int = Field(64, ge=16, description="windows of training text that calibrate G")
    calibration_len: int = Field(192, ge=16)
    oracle_heuristics: bool | list[str] = Field(
        True, description="also report the heuristics (or those named) with the true mask, labelled"
    )
    ood_protocol: str | None = Field(
        None, description="a split of configs/corruption/ood_splits.yaml, or null"
    )
    measure_overhead: bool = True
    overhead_tokens: int = Field(32, ge=2, description="tokens decoded for each overhead measurement")
    overhead_context: int = Field(512, ge=32, description="context of the overhead measurement, in tokens")
    overhead_repeats: int = Field(3, ge=1)
    fork_batch: int = Field(8, ge=1, description="the most forks of a prefix scored in one forward")
    bootstrap: int = Field(2000, ge=100, description="resamples of every confidence interval")

    @field_validator("tasks")
    @classmethod
    def _once(cls, tasks: list[str]) -> list[str]:
        return list(dict.fromkeys(tasks))


class EvaluationConfig(ConfigModel):
    """Everything an evaluation reads; the configurations of training and of whole runs add to it."""

    seed: int = Field(0, ge=0)
    model: ModelConfig = ModelConfig()
    data: DataConfig = Field(default_factory=DataConfig)
    corruption: CorruptionConfig = Field(default_factory=CorruptionConfig)
    repair: RepairConfig = Field(default_factory=RepairConfig)
    eval: EvalConfig = Field(default_factory=EvalConfig)
