"""The `stability:` section of a configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from cachemedicpp.tasks.config import EvaluationConfig
from homeostat.core.config import ConfigModel

Dtype = Literal["float32", "bfloat16"]


class StabilityConfig(ConfigModel):
    """Finite differences around the clean state: logit sensitivity and amplification."""

    enabled: bool = True
    num_prompts: int = Field(8, ge=1)
    prompt_len: int = Field(128, ge=16)
    path: str | None = Field(
        None, description="text file with the prompts; null: what no task uses of the evaluation's text"
    )
    num_directions: int = Field(8, ge=1)
    delta_norms: list[float] = Field([0.0, 0.5, 1.0, 2.0, 8.0, 32.0, 128.0], min_length=1)
    topk_logits: int | None = Field(1000, ge=1, description="null: all logits")
    layers: list[int] | Literal["protected"] = Field("protected", description="rows of the amplification map")
    head_subset: list[int] | None = None
    time_mode: Literal["old_only", "all_past"] = "old_only"
    map_prompts: int | None = Field(None, ge=1, description="prompts of the map; null: num_prompts")
    map_directions: int | None = Field(None, ge=1, description="directions of the map; null: num_directions")
    map_delta_norm: float = Field(1.0, gt=0.0)
    dtypes: list[Dtype] = Field(
        ["float32", "bfloat16"],
        description="number formats that sensitivity is also measured in, beside the model's own",
    )
    batch: int = Field(16, ge=1, description="perturbed forks in one forward")

    @field_validator("delta_norms")
    @classmethod
    def _with_zero(cls, norms: list[float]) -> list[float]:
        if any(not 0.0 <= n < float("inf") for n in norms):
            raise ValueError("every delta norm must be a finite number that is at least 0")
        return sorted({0.0, *norms})

    @model_validator(mode="after")
    def _layers_are_layers(self) -> StabilityConfig:
        if isinstance(self.layers, list) and (not self.layers or min(self.layers) < 0):
            raise ValueError("stability.layers needs at least one layer, counted from 0")
        return self


class StabilityRunConfig(EvaluationConfig):
    """Everything a measurement of stability reads."""

    stability: StabilityConfig = StabilityConfig()
