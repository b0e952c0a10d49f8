"""Validation: the best state is kept, training stops when it does not help, and a resume changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file

from cachemedicpp.repair.base import load_repair
from cachemedicpp.tasks.config import MedicConfig, TrainConfig
from cachemedicpp.train.loop import learning_rate
from cachemedicpp.train.stage import train_run
from cachemedicpp.train.validate import Validation, settled


def settings(family: str, **train: Any) -> MedicConfig:
    return MedicConfig.model_validate(
        {
            "seed": 5,
            "data": {"use_offline": True, "multikey": {"context_len": 384}},
            "corruption": {
                "axes": {"N_recent": 4, "head_mode": "all"},
                "params": {"overwrite_window": [2, 8], "epsilon": 0.5, "dropout_p": 0.2, "bitflip_p": 0.01},
            },
            "repair": {"family": family, "protect_layers": [0, 1], "rank": 4},
            "eval": {"calibration_windows": 16, "calibration_len": 64},
            "train": {
                "steps": 8, "batch_size": 2, "prefix_len": 24, "continuation_len": 8, "lr": 1e-2,
                "lr_decay": "cosine", "checkpoint_every": 4, "heldout_sequences": 0,
                "validate_checkpoints": True, "validation_len": 8, "validation_sequences": 4,
                "validation_prompts": 2, **train,
            },
        }
    )  # fmt: skip


def losses(run: Path) -> list[tuple[int, float]]:
    lines = (run / "logs" / "validation.jsonl").read_text().splitlines()
    return [(record["step"], record["loss"]) for record in map(json.loads, lines)]


@pytest.mark.parametrize("family", ["A", "D"])
def test_a_resume_changes_nothing(tmp_path: Path, tiny_llama: Any, byte_tokenizer: Any, family: str) -> None:
    loaded = (tiny_llama, byte_tokenizer)
    whole = train_run(settings(family), tmp_path / "whole", loaded=loaded)
    assert train_run(settings(family), tmp_path / "parts", stop_at=5, loaded=loaded) is None
    torch.manual_seed(123)
    parts = train_run(settings(family), tmp_path / "parts", loaded=loaded)
    assert whole is not None and parts is not None
    assert whole["train.validation"] == parts["train.validation"]
    assert losses(tmp_path / "whole") == losses(tmp_path / "parts")
    assert [step for step, _ in losses(tmp_path / "whole")] == [0, 4, 8]
    one, two = (load_file(tmp_path / run / "operator" / "operator.safetensors") for run in ("whole", "parts"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    best = min(losses(tmp_path / "whole"), key=lambda found: found[1])
    assert whole["train.validation"]["best_step"] == best[0]
    load_repair(tmp_path / "whole" / "operator", tiny_llama)


def test_training_that_does_not_help_stops_and_the_start_is_kept(
    tmp_path: Path, tiny_llama: Any, byte_tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Validation.measure
    rising = iter(range(100))
    monkeypatch.setattr(Validation, "measure", lambda self, op: real(self, op) | {"loss": next(rising)})
    config = settings("A", steps=12, checkpoint_every=2, patience=2)
    metrics = train_run(config, tmp_path, loaded=(tiny_llama, byte_tokenizer))
    assert metrics is not None and metrics["train.steps"] == 4
    assert metrics["train.validation"]["best_step"] == 0
    stored = load_file(tmp_path / "operator" / "operator.safetensors")
    assert all(not x.any() for name, x in stored.items() if name.endswith(".U"))  # A's start: the identity


def test_a_part_stays_on_only_where_validation_improves() -> None:
    class Four:
        def __init__(self) -> None:
            self.off: set[str] = set()

        def parts(self) -> list[str]:
            return ["good", "bad", "useless", "best"]

        def switch(self, part: str, on: bool) -> None:
            (self.off.discard if on else self.off.add)(part)

    class Judge:
        def measure(self, operator: Any) -> dict[str, float]:
            worth = {"good": 1.0, "bad": -1.0, "useless": 0.0, "best": 2.0}
            return {"loss": -sum(worth[p] for p in operator.parts() if p not in operator.off)}

    operator, judge = Four(), Judge()
    found = settled(operator, judge)  # type: ignore[arg-type]
    assert found["off"] == ["bad", "useless"] and operator.off == {"bad", "useless"}
    assert (found["before"]["loss"], found["after"]["loss"]) == (-2.0, -3.0)


def test_the_learning_rate_decays_to_nothing() -> None:
    flat, cosine = (
        TrainConfig.model_validate({"steps": 100, "lr": 1.0, "lr_decay": d}) for d in ("none", "cosine")
    )
    assert learning_rate(flat, 99) == 1.0
    assert learning_rate(cosine, 0) == 1.0
    assert learning_rate(cosine, 50) == pytest.approx(0.5)
    assert learning_rate(cosine, 99) < 1e-3


def test_patience_without_validation_is_refused() -> None:
    with pytest.raises(ValidationError, match="patience needs validate_checkpoints"):
        TrainConfig(patience=2)
