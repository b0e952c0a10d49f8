"""The `train:` section of a configuration, and everything a training run reads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from cachemedicpp.corruption.config import Probability
from cachemedicpp.tasks.config import EvaluationConfig
from homeostat.core.config import ConfigModel


class TrainConfig(ConfigModel):
    """The objective and its optimisation."""

    steps: int = Field(300, ge=1)
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
    def _consistent(self) -> TrainConfig:
        if self.patience and not self.validate_checkpoints:
            raise ValueError("patience needs validate_checkpoints: true")
        if self.validate_checkpoints and self.validation_len > self.continuation_len:
            raise ValueError("validation_len is above continuation_len")
        return self


class TrainingConfig(EvaluationConfig):
    """Everything a training run reads."""

    train: TrainConfig = TrainConfig()
