"""The `data:` and `eval:` sections of a configuration, and everything an evaluation reads."""

from __future__ import annotations

from string import Formatter
from typing import Annotated, Literal

from pydantic import Field, field_validator

from cachemedicpp.corruption.config import CorruptionConfig
from cachemedicpp.repair.config import RepairConfig
from homeostat.core.config import ConfigModel
from homeostat.core.errors import nearest
from homeostat.core.models import ModelConfig

TASK_NAMES = [
    "wikitext2",
    "sst2",
    "needle",
    "induction",
    "multikey",
    "tracking",
    "fewshot",
]  # `cachemedicpp.tasks.register` adds to them


class Wikitext2Config(ConfigModel):
    """Strided windows: `prefix_len` clean tokens are stored, corrupted and repaired, the rest is scored."""

    path: str | None = Field(None, description="a local text to evaluate on, where the hub cannot be reached")
    train_path: str | None = Field(None, description="the same for training and calibration text")
    split: Literal["validation", "test"] = "test"
    num_sequences: int = Field(2000, ge=1, description="at most this many windows")
    score_len: int = Field(64, ge=1, description="tokens scored at the end of each window")
    stride: int | None = Field(
        None,
        ge=1,
        description="step between windows; null: end to end, or closer where num_sequences needs it",
    )


class Sst2Config(ConfigModel):
    """Sentences as prompts `Review: {x}\\nSentiment:`; the label string with the larger log-prob wins."""

    path: str | None = Field(None, description="a local .tsv (label, text) or .jsonl (text, label) file")
    num_examples: int = Field(1000, ge=1)
    negative_label: str = " negative"
    positive_label: str = " positive"
    n_recent: int | None = Field(
        4, ge=0, description="N_recent for these short prompts; null: the corruption's own N_recent"
    )


class LongContextConfig(ConfigModel):
    """The needle generator's inputs."""

    num_examples: int = Field(200, ge=1)
    seed: int | None = Field(None, ge=0, description="null: the run's seed")
    context_len: int = Field(
        1024, ge=64, description="tokens of the prompt, question and chat format included"
    )
    needle_token: str = Field("the_key", min_length=1)
    needle_value: str = Field("violet-7", min_length=1)
    position_frac: float = Field(0.35, ge=0.0, le=1.0)
    depths: list[Annotated[float, Field(ge=0.0, le=1.0)]] = Field(
        [], description="several values of position_frac, taken in turn; empty: position_frac alone"
    )
    lengths: list[Annotated[int, Field(ge=64)]] = Field(
        [], description="several values of context_len, taken in turn; empty: context_len alone"
    )
    question_template: str = "Question: What is {needle_token}? Answer:"
    chat: bool | None = Field(None, description="null: chat format exactly when the tokenizer has a template")
    max_new_tokens: int = Field(32, ge=1, description="room for an answer in a whole sentence")

    @field_validator("question_template")
    @classmethod
    def _names_the_needle(cls, template: str) -> str:
        try:
            names = {name for _, name, _, _ in Formatter().parse(template) if name is not None}
        except ValueError as error:
            raise ValueError(f"not a valid template ({error})") from None
        if names != {"needle_token"}:
            found = ", ".join(sorted(names)) or "none"
            raise ValueError(f"must contain the field {{needle_token}} and no other (found: {found})")
        return template

    def place(self, index: int) -> tuple[float, int]:
        """Depth and length of example `index`: every depth at one length, then at the next."""
        depths, lengths = self.depths or [self.position_frac], self.lengths or [self.context_len]
        return depths[index % len(depths)], lengths[index // len(depths) % len(lengths)]


class GeneratedConfig(ConfigModel):
    """What every generated task has: how many prompts, and how long they are."""

    num_examples: int = Field(64, ge=1)
    seed: int | None = Field(None, ge=0, description="null: the run's seed")
    context_len: int = Field(256, ge=48, description="tokens of a prompt")


class InductionConfig(GeneratedConfig):
    """A list of distinct words, and its beginning again: the continuation stands in the first list."""

    score_len: int = Field(8, ge=1, description="tokens scored")


class MultikeyConfig(GeneratedConfig):
    """Several keys with a value each among filler; one is asked for, and all the values are the choices."""

    keys: int = Field(6, ge=2, le=10)


class TrackingConfig(GeneratedConfig):
    """Things change hands `hops` times; who has what is asked for, and the things are the choices."""

    chains: int = Field(3, ge=2, le=6)
    hops: int = Field(1, ge=0, le=4)


class FewshotConfig(GeneratedConfig):
    """Words labelled by their kind, with labels that mean nothing elsewhere; the last has none yet."""

    context_len: int = Field(128, ge=48, description="tokens of a prompt")
    kinds: int = Field(2, ge=2, le=4)


class DataConfig(ConfigModel):
    """Where texts come from: the hub, else a local path, else the samples that come with the program."""

    use_offline: bool = Field(
        False, description="true: only the offline samples, no network and no local path"
    )
    wikitext2: Wikitext2Config = Wikitext2Config()
    sst2: Sst2Config = Sst2Config()
    long_context: LongContextConfig = LongContextConfig()
    induction: InductionConfig = InductionConfig()
    multikey: MultikeyConfig = MultikeyConfig()
    tracking: TrackingConfig = TrackingConfig()
    fewshot: FewshotConfig = FewshotConfig()


class CorruptionEvalConfig(ConfigModel):
    """The grid: every type at every epsilon. Epsilon 0 is the clean run and is always measured."""

    eps: list[float] = Field([0.0, 0.08, 0.16, 0.32], min_length=1)
    types: list[str] = Field(
        [
            "gaussian",
            "dropout_zero",
            "orthogonal_rotation",
            "bitflipish_sparse",
            "quant_noise",
            "contiguous_overwrite",
        ],
        min_length=1,
    )

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

    tasks: list[str] = Field(["wikitext2", "sst2", "needle"], min_length=1)
    max_seq_len: int = Field(256, ge=16, description="tokens of a Wikitext window: prefix and scored part")
    corruption_eval: CorruptionEvalConfig = CorruptionEvalConfig()
    families: list[Literal["A", "B", "C", "D"]] | None = Field(
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
    def _known(cls, tasks: list[str]) -> list[str]:
        for name in tasks:
            if name not in TASK_NAMES:
                raise ValueError(f"unknown task {name!r}; {nearest(name, TASK_NAMES)}")
        return list(dict.fromkeys(tasks))


class EvaluationConfig(ConfigModel):
    """Everything an evaluation reads; the configurations of training and of whole runs add to it."""

    seed: int = Field(0, ge=0)
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    corruption: CorruptionConfig = CorruptionConfig()
    repair: RepairConfig = RepairConfig()
    eval: EvalConfig = EvalConfig()
