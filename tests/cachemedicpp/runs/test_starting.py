"""A start of a cache command that fails leaves nothing behind, and each configuration has its own folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cachemedicpp.cli import app
from cachemedicpp.runs.commands import run_folder
from cachemedicpp.runs.pipeline import load
from homeostat.core.entry import run
from homeostat.core.rundir import open_run


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        run(app, list(arguments), name="homeostat cache")
    return int(stop.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "smoke", "--set", "model.name=smollm3"), "cannot load model 'smollm3'"),
        (("train", "smoke", "--set", "model.name=smollm3"), "cannot load model 'smollm3'"),
        (("eval", "smoke", "--set", "model.device=cuda"), "no CUDA device"),
        (("run", "smoke", "--set", "eval.defences=[gard]"), "unknown defence 'gard'; did you mean 'guard'?"),
        (("calibrate", "smollm3", "--text", "offline"), "cannot load model 'smollm3'"),
        (("sweep", "mine.yaml"), "cannot load model 'smollm3'"),
    ],
)
def test_a_start_that_fails_leaves_nothing_behind(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "model.device=cuda" in arguments and torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    sweep = "name: mine\nconfig: smoke\nset: {model.name: smollm3}\nvariants: [{name: a}]\n"
    Path("mine.yaml").write_text(sweep)
    code, err = call(capsys, *arguments)
    assert code == 2 and message in err, err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_without_out_each_configuration_has_arun_folder_and_finds_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def work(*overrides: str) -> str:
        config = load("smoke", overrides)
        folder = run_folder(config, Path("smoke"), None)
        with open_run(folder, command="cache run", config=config) as opened:
            opened.once("stage", lambda: 1)
        return folder.as_posix()

    assert work() == "runs/cache-smoke"
    assert work("seed=1") == "runs/cache-smoke-2"
    assert work() == "runs/cache-smoke"
