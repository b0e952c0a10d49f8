"""Sweeps: expansion, both engines, a failing run among good ones, comparison by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from cachemedicpp.runs.pipeline import load
from cachemedicpp.sweep import summary as sweep_summary
from cachemedicpp.sweep.run import (
    SweepConfig,
    calibration_key,
    copy_once,
    expand,
    plan,
    run_sweep,
)
from cachemedicpp.sweep.summary import summarise
from homeostat.core.errors import UserError
from homeostat.core.records import validate

SMALL_RUN: dict[str, Any] = {
    "data": {
        "use_offline": True,
        "wikitext2": {"num_sequences": 2, "score_len": 4},
        "sst2": {"num_examples": 2},
    },
    "corruption": {"axes": {"head_mode": "all", "N_recent": 8}, "params": {"overwrite_window": [4, 12]}},
    "repair": {"family": "A", "protect_layers": [1], "rank": 2},
    "train": {"steps": 1, "batch_size": 1, "prefix_len": 24, "continuation_len": 4, "heldout_sequences": 0},
    "eval": {
        "tasks": ["wikitext2", "sst2"],
        "max_seq_len": 40,
        "corruption_eval": {"eps": [0.5], "types": ["gaussian", "dropout_zero"]},
        "defences": ["none", "smoothing", "clipping_renorm", "operators"],
        "oracle_heuristics": False,
        "bootstrap": 100,
        "overhead_context": 32,
        "overhead_tokens": 2,
        "overhead_repeats": 1,
    },
    "stability": {"num_prompts": 1, "prompt_len": 32, "num_directions": 1, "delta_norms": [0.0, 1.0]},
}


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory, tiny_llama: Any) -> Path:
    """The tiny Llama with a byte tokenizer, as a model directory that any process can load."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<pad>": 0, "<s>": 1, "</s>": 2} | {c: i + 3 for i, c in enumerate(letters[:253])}
    inner = Tokenizer(models.BPE(vocabulary, [], unk_token="<s>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    folder = tmp_path_factory.mktemp("tiny") / "model"
    tiny_llama.save_pretrained(folder)
    fast = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="</s>")
    fast.save_pretrained(folder)
    return folder


def _sweep_file(folder: Path, model: Path, variants: list[dict[str, Any]]) -> Path:
    (folder / "run.yaml").write_text(
        yaml.safe_dump({**SMALL_RUN, "model": {"name": str(model), "device": "cpu"}})
    )
    body = {"name": "small", "config": str(folder / "run.yaml"), "seeds": [0], "variants": variants}
    (folder / "sweep.yaml").write_text(yaml.safe_dump(body))
    return folder / "sweep.yaml"


def test_variants_and_grid_are_expanded_once_a_seed() -> None:
    sweep = SweepConfig.model_validate(
        {
            "name": "x",
            "config": "smoke.yaml",
            "seeds": [0, 1],
            "set": {"train.steps": 5},
            "variants": [{"name": "plain"}],
            "grid": {"repair.rank": [4, 8], "train.lambda_contr": [0.0]},
        }
    )
    assert [v.name for v in expand(sweep)] == ["plain", "rank=4_lambda_contr=0.0", "rank=8_lambda_contr=0.0"]
    runs = plan(sweep, Path("out"))
    assert len(runs) == 6
    assert runs[3]["overrides"] == ["train.steps=5", "repair.rank=4", "train.lambda_contr=0.0", "seed=1"]
    assert runs[3]["folder"] == "rank=4_lambda_contr=0.0/seed_1"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"variants": []}, "needs `variants` or a `grid`"),
        ({"variants": [{"name": "a"}, {"name": "a"}]}, "share the name 'a'"),
        ({"reference": "b"}, "not a variant"),
        ({"variants": [{"name": "../up"}]}, "pattern"),
    ],
)
def test_bad_sweeps_are_refused(change: dict[str, Any], problem: str) -> None:
    raw = {"name": "x", "config": "smoke.yaml", "variants": [{"name": "a"}], **change}
    with pytest.raises(ValueError, match=problem):
        SweepConfig.model_validate(raw)


