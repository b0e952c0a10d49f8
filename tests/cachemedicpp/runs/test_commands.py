"""The commands: bad input is one line and exit code 2, before a model is loaded or a run directory filled."""

from __future__ import annotations

from pathlib import Path

import pytest

from homeostat.cli.main import app
from homeostat.core.entry import run
from homeostat.core.models import ModelConfig


def _exit(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as stopped:
        run(app, arguments)
    return int(stopped.value.code or 0)


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("eval.tasks=[wikitext]", "unknown task 'wikitext'"),
        ("eval.ood_protocol=loto_holdout_gausian", "no such split"),
        ("data.long_context.question_template=What is it?", "needle_token"),
        ("eval.corruption_eval.eps=[-1]", "at least 0"),
        ("eval.defences=[gard]", "did you mean 'guard'"),
        ("eval.max_seq_length=3", "did you mean 'max_seq_len'"),
        ("stability.delta_norms=[-1]", "at least 0"),
        ("eval.corruption_eval.types=[rotation]", "unknown corruption type 'rotation'"),
    ],
)
def test_bad_settings_exit_2_with_one_line_before_a_model_is_loaded(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    problem: str,
) -> None:
    monkeypatch.setattr(ModelConfig, "load", lambda self: pytest.fail("a model was loaded"))
    arguments = ["cache", "run", "smoke", "--out", str(tmp_path / "run"), "--set", setting]
    assert _exit(arguments) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert len(error.strip().splitlines()) == 1


def test_plots_of_a_folder_that_is_no_run_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit(["cache", "plots", str(tmp_path)]) == 2
    assert "not a run directory" in capsys.readouterr().err


def test_an_unknown_engine_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ["cache", "sweep", "sweeps/ablations_cpu", "--out", str(tmp_path / "s"), "--engine", "spark"]
    assert _exit(sweep) == 2
    assert "'spark' is not one of" in capsys.readouterr().err
