"""What the demo runs. Small enough for two cores; every setting can be overridden with `--set`."""

from __future__ import annotations

from pydantic import Field

from homeostat.config import ConfigModel
from homeostat.models import ModelConfig


class CacheDemo(ConfigModel):
    """Questions answered from a clean cache and from the same cache after it was damaged."""

    questions: tuple[str, ...] = Field(
        (
            "What is the capital of France, and what is it known for? Answer in one sentence.",
            "Name the four seasons of the year in order.",
        ),
        min_length=1,
    )
    corruption: str = "gaussian"
    epsilons: tuple[float, ...] = Field((0.16, 0.64, 1.28), min_length=1)
    max_new_tokens: int = Field(32, ge=1)


class DemoConfig(ConfigModel):
    """Everything `homeostat demo` does."""

    seed: int = Field(0, ge=0)
    model: ModelConfig = ModelConfig()
    cache: CacheDemo = CacheDemo()
