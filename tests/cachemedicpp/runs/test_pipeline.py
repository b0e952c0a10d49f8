"""A whole small run: artifacts by their locked names, valid records, resume, re-rendering."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from cachemedicpp.plots.around import amplification_map, lambda0_run, with_lambda0
from cachemedicpp.plots.figures import FIGURES, clean_vs_overhead, score_vs_eps
from cachemedicpp.plots.tables import _short, ablation_summary, main_results
from cachemedicpp.runs.defences import check_defence_names
from cachemedicpp.runs.ood import apply_split, load_splits
from cachemedicpp.runs.pipeline import figures, load, prepared, run_stages
from cachemedicpp.tasks import TASKS
from homeostat.core.errors import UserError
from homeostat.core.figures import style
from homeostat.core.records import read_jsonl, validate
from homeostat.core.rundir import open_run

LOCKED = [
    *(f"paper/figures/{name}.{end}" for name in FIGURES for end in ("png", "pdf")),
    "paper/tables/table_main_results.tex",
    "paper/tables/table_ablation_summary.tex",
    "metrics/task_metrics.json",
    "metrics/stability_metrics.json",
    "logs/train.jsonl",
    "logs/eval.jsonl",
]
DEFENCES = ["none", "smoothing", "clipping_renorm", "A"]
SMALL_TRAINING = {
    "steps": 2,
    "batch_size": 2,
    "prefix_len": 40,
    "continuation_len": 8,
    "heldout_sequences": 2,
    "clean_batch_prob": 0.0,
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_llama: Any, byte_tokenizer: Any) -> Path:
    """One run of all stages on the tiny Llama."""
    import copy

    from cachemedicpp.tasks.config import MedicConfig
    from homeostat.core.models import ModelConfig

    small = copy.deepcopy(_small())
    small["train"] = SMALL_TRAINING
    small["eval"] |= {"families": ["A"], "defences": DEFENCES}
    small["corruption"]["params"] = {"overwrite_window": [8, 20]}
    config = MedicConfig.model_validate(small)
    out = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelConfig, "load", lambda self: (tiny_llama, byte_tokenizer))
        with open_run(out, command="test", config=config) as run:
            run_stages(prepared(config), run)
            run.finish()
    return out


def _small() -> dict[str, Any]:
    import importlib.util

    spec = importlib.util.spec_from_file_location("medic_conftest", Path(__file__).parents[1] / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.SMALL)


def test_every_locked_artifact_is_there_and_every_record_fits_its_schema(finished: Path) -> None:
    for name in LOCKED:
        assert (finished / name).stat().st_size > 0, name
    for path in (finished / "metrics").glob("*.json"):
        validate(json.loads(path.read_text()), "metric_record")
    for path in (finished / "logs").glob("*.jsonl"):
        for record in read_jsonl(path):
            validate(record, "log_record")
    validate(json.loads((finished / "run_record.json").read_text()), "run_record")


def test_the_metric_keys_are_the_protocols_and_the_source_is_on_record(finished: Path) -> None:
    task = json.loads((finished / "metrics/task_metrics.json").read_text())
    for key in (
        "task.wikitext2.ppl",
        "task.sst2.accuracy",
        "task.needle.accuracy",
        "ppl_clean",
        "ppl_corrupted",
    ):
        assert key in task["metrics"]
    for key in (
        "robustness.score",
        "robustness.auc",
        "robustness.best_heuristic",
        "clean_regression",
        "overhead",
    ):
        assert key in task["metrics"]
    entry = task["metrics"]["task.wikitext2.ppl"][0]
    assert {"epsilon", "type", "defence", "value", "n", "ci"} <= set(entry)
    assert task["settings"]["tasks"]["wikitext2"]["source"]["origin"] == "offline"
    assert task["metrics"]["ppl_clean"] == pytest.approx(entry["value"])
    stability = json.loads((finished / "metrics/stability_metrics.json").read_text())["metrics"]
    assert set(stability) == {
        "stability.logit_sensitivity",
        "stability.logit_sensitivity_by_dtype",
        "stability.amplification_map",
        "stability.settings",
    }
    for point in stability["stability.logit_sensitivity"]:
        assert {"baseline", "heuristics", "cachemedic"} <= set(point["value"])
    assert stability["stability.logit_sensitivity"][0]["value"]["baseline"] == 0.0
    assert {"topk_logits", "time_mode", "num_directions"} <= set(stability["stability.settings"])


def test_a_finished_run_is_not_done_again(
    finished: Path, tiny_llama: Any, byte_tokenizer: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from cachemedicpp.eval import stage as evaluate
    from cachemedicpp.stability import stage as stability_metrics
    from cachemedicpp.tasks.config import MedicConfig
    from homeostat.core.models import ModelConfig

    again = tmp_path / "again"
    shutil.copytree(finished, again)
    before = (again / "metrics/task_metrics.json").read_bytes()
    monkeypatch.setattr(ModelConfig, "load", lambda self: (tiny_llama, byte_tokenizer))
    for module, name in ((evaluate, "evaluate_example"), (stability_metrics, "measure_prompt")):
        monkeypatch.setattr(module, name, lambda *a, **k: pytest.fail("a stored result was computed again"))
    config = MedicConfig.model_validate(yaml.safe_load((again / "config_resolved.yaml").read_text()))
    with open_run(again, command="test", config=config) as run:
        run_stages(prepared(config), run, ["eval", "stability"])
    assert (again / "metrics/task_metrics.json").read_bytes() == before


def test_an_interrupted_evaluation_goes_on_and_ends_the_same(
    finished: Path, tiny_llama: Any, byte_tokenizer: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from cachemedicpp.tasks.config import MedicConfig
    from homeostat.core.models import ModelConfig

    again = tmp_path / "again"
    shutil.copytree(finished, again)
    for stage in sorted((again / "stages/eval").glob("sst2_*.json"))[1:]:
        stage.unlink()
    (again / "metrics/task_metrics.json").unlink()
    monkeypatch.setattr(ModelConfig, "load", lambda self: (tiny_llama, byte_tokenizer))
    config = MedicConfig.model_validate(yaml.safe_load((again / "config_resolved.yaml").read_text()))
    with open_run(again, command="test", config=config) as run:
        run_stages(prepared(config), run, ["eval"])
    for name in ("metrics/task_metrics.json",):
        assert json.loads((again / name).read_text()) == json.loads((finished / name).read_text())
    steps = [record["step"] for record in read_jsonl(again / "logs/eval.jsonl")]
    assert steps == list(range(len(steps)))


def test_figures_and_tables_come_from_the_records_alone(finished: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(finished, again)
    for folder in ("stages", "operator", "checkpoints", "logs", "paper"):
        shutil.rmtree(again / folder)
    figures(again)
    for name in LOCKED[:10]:
        assert (again / name).read_bytes() == (finished / name).read_bytes(), name


def test_what_is_switched_off_still_has_its_record_and_figures_which_say_so(
    small_setup: Any, open_small: Any
) -> None:
    switched = {"eval__measure_overhead": False, "stability__enabled": False}
    setup = small_setup(**switched, eval__defences=["none", "smoothing"], repair__family="none")
    with open_small(setup.config) as run:
        run_stages(setup, run)
        for name in LOCKED:
            assert (run.path / name).stat().st_size > 0, name
        record = json.loads((run.path / "metrics/stability_metrics.json").read_text())
    assert record["metrics"]["stability.logit_sensitivity"] == []
    assert "stability.enabled: false" in record["metrics"]["stability.settings"]["note"]


def test_throughput_and_tokens_per_second_tell_the_same_story(finished: Path) -> None:
    overhead = json.loads((finished / "metrics/task_metrics.json").read_text())["metrics"]["overhead"]
    none = next(e for e in overhead if e["defence"] == "none")
    assert none["relative_throughput"] == 1.0
    for entry in overhead:
        ratio = entry["tokens_per_s"] / none["tokens_per_s"]
        assert entry["relative_throughput"] == pytest.approx(ratio)
        low, high = entry["relative_throughput_ci"]
        assert low <= entry["relative_throughput"] <= high


def test_an_independent_script_recomputes_what_the_records_say(finished: Path, tmp_path: Path) -> None:
    script = Path(__file__).parents[3] / "benchmarks/recompute.py"
    again = tmp_path / "again"
    shutil.copytree(finished, again)
    found = subprocess.run([sys.executable, script, again], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    path = again / "metrics/task_metrics.json"
    record = json.loads(path.read_text())
    record["metrics"]["robustness.auc"][0]["value"] *= 1.001
    path.write_text(json.dumps(record))
    found = subprocess.run([sys.executable, script, again], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "robustness.auc" in found.stdout


def test_the_tables_compile_with_booktabs(finished: Path, tmp_path: Path) -> None:
    tables = [
        (finished / "paper/tables" / n).read_text()
        for n in ("table_main_results.tex", "table_ablation_summary.tex")
    ]
    for text in tables:
        head = next(line for line in text.splitlines() if line.startswith(r"\begin{tabular}"))
        columns = len(head.removeprefix(r"\begin{tabular}{").rstrip("}"))
        rows = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert all(row.replace(r"\&", "").count("&") == columns - 1 for row in rows)
        assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex here: structure checked, not compiled")
    document = (
        r"\documentclass{article}\usepackage{booktabs}\begin{document}" + "".join(tables) + r"\end{document}"
    )
    (tmp_path / "t.tex").write_text(document)
    subprocess.run(["pdflatex", "-halt-on-error", "t.tex"], cwd=tmp_path, check=True, capture_output=True)


def test_several_workers_give_the_same_values_as_one(
    finished: Path, tiny_llama: Any, byte_tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cachemedicpp.runs import workers
    from homeostat.core.models import ModelConfig

    monkeypatch.setattr(ModelConfig, "load", lambda self: (tiny_llama, byte_tokenizer))
    workers._surroundings.cache_clear()
    config = yaml.safe_load((finished / "config_resolved.yaml").read_text())
    item = {"config": json.dumps(config), "run_dir": str(finished), "workers": 64}  # one thread per worker
    threads = torch.get_num_threads()
    try:
        found = workers.work({**item, "kind": "eval", "number": 4})
        stored = json.loads((finished / "stages/eval/sst2_00001.json").read_text())["result"]
        assert found["events"] == stored["events"]
        for name, scores in found["scores"].items():
            for one, other in zip(scores, stored["scores"][name], strict=True):
                assert one["value"] == other["value"]
                assert one["detail"]["margin"] == pytest.approx(other["detail"]["margin"], abs=1e-5)
        found = workers.work({**item, "kind": "stability", "number": 0})
        stored = json.loads((finished / "stages/stability/prompt_00000.json").read_text())["result"]
        for name, by_norm in found["sensitivity"]["float32"].items():
            for norm, values in by_norm.items():
                expected = stored["sensitivity"]["float32"][name][norm]
                assert values == pytest.approx(expected, rel=1e-2, abs=1e-5)
    finally:
        torch.set_num_threads(threads)
        workers._surroundings.cache_clear()


def test_the_lambda_0_curve_is_added_where_the_sweep_has_that_run(finished: Path, tmp_path: Path) -> None:
    own, zero = tmp_path / "reference/seed_0", tmp_path / "zero/seed_0"
    for folder in (own, zero):
        shutil.copytree(finished, folder)
    shared = {"seed": 0, "ok": True, "error": None}
    runs = [
        {"variant": "reference", "folder": "reference/seed_0", "overrides": ["seed=0"], **shared},
        {
            "variant": "zero",
            "folder": "zero/seed_0",
            "overrides": ["train.lambda_contr=0.0", "seed=0"],
            **shared,
        },
    ]
    record = {"name": "x", "config": "c", "reference": "reference", "runs": runs, "variants": []}
    (tmp_path / "sweep.json").write_text(json.dumps(record))
    assert lambda0_run(own) == zero
    assert lambda0_run(zero) is None
    metrics = json.loads((own / "metrics/stability_metrics.json").read_text())["metrics"]
    assert "lambda_contr_0" in with_lambda0(metrics, own)["stability.logit_sensitivity"][0]["value"]


def test_loto_trains_on_no_held_out_type_and_weights_sum_to_one(small_config: Callable[..., Any]) -> None:
    for name, split in load_splits().items():
        config = apply_split(small_config(eval__ood_protocol=name))
        assert split.test_type not in config.corruption.mixture
        assert sum(config.corruption.mixture.values()) == pytest.approx(1.0)
        assert config.eval.corruption_eval.types == [split.test_type]
    assert len(load_splits()) == 6


def test_loto_training_log_holds_no_event_of_the_held_out_type(
    tiny_llama: Any, byte_tokenizer: Any, small_config: Callable[..., Any], tmp_path: Path
) -> None:
    from cachemedicpp.train.stage import train_run

    training = {**SMALL_TRAINING, "steps": 12, "heldout_sequences": 0, "clean_batch_prob": 0.0}
    config = apply_split(
        small_config(
            eval__ood_protocol="loto_holdout_gaussian",
            repair__family="A",
            train=training,
            corruption__params={"overwrite_window": [8, 20]},
        )
    )
    train_run(config, tmp_path / "run", loaded=(tiny_llama, byte_tokenizer))
    drawn = [e["type"] for r in read_jsonl(tmp_path / "run/logs/train.jsonl") for e in r["corruption"]]
    assert len(drawn) == 24
    assert "gaussian" not in drawn
    assert len(set(drawn)) > 2


def test_no_draw_of_the_training_is_used_by_the_evaluation(finished: Path) -> None:
    """Every seed of noise, rotation and donor in the two logs: none stands in both."""
    trained = [e for r in read_jsonl(finished / "logs/train.jsonl") for e in r["corruption"]]
    evaluated = [e for r in read_jsonl(finished / "logs/eval.jsonl") for e in r["events"]]
    assert trained and evaluated
    for what in ("noise", "rotation", "donor"):
        used = {e["drawn"][what] for e in trained if what in e["drawn"]}
        assert not used & {e["drawn"][what] for e in evaluated if what in e["drawn"]}
    assert {what for e in evaluated for what in e["drawn"]} == {"noise", "rotation", "donor"}


def test_what_forgetting_costs_stands_beside_every_task_and_decides_what_counts(finished: Path) -> None:
    metrics = json.loads((finished / "metrics/task_metrics.json").read_text())["metrics"]
    counted = metrics["robustness.counted"]
    assert sorted([*counted["tasks"], *counted["left_out"]]) == ["needle", "sst2", "wikitext2"]
    for name in ("needle", "sst2", "wikitext2"):
        cells = metrics[f"forgetting.{name}"]
        assert len(cells) == 13 and {"value", "ci", "counts", "by"} <= set(cells[0])
        assert any(cell["counts"] for cell in cells) == (name in counted["tasks"])
    assert {e["defence"] for e in metrics["strict.needle"]} >= {"none", "forget"}


def test_an_unknown_split_or_defence_is_refused(small_config: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="did you mean 'loto_holdout_gaussian'"):
        apply_split(small_config(eval__ood_protocol="loto_holdout_gausian"))
    with pytest.raises(UserError, match="unknown defence 'gard'; did you mean 'guard'"):
        check_defence_names(small_config(eval__defences=["gard"]))
    with pytest.raises(UserError, match="trains no operator B"):
        check_defence_names(small_config(eval__defences=["B"]))


def test_the_shipped_configurations_load() -> None:
    for name in ("smoke", "cpu", "mve", "baselines"):
        config = load(name)
        check_defence_names(config)
        trained, evaluated = config.corruption.train_eps, config.eval.corruption_eval.eps
        assert name == "baselines" or set(trained) == {e for e in evaluated if e > 0}
    cpu = load("cpu")
    assert cpu.data.wikitext2.num_sequences >= 24 and load("baselines").data.wikitext2.num_sequences >= 40
    assert cpu.eval.max_seq_len - cpu.data.wikitext2.score_len - 1 >= 448
    assert cpu.data.long_context.max_new_tokens >= 32
    assert len(cpu.eval.corruption_eval.types) == 6
    # the default model cannot follow who has a thing, and needle_value asks what needle asks
    assert set(TASKS) - {"tracking", "needle_value"} <= set(cpu.eval.tasks)
    whole = load("corpus").data.wikitext2
    assert whole.stride == whole.score_len, "every token is scored once"
    mve = load("mve")
    sizes = (mve.data.wikitext2.num_sequences, mve.data.sst2.num_examples, mve.data.long_context.num_examples)
    assert sizes == (2000, 1000, 200)


def test_figure_b_refuses_a_record_without_overhead(finished: Path) -> None:
    metrics = json.loads((finished / "metrics/task_metrics.json").read_text())["metrics"]
    del metrics["overhead"]
    with style(), pytest.raises(UserError, match="measure_overhead"):
        clean_vs_overhead(metrics)


def test_tables_and_maps_read_what_the_record_says(finished: Path) -> None:
    metrics = json.loads((finished / "metrics/task_metrics.json").read_text())["metrics"]
    table = main_results(metrics).latex()
    for entry in metrics["robustness.auc"]:
        if entry["defence"] in ("none", "A"):
            assert f"{entry['value']:.4f}" in table
    assert "1 run," in ablation_summary([finished]).caption
    stability = json.loads((finished / "metrics/stability_metrics.json").read_text())["metrics"]
    with style():
        figure = amplification_map(stability)
        assert len(figure.axes) >= 3
        for entry in stability["stability.amplification_map"]:
            entry["after_by_defence"]["cachemedic"] = 0.0
        texts = [t.get_text() for axes in amplification_map(stability).axes for t in axes.texts]
    assert texts.count("0") == len(stability["stability.amplification_map"])


def test_a_perplexity_above_ten_thousand_keeps_its_digits() -> None:
    assert (_short(9999.4), _short(17_190.0), _short(9.96e7)) == (
        "9999.4",
        "1.7 × 10⁴",
        "1.0 × 10⁸",
    )


def test_one_held_out_type_has_one_panel(finished: Path) -> None:
    metrics = json.loads((finished / "metrics/task_metrics.json").read_text())["metrics"]
    metrics["robustness.by_type"] = [e for e in metrics["robustness.by_type"] if e["type"] == "gaussian"]
    with style():
        (axes,) = score_vs_eps(metrics).axes
    assert axes.get_title() == "Gaussian noise"
