"""The local stage: it resumes bit for bit, brings damaged states nearer, and needs no pass of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from cachemedicpp.corruption import Stream
from cachemedicpp.tasks.config import MedicConfig
from cachemedicpp.train.bound import reduced_rank
from cachemedicpp.train.local import perturbed
from cachemedicpp.train.stage import train_run


def settings(family: str, **train: Any) -> MedicConfig:
    local = {"steps": 12, "windows": 24, "window_len": 48, "validate_every": 6, "validation_share": 0.2}
    return MedicConfig.model_validate(
        {
            "seed": 5,
            "data": {"use_offline": True},
            "corruption": {"axes": {"N_recent": 8, "head_mode": "all"}, "train_eps": [0.32, 0.64]},
            "repair": {"family": family, "protect_layers": [0, 1], "rank": 4, "width": 24},
            "eval": {"calibration_windows": 16, "calibration_len": 64},
            "train": {"local": local, "steps": 0, "heldout_sequences": 0, **train},
        }
    )


@pytest.mark.parametrize("family", ["A", "E"])
def test_a_resumed_local_stage_ends_bit_for_bit_as_one_that_was_not_interrupted(
    tmp_path: Path, tiny_llama: Any, byte_tokenizer: Any, family: str
) -> None:
    loaded = (tiny_llama, byte_tokenizer)
    whole = train_run(settings(family), tmp_path / "whole", loaded=loaded)
    assert train_run(settings(family), tmp_path / "parts", stop_at=7, loaded=loaded) is None
    torch.manual_seed(123)
    parts = train_run(settings(family), tmp_path / "parts", loaded=loaded)
    assert whole is not None and parts is not None and whole["train.local"] == parts["train.local"]
    one, two = (load_file(tmp_path / run / "operator" / "operator.safetensors") for run in ("whole", "parts"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    log = (tmp_path / "parts" / "logs" / "train.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in log]
    assert [record["step"] for record in records] == list(range(12))
    wanted = {"loss_total", "loss_kd", "loss_id", "loss_contr", "rho_mean", "rho_p95", "corruption"}
    assert all(wanted <= record.keys() and record["stage"] == "local" for record in records)


def test_the_local_stage_leaves_less_of_the_distance_and_distillation_follows_it(
    tmp_path: Path, tiny_llama: Any, byte_tokenizer: Any
) -> None:
    config = settings("E", steps=2, prefix_len=24, continuation_len=8, batch_size=2)
    metrics = train_run(config, tmp_path / "run", loaded=(tiny_llama, byte_tokenizer))
    assert metrics is not None and metrics["train.steps"] == 14
    assert metrics["train.local"]["best"] < metrics["train.local"]["start"]
    log = [json.loads(x) for x in (tmp_path / "run" / "logs" / "train.jsonl").read_text().splitlines()]
    assert [record["loss_kd"] is None for record in log] == [True] * 12 + [False] * 2


def test_a_budget_of_minutes_ends_training(tmp_path: Path, tiny_llama: Any, byte_tokenizer: Any) -> None:
    metrics = train_run(settings("E", minutes=1e-6), tmp_path / "run", loaded=(tiny_llama, byte_tokenizer))
    assert metrics is not None and metrics["train.steps"] == 6  # of 12: looked at after a validation


def test_a_perturbation_has_the_norm_of_the_stability_protocol_and_spares_recent_positions() -> None:
    x = torch.randn(20, 2, 6, 8, generator=torch.Generator().manual_seed(0)) * 3
    moved = perturbed(x, 2.0, 5, Stream(("test",))) - x
    assert not bool(moved[-5:].any())
    rms = x.square().mean((0, 2, 3)).sqrt()
    torch.testing.assert_close(moved.square().sum((0, 2, 3)).sqrt(), 2.0 * rms)


def test_no_linear_map_of_its_rank_is_nearer_than_the_bound() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(400, 12, generator=generator)
    Y = X @ torch.randn(12, 12, generator=generator) + 0.1 * torch.randn(400, 12, generator=generator)
    w = torch.rand(400, 1, generator=generator)
    best = reduced_rank((X * w).mT @ X, (X * w).mT @ (Y - X), 3)

    def left(M: torch.Tensor) -> float:
        return float((w * (X + X @ M - Y).square()).sum())

    assert torch.linalg.matrix_rank(best, rtol=1e-4) == 3
    for size in (1e-3, 1e-2, 0.1, 1.0):
        W, U = (size * torch.randn(12, 3, generator=generator) for _ in "WU")
        assert left(best) <= left(W @ U.mT)
        U, S, V = torch.linalg.svd(best)  # and of maps near the best one, none
        near = (U[:, :3] * S[:3] + size * torch.randn(12, 3, generator=generator)) @ V[:3]
        assert left(best) <= left(near) * (1 + 1e-5)


def test_the_bound_of_a_linear_form_stands_beside_what_it_learned(
    tmp_path: Path, tiny_llama: Any, byte_tokenizer: Any
) -> None:
    metrics = train_run(settings("A"), tmp_path / "run", loaded=(tiny_llama, byte_tokenizer))
    assert metrics is not None
    found = metrics["train.local"]["bound"]
    assert found["rank"] == 4 and found["cells"].keys() == metrics["train.local"]["cells"].keys()