def test_a_bad_setting_in_any_variant_is_refused_before_the_first_run(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    variants = [{"name": "a"}, {"name": "b", "set": {"train.stepps": 3}}]
    path.write_text(yaml.safe_dump({"name": "x", "config": "smoke.yaml", "variants": variants}))
    with pytest.raises(UserError, match="stepps"):
        run_sweep(path, tmp_path / "out", "local", 1)
    assert not (tmp_path / "out" / "a").exists()


def test_the_shipped_sweeps_load_and_every_setting_is_valid() -> None:
    from homeostat.core.config import load_config

    for name, runs in (("sweeps/ablations", 27), ("sweeps/ablations_cpu", 10), ("sweeps/loto_cpu", 6)):
        sweep = load_config(SweepConfig, name)
        assert len(expand(sweep)) == runs
        for item in plan(sweep, Path("out")):
            load(item["config"], item["overrides"])


def test_means_and_paired_differences_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds shift both variants alike: the paired difference is exactly 0.1 however far seeds spread."""
    values = {"base/seed_0": 0.2, "base/seed_1": 0.6, "other/seed_0": 0.3, "other/seed_1": 0.7}
    runs = [
        {"variant": v, "seed": s, "folder": f"{v}/seed_{s}", "ok": True}
        for v in ("base", "other")
        for s in (0, 1)
    ]
    by_example = np.array([0.0, -0.1, 0.1])

    def measured(path: Path, tasks: Any) -> Any:
        value = values[f"{path.parent.name}/{path.name}"]
        return {"auc": value}, by_example + value

    monkeypatch.setattr(sweep_summary, "measure", measured)
    base, other = summarise({"reference": "base", "runs": runs}, Path("out"))
    assert base["figures"]["auc"]["estimate"] == pytest.approx(0.4)
    difference = other["figures"]["auc_minus_reference"]
    assert [difference[k] for k in ("estimate", "low", "high")] == pytest.approx([0.1, 0.1, 0.1])
    assert "auc_minus_reference" not in base["figures"]
    paired = other["figures"]["auc_gain_minus_reference_over_examples"]
    assert [paired[k] for k in ("estimate", "low", "high")] == pytest.approx([0.1, 0.1, 0.1])
    assert base["figures"]["auc_gain_over_examples"]["low"] < 0.4


def test_runs_of_a_sweep_calibrate_once(tmp_path: Path) -> None:
    shared, first, second = tmp_path / "shared" / "key", tmp_path / "a", tmp_path / "b"
    copy_once(first, shared)
    assert not shared.exists(), "nothing was calibrated yet"
    first.mkdir()
    (first / "card.json").write_text("{}")
    copy_once(first, shared)
    copy_once(shared, second)
    copy_once(tmp_path / "nowhere", second)
    assert (second / "card.json").read_text() == "{}"
    a, b = load("smoke"), load("smoke", ["repair.rank=4"])
    assert calibration_key(a) == calibration_key(b) != calibration_key(load("cpu"))


@pytest.mark.slow
def test_one_failing_run_leaves_the_others(
    tmp_path: Path, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = [
        {"name": "good"},
        {"name": "bad", "set": {"data.sst2.n_recent": 900}},  # refused by the run itself
        {"name": "lambda_contr=0", "set": {"train.lambda_contr": 0.0}},
    ]
    path, out = _sweep_file(tmp_path, tiny_folder, variants), tmp_path / "out"
    assert run_sweep(path, out, "local", workers=1) == 1
    said = capsys.readouterr().err
    assert "failed: bad seed 0" in said and "N_recent = 900" in said
    record = json.loads((out / "sweep.json").read_text())
    validate(record, "sweep")
    assert [run["ok"] for run in record["runs"]] == [True, False, True]
    assert (out / "paper/tables/table_ablation_summary.tex").read_text().count("\\\\") == 3
