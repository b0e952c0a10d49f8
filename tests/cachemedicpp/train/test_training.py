"""Training: it resumes bit for bit, its record is complete, and it helps on text it has not seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from cachemedicpp.cache.state import Geometry
from cachemedicpp.corruption import CorruptionFamily
from cachemedicpp.repair.attach import medic
from cachemedicpp.repair.base import load_repair
from cachemedicpp.repair.operators import build_operator
from cachemedicpp.tasks.config import MedicConfig
from cachemedicpp.tasks.windows import Windows
from cachemedicpp.train.loop import DivergedError, Trainer
from cachemedicpp.train.passes import frozen, study, teach
from cachemedicpp.train.stage import train_run
from homeostat.core.errors import UserError

Settings = Callable[..., MedicConfig]


@pytest.fixture
def settings() -> Settings:
    def build(**train: Any) -> MedicConfig:
        steps = {"steps": 20, "batch_size": 2, "prefix_len": 24, "continuation_len": 8, "lr": 1e-2}
        return MedicConfig.model_validate(
            {
                "seed": 5,
                "data": {"use_offline": True},
                "corruption": {
                    "axes": {"N_recent": 4, "head_mode": "all"},
                    "params": {
                        "overwrite_window": [2, 8],
                        "epsilon": 0.5,
                        "dropout_p": 0.2,
                        "bitflip_p": 0.01,
                    },
                },
                "repair": {"protect_layers": [0, 1], "rank": 4},
                "train": {**steps, "checkpoint_every": 10, "heldout_sequences": 4, **train},
            }
        )

    return build


def parameters(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "checkpoints" / "checkpoint.safetensors")


def test_twenty_steps_equal_ten_and_a_resume_and_ten_bit_for_bit(
    tmp_path: Path, tiny_llama: Any, byte_tokenizer: Any, settings: Settings
) -> None:
    loaded = (tiny_llama, byte_tokenizer)
    train_run(settings(), tmp_path / "whole", loaded=loaded)
    assert train_run(settings(), tmp_path / "parts", stop_at=10, loaded=loaded) is None
    torch.manual_seed(123)  # whatever else used torch's stream in between
    train_run(settings(), tmp_path / "parts", loaded=loaded)
    whole, parts = parameters(tmp_path / "whole"), parameters(tmp_path / "parts")
    assert whole.keys() == parts.keys() and all(torch.equal(whole[name], parts[name]) for name in whole)
    logs = [
        [json.loads(line) for line in (tmp_path / run / "logs" / "train.jsonl").read_text().splitlines()]
        for run in ("whole", "parts")
    ]
    strip = {"run_id", "timestamp_utc", "seconds", "cpu_seconds"}
    plain = [[{k: v for k, v in record.items() if k not in strip} for record in log] for log in logs]
    assert plain[0] == plain[1] and [record["step"] for record in plain[0]] == list(range(20))


def test_a_kill_between_checkpoints_repeats_the_lost_steps_once(
    tmp_path: Path, tiny_llama: Any, byte_tokenizer: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = (tiny_llama, byte_tokenizer)
    real = Trainer.step

    def killed(self: Trainer, number: int) -> Any:
        if number == 14:
            raise SystemExit(9)
        return real(self, number)

    monkeypatch.setattr(Trainer, "step", killed)
    with pytest.raises(SystemExit):
        train_run(settings(), tmp_path / "cut", loaded=loaded)
    monkeypatch.setattr(Trainer, "step", real)
    train_run(settings(), tmp_path / "cut", loaded=loaded)
    train_run(settings(), tmp_path / "whole", loaded=loaded)
    cut, whole = parameters(tmp_path / "cut"), parameters(tmp_path / "whole")
    assert all(torch.equal(cut[name], whole[name]) for name in whole)
    lines = (tmp_path / "cut" / "logs" / "train.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(20))


def test_the_record_of_a_run_is_complete_and_its_operator_loads(
    tmp_path: Path, tiny_llama: Any, byte_tokenizer: Any, settings: Settings
) -> None:
    metrics = train_run(settings(lambda_w=1e-4), tmp_path, loaded=(tiny_llama, byte_tokenizer))
    assert metrics is not None
    records = [json.loads(line) for line in (tmp_path / "logs" / "train.jsonl").read_text().splitlines()]
    wanted = {"loss_total", "loss_kd", "loss_id", "loss_contr", "rho_mean", "rho_p95", "corruption"}
    assert all(wanted <= record.keys() for record in records)
    clean = [record for record in records if record["clean_batch"]]
    dirty = [record for record in records if not record["clean_batch"]]
    assert clean and all(r["corruption"] == [] and r["rho_mean"] is None for r in clean)
    assert dirty and all(len(r["corruption"]) == 2 and r["rho_mean"] is not None for r in dirty)
    assert {"type", "severity", "mask"} <= dirty[0]["corruption"][0].keys()
    stored = json.loads((tmp_path / "metrics" / "train_metrics.json").read_text())["metrics"]
    assert stored == json.loads(json.dumps(metrics))
    kl = stored["train.heldout_kl"]
    assert kl["sequences"] == 4 and kl["unrepaired"]["estimate"] > 0
    assert json.loads((tmp_path / "run_record.json").read_text())["status"] == "complete"
    card = json.loads((tmp_path / "operator" / "card.json").read_text())
    assert card["training"]["train.steps"] == 20
    with medic(tiny_llama, repair=load_repair(tmp_path / "operator", tiny_llama)):
        tiny_llama.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=2)


@pytest.mark.parametrize("family", ["A", "B", "C"])
def test_the_base_model_stays_as_it_was_and_the_loss_falls(
    family: str, tiny_llama: Any, byte_tokenizer: Any, settings: Settings
) -> None:
    config = settings(clean_batch_prob=0.0, lambda_contr=0.0)
    before = {name: p.clone() for name, p in tiny_llama.state_dict().items()}
    flags = [p.requires_grad for p in tiny_llama.parameters()]
    operator = build_operator(
        config.repair.model_copy(update={"family": family}), Geometry.of(tiny_llama), config.seed
    )
    family_ = CorruptionFamily.build(config.corruption, tiny_llama, byte_tokenizer, operator.layers, 0)
    ids = torch.randint(3, 256, (4000,), generator=torch.Generator().manual_seed(0))
    trainer = Trainer(config, tiny_llama, operator, family_, Windows(ids, 32))
    with frozen(tiny_llama):
        teacher = teach(tiny_llama, ids[: 8 * 32].view(8, 32), 24)
        injection = family_.mixture(draw=1)

        def loss() -> float:
            with torch.no_grad():
                return float(
                    (study(tiny_llama, teacher, operator, injection).logits - teacher.logits).square().mean()
                )

        first = loss()
        for number in range(30):
            trainer.step(number)
        assert loss() < first
    assert all(torch.equal(before[name], p) for name, p in tiny_llama.state_dict().items())
    assert [p.requires_grad for p in tiny_llama.parameters()] == flags


def test_a_loss_that_is_not_finite_stops_with_step_and_corruption(
    tmp_path: Path, tiny_llama: Any, byte_tokenizer: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cachemedicpp.train import objective

    real = objective.kd_loss
    calls = iter(range(100))
    monkeypatch.setattr(
        objective, "kd_loss", lambda *a, **k: real(*a, **k) * (float("nan") if next(calls) == 3 else 1.0)
    )
    config = settings(clean_batch_prob=0.0)
    with pytest.raises(DivergedError, match=r"step 3: the loss is nan; corruption of this batch: \w+ \{"):
        train_run(config, tmp_path, loaded=(tiny_llama, byte_tokenizer))
    assert DivergedError("").exit_code == 1
    lines = (tmp_path / "logs" / "train.jsonl").read_text().splitlines()
    assert len(lines) == 3


def test_the_clean_pass_is_the_prefill_and_what_follows(tiny_llama: Any) -> None:
    ids = torch.randint(3, 256, (2, 20), generator=torch.Generator().manual_seed(0))
    teacher = teach(tiny_llama, ids, 15)
    with torch.no_grad():
        out = tiny_llama(input_ids=ids[:, :15], use_cache=True)
        after = tiny_llama(input_ids=ids[:, 15:], past_key_values=out.past_key_values).logits
    assert teacher.state.length == 15
    torch.testing.assert_close(teacher.logits, after, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(study(tiny_llama, teacher, None, None).logits, after, atol=1e-5, rtol=1e-4)


def test_text_shorter_than_a_window_is_refused(byte_tokenizer: Any) -> None:
    from cachemedicpp.tasks.data import Corpus, Source

    corpus = Corpus(("short",), Source("x", "path", "a.txt", "0"))
    with pytest.raises(UserError, match=r"a\.txt has 5 tokens, fewer than one window of 32"):
        Windows.of(corpus, byte_tokenizer, 32)


def test_held_out_windows_do_not_overlap_and_are_always_the_same() -> None:
    spread = Windows(torch.arange(100), 10).spread(4)
    assert spread[:, 0].tolist() == [0, 20, 50, 70]
    assert len(Windows(torch.arange(35), 10).spread(9)) == 3
