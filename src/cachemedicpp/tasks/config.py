"""The configuration of a run: `data:`, `eval:`, `train:` and `stability:`, and all sections together."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from cachemedicpp.corruption.config import CorruptionConfig, default_types
from cachemedicpp.corruption.masks import Probability
from cachemedicpp.repair.config import RepairConfig, TrainedFamily
from cachemedicpp.tasks.base import TASKS
from homeostat.core.config import ConfigModel
from homeostat.core.models import ModelConfig
from homeostat.core.registry import Named, OpenConfig

_ONCE = AfterValidator(lambda names: list(dict.fromkeys(names)))
_Level = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Severities = Annotated[  # in order, each once, with 0: what is measured where nothing is wrong
    list[_Level], Field(min_length=1), AfterValidator(lambda levels: sorted({0.0, *levels}))
]


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

    eps: Severities = Field([0.0, 0.08, 0.16, 0.32])
    types: Annotated[list[str], _ONCE] = Field(default_factory=default_types, min_length=1)
    draws: int = Field(
        1, ge=1, description="draws of damage for each example and cell; its score is their mean"
    )


class EvalConfig(ConfigModel):
    """What is evaluated, against what, and how much at a time."""

    tasks: Annotated[list[Annotated[str, Named(TASKS)]], _ONCE] = Field(
        ["wikitext2", "sst2", "needle"], min_length=1
    )
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


class LocalConfig(ConfigModel):
    """The first stage: learning from stored states, without a pass of the model."""

    steps: int = Field(0, ge=0, description="0: no such stage")
    rows: int = Field(2, ge=1, description="windows in a step, each with its own damage")
    windows: int = Field(160, ge=8, description="windows of training text whose states are collected")
    window_len: int = Field(128, ge=16)
    validation_share: float = Field(0.1, gt=0.0, lt=0.5, description="of these windows, kept aside")
    lr: float = Field(2e-3, gt=0.0)
    lambda_id: float = Field(10.0, ge=0.0, description="weight of what sound vectors are moved by")
    perturbed: Probability = Field(0.2, description="windows that are perturbed as stability measures it")
    delta_norms: tuple[Annotated[float, Field(gt=0.0)], ...] = (0.5, 2.0, 8.0, 32.0)
    validate_every: int = Field(100, ge=1)
    patience: int = Field(
        0, ge=0, description="stop after so many validations without a better one; 0: never"
    )


class TrainConfig(ConfigModel):
    """The objective and its optimisation."""

    local: LocalConfig = LocalConfig()
    minutes: float | None = Field(
        None, gt=0.0, description="CPU minutes of steps, looked at after each validation; null: no limit"
    )
    steps: int = Field(300, ge=0, description="steps of distillation through the model")
    batch_size: int = Field(4, ge=1)
    draws_per_batch: int = Field(
        4, ge=1, description="steps that share one batch's clean pass, each with its own damage"
    )
    prefix_len: int = Field(96, ge=2)
    continuation_len: int = Field(32, ge=1)
    T: float = Field(2.0, gt=0.0, description="temperature of the distillation")
    lambda_id: float = Field(1.0, ge=0.0)
    identity: Literal["each", "joint"] = Field(
        "each",
        description="L_id of keys and of values, each relative to its own size; joint: relative to both "
        "together, where keys are most of the sum",
    )
    lambda_contr: float = Field(0.5, ge=0.0)
    lambda_w: float = Field(0.0, ge=0.0)
    alpha_contr: float = Field(0.8, ge=0.0)
    clean_batch_prob: Probability = 0.2
    lr: float = Field(2e-4, gt=0.0)
    lr_decay: Literal["none", "cosine"] = Field("none", description="cosine: from lr down to 0 at `steps`")
    grad_clip: float = Field(1.0, gt=0.0)
    checkpoint_every: int = Field(50, ge=1)
    validate_checkpoints: bool = Field(
        False,
        description="measure every checkpoint on text and retrieval prompts kept aside, keep the best one "
        "(the start included), and leave off each part of it that does not improve them",
    )
    patience: int = Field(
        0, ge=0, description="stop after so many checkpoints without a better one; 0: never"
    )
    validation_sequences: int = Field(12, ge=1, description="windows of training text kept aside")
    validation_len: int = Field(16, ge=1, description="tokens scored in each; at most continuation_len")
    validation_prompts: int = Field(8, ge=1, description="retrieval prompts (multikey)")
    heldout_sequences: int = Field(32, ge=0, description="sequences of held-out text; 0: no such figure")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.patience and not self.validate_checkpoints:
            raise ValueError("patience needs validate_checkpoints: true")
        if self.validate_checkpoints and self.validation_len > self.continuation_len:
            raise ValueError("validation_len is above continuation_len")
        return self


class StabilityConfig(ConfigModel):
    """Finite differences around the clean state: logit sensitivity and amplification."""

    enabled: bool = True
    num_prompts: int = Field(8, ge=1)
    prompt_len: int = Field(128, ge=16)
    path: str | None = Field(
        None, description="text file with the prompts; null: what no task uses of the evaluation's text"
    )
    num_directions: int = Field(8, ge=1)
    delta_norms: Severities = Field([0.0, 0.5, 1.0, 2.0, 8.0, 32.0, 128.0])
    topk_logits: int | None = Field(1000, ge=1, description="null: all logits")
    layers: list[int] | Literal["protected"] = Field("protected", description="rows of the amplification map")
    head_subset: list[int] | None = None
    time_mode: Literal["old_only", "all_past"] = "old_only"
    map_prompts: int | None = Field(None, ge=1, description="prompts of the map; null: num_prompts")
    map_delta_norm: float = Field(1.0, gt=0.0)
    dtypes: list[Literal["float32", "bfloat16"]] = Field(
        ["float32", "bfloat16"],
        description="number formats that sensitivity is also measured in, beside the model's own",
    )
    batch: int = Field(16, ge=1, description="perturbed forks in one forward")

    @model_validator(mode="after")
    def _layers_are_layers(self) -> Self:
        if isinstance(self.layers, list) and (not self.layers or min(self.layers) < 0):
            raise ValueError("stability.layers needs at least one layer, counted from 0")
        return self


class MedicConfig(ConfigModel):
    """Every setting of one run of cachemedicpp."""

    # prompts that are drawn one by one: more of them leave those that a run has as they are
    grows: ClassVar[tuple[str, ...]] = tuple(
        f"data.{task}.num_examples"
        for task in ("multikey", "fewshot", "tracking", "induction", "needle_value")
    )

    seed: int = Field(0, ge=0)
    model: ModelConfig = ModelConfig()
    data: DataConfig = Field(default_factory=DataConfig)
    corruption: CorruptionConfig = Field(default_factory=CorruptionConfig)
    repair: RepairConfig = Field(default_factory=RepairConfig)
    eval: EvalConfig = Field(default_factory=EvalConfig)
    train: TrainConfig = TrainConfig()
    stability: StabilityConfig = StabilityConfig()
