"""Settings of a campaign."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from cachemedicpp.engines.faults import Fault
from homeostat.core.config import ConfigModel

DTypes = Literal["float32", "bfloat16"]


class FaultConfig(ConfigModel):
    """One kind of damage."""

    kind: str
    epsilon: float = Field(0.001, ge=0.0)
    layers: float = Field(1.0, gt=0.0, le=1.0, description="the share of layers that are hit")

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        from homeostat.core.errors import UserError

        try:
            Fault(kind).check()
        except UserError as error:
            raise ValueError(str(error)) from None
        return kind


class CampaignConfig(ConfigModel):
    """`homeostat engine campaign CONFIG`: number types × faults × groups of prompts, twice each."""

    seed: int = Field(0, ge=0)
    model: str = Field("smollm2-135m", description="an alias or a local folder")
    dtypes: tuple[DTypes, ...] = Field(("float32",), min_length=1)
    faults: tuple[FaultConfig, ...] = Field(min_length=1)
    groups: int = Field(8, ge=1, description="prefixes; each is shared by `prompts` prompts")
    prompts: int = Field(4, ge=1, le=16)
    prefix_tokens: int = Field(256, ge=64, le=900, description="about how long a shared prefix is")
    blocks: int = Field(2, ge=1, description="blocks of each prefix that are damaged")
    max_tokens: int = Field(16, ge=1, le=64)
    clean_rounds: int = Field(
        1, ge=1, description="how often the undamaged prompts run, to count false alarms"
    )
    every: int = Field(16, ge=0, description="the guard's steps between verifications while decoding")
    chunk: int = Field(0, ge=0, description="long_prefill_token_threshold of the engine")
    python: str = Field(
        "", description="the engine's Python; default: .venv-engines, or HOMEOSTAT_ENGINE_PYTHON"
    )
