"""What the demo runs. Small enough for minutes on two cores; every setting can be overridden with `--set`."""

from __future__ import annotations

from pydantic import Field

from cachemedicpp.corruption.config import CorruptionType
from homeostat.core.config import ConfigModel
from homeostat.core.models import ModelConfig
from homeostat.joint.config import JointConfig


class Case(ConfigModel):
    """One question, and what happens to the cache that holds it."""

    question: str
    type: CorruptionType
    epsilon: float = Field(ge=0.0, description="severity; each type scales it in its own way")


class CacheDemo(ConfigModel):
    """Questions answered from a clean cache, a damaged one, and the same one repaired in three ways."""

    cases: tuple[Case, ...] = Field(
        (
            Case(
                question="What is the capital of France, and what is it known for? Answer in one sentence.",
                type="bitflipish_sparse",
                epsilon=0.02,
            ),
            Case(
                question="Name the four seasons of the year in order.",
                type="gaussian",
                epsilon=0.64,
            ),
        ),
        min_length=1,
    )
    max_new_tokens: int = Field(32, ge=1)
    calibration_windows: int = Field(32, ge=16, description="texts that operator G learns from")
    calibration_len: int = Field(128, ge=16)


class DemoConfig(ConfigModel):
    """Everything `homeostat demo` does. `joint` is the joint experiment at small size."""

    seed: int = Field(0, ge=0)
    model: ModelConfig = ModelConfig()
    answers: str = Field("data/offline/code_answers.jsonl.gz", description="a recording to replay first")
    cache: CacheDemo = CacheDemo()
    joint: JointConfig = JointConfig(
        contracts=("is_even", "count_vowels", "is_palindrome"),
        samples=6,
        temperature=0.5,
        batch_size=6,
        max_new_tokens=96,
        epsilons=(0.32,),
        defences=("none", "clipping_renorm", "G", "guard"),
    )
