from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.testing
import yaml

from homeostat.core.entry import run as run_app
from homeostat.core.resources import resource
from skyt.cli import app
from skyt.runs import generate
from skyt.sandbox import capability

needs_sandbox = pytest.mark.skipif(not capability().contained, reason="this machine cannot contain code")

GCD = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"
ROW = {"contract_id": "gcd", "model": "m", "temperature": 0.7, "sample": 0, "raw_output": GCD}


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command as the program does; returns exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as stop:
        run_app(app, list(arguments))
    out = capsys.readouterr()
    return int(stop.value.code or 0), out.out, out.err


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small replayed run with figures."""
    folder = tmp_path_factory.mktemp("cli")
    texts = [GCD, GCD.replace("a", "x").replace("b", "y"), "def gcd(a, b):\n    return 1", "prose only"]
    lines = [json.dumps({**ROW, "sample": i, "raw_output": text}) for i, text in enumerate(texts)]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(SystemExit) as stop:
        run_app(app, ["replay", str(folder / "rows.jsonl"), "--out", str(folder / "run"), "--workers", "1"])
    assert not stop.value.code
    return folder / "run"


@needs_sandbox
def test_replay_writes_every_file_of_a_run(run_dir: Path) -> None:
    names = {path.relative_to(run_dir).as_posix() for path in run_dir.rglob("*") if path.is_file()}
    assert names >= {
        "runs.csv", "distances_pre.csv", "distances_post.csv", "repairs.csv", "metrics_summary.csv",
        "samples.jsonl", "canon/gcd.json", "metrics/repeatability_metrics.json", "run_record.json",
        "paper/figures/pre_vs_post_overlay.png", "paper/figures/violin_pre.png",
        "paper/figures/violin_post.png", "paper/figures/paired_r_anchor.png",
        "paper/figures/paired_p_tau.png",
    }  # fmt: skip
    record = json.loads((run_dir / "metrics" / "repeatability_metrics.json").read_text())
    assert record["metrics"]["skyt.overall"]["R_anchor"] == 0.5
    assert record["metrics"]["skyt.cells"][0]["r_anchor"] == {
        "identical": 0.25,
        "rewritten": 0.5,
        "equivalent": 0.5,
    }
    assert record["settings"]["distance"] == "levenshtein-1"


@needs_sandbox
def test_metrics_again_gives_the_same_and_another_tau_another_p(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run_dir / "metrics_summary.csv").read_bytes()
    code, out, _ = call(capsys, "metrics", str(run_dir))
    assert code == 0
    assert "R_anchor" in out
    assert (run_dir / "metrics_summary.csv").read_bytes() == before
    assert call(capsys, "metrics", str(run_dir), "--tau", "1")[0] == 0
    row = (run_dir / "metrics_summary.csv").read_text().splitlines()[1].split(",")
    assert row[8:10] == ["1.0", "1.0"]
    assert call(capsys, "metrics", str(run_dir))[0] == 0


@needs_sandbox
def test_diff_shows_the_sample_against_the_canon(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "diff", str(run_dir), "1")
    assert code == 0
    assert "+def gcd(a, b):" in out
    assert "after repair: the canon's text" in out
    code, out, _ = call(capsys, "diff", str(run_dir), "000002")
    assert "oracle:" in out
    assert "evidence none" in out
    code, _, err = call(capsys, "diff", str(run_dir), "99")
    assert (code, err.count("\n")) == (2, 1)
    assert "from 0 to 3" in err


@needs_sandbox
def test_plots_draw_from_the_records_alone(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = run_dir / "paper" / "figures" / "violin_pre.png"
    before = picture.read_bytes()
    picture.unlink()
    code, out, _ = call(capsys, "plots", str(run_dir))
    assert code == 0
    assert "violin_pre.png" in out
    assert picture.read_bytes() == before


@needs_sandbox
def test_a_broken_line_is_named_the_rest_is_processed_and_the_exit_code_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n{broken\n" + json.dumps(ROW) + "\n")
    out_dir = tmp_path / "run"
    options = ["--out", str(out_dir), "--workers", "1", "--no-figures"]
    code, out, err = call(capsys, "replay", str(tmp_path / "rows.jsonl"), *options)
    assert code == 1
    assert "line 2" in err
    assert "line 3 has sample 0 of line 1 again" in out
    assert f"records and metrics: {out_dir}" in out and "figures" not in out
    assert len((out_dir / "samples.jsonl").read_text().splitlines()) == 2


def one_line(err: str) -> bool:
    return err.startswith("error: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "gcd", "--tau", "1.5"], ["tau = 1.5", "between 0 and 1"]),
        (["run", "gcd", "--tau", "-0.1"], ["tau = -0.1"]),
        (["run", "gcd", "-n", "0"], ["n = 0"]),
        (["run", "gcd", "-n", "1000000000"], ["n = 1000000000", "must be at most 1000000"]),
        (["suite", "suite.yaml", "--tau", "2"], ["tau = 2", "between 0 and 1"]),
        (["run", "gcd", "--temperature", "-1"], ["temperature = -1"]),
        (["run", "gdc"], ["unknown contract 'gdc'", "did you mean 'gcd'"]),
        (["run", "gcd", "--set", "generator.max_new_token=3"], ["unknown key", "max_new_token"]),
        (["run", "gcd", "--base-url", "http://127.0.0.1:9/v1"], ["--base-url needs --model"]),
        (
            ["run", "gcd", "--base-url", "http://127.0.0.1:9/v1", "--model", "m"],
            ["no answer from http://127.0.0.1:9/v1"],
        ),
        (
            ["run", "gcd", "--base-url", "http://models.invalid/v1", "--model", "m"],
            ["OPENAI_API_KEY is not set"],
        ),
        (["run", "gcd", "--model", "no/such-model"], ["no/such-model"]),
        (["replay", "nowhere.jsonl"], ["no such file: nowhere.jsonl"]),
        (["replay", "nowhere.jsonl", "--tau", "nan"], ["tau = nan"]),
        (["metrics", "nowhere"], ["nowhere is not a run directory"]),
        (["plots", "nowhere"], ["nowhere has no metrics yet"]),
        (["diff", "nowhere", "0"], ["nowhere has no records.sqlite"]),
        (["suite", "nowhere.yaml"], ["no such file: nowhere.yaml"]),
        (["run", "mine.yaml"], ["no such file or folder: mine.yaml"]),
        (["run", "./contracts"], ["no such file or folder: ./contracts"]),
        (["contracts", "judge", "mine.py", "x.py"], ["no such file or folder: mine.py"]),
        (["contracts", "check", "mine.yaml"], ["no such file or folder: mine.yaml"]),
        (["contracts", "check", "gdc"], ["unknown contract 'gdc'; did you mean 'gcd'"]),
        (
            ["run", "gcd", "--set", "generator.kind=opnai"],
            ["generator.kind = 'opnai': did you mean 'openai'"],
        ),
    ],
)
def test_mistakes_are_one_clear_line_and_exit_code_2(
    arguments: list[str],
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, _, err = call(capsys, *arguments)
    assert code == 2
    assert one_line(err), err
    assert all(word in err for word in words), err
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_a_contract_without_oracle_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from homeostat.core.resources import resource

    monkeypatch.chdir(tmp_path)
    contract = yaml.safe_load(resource("contracts/gcd.yaml").read_text())
    contract["oracle"] = {}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "gcd.yaml").write_text(yaml.safe_dump(contract))
    code, _, err = call(capsys, "run", "gcd", "--contracts", str(tmp_path / "mine"))
    assert code == 2
    assert one_line(err)
    assert "oracle" in err


@needs_sandbox
def test_a_suite_covers_the_matrix_in_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [(t, c) for t in (0.0, 0.7) for c in ("gcd", "factorial")]
    rows = [json.dumps({**ROW, "temperature": t, "contract_id": c}) for t, c in cells]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n")
    matrix: dict[str, Any] = {
        "contracts": ["gcd", "factorial"],
        "generators": [{"kind": "recorded", "name": "m", "file": str(tmp_path / "rows.jsonl")}],
        "temperatures": [0.0, 0.7],
        "n": 1,
    }
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(matrix))
    options = ["--no-figures", "--workers", "1"]
    command = ["suite", str(tmp_path / "m.yaml"), "--out"]
    assert call(capsys, *command, str(tmp_path / "run"), *options, "--tau", "0.25")[0] == 0
    record = json.loads((tmp_path / "run" / "metrics" / "repeatability_metrics.json").read_text())
    assert record["metrics"]["skyt.overall"]["tau"] == 0.25
    found = [(c["prompt_id"], c["temperature"], c["R_anchor"]) for c in record["metrics"]["skyt.cells"]]
    assert found == [("gcd", 0.0, 1.0), ("gcd", 0.7, 1.0), ("factorial", 0.0, 0.0), ("factorial", 0.7, 0.0)]
    matrix["n"] = 2
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(matrix))
    code, out, err = call(capsys, *command, str(tmp_path / "other"), *options)
    assert code == 1
    assert "only 1 outputs are recorded" in err
    assert "4 of 8 outputs are on record" in err
    assert re.search(r"^overall +4 ", out, re.MULTILINE)  # those that are there are measured
    record = json.loads((tmp_path / "other" / "run_record.json").read_text())
    assert record["status"] == "failed" and "4 of 8 outputs are missing" in record["error"]
    code, out, err = call(capsys, *command, str(tmp_path / "strict"), *options, "--fail-on-error")
    assert code == 1 and "overall" not in out and "4 of 8 outputs are on record" in err
    lines = [json.dumps({**ROW, "temperature": t, "contract_id": c}) for t, c in cells for _ in range(2)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    generate._loaded.cache_clear()  # as in a new process
    code, out, _ = call(capsys, *command, str(tmp_path / "other"), *options)
    assert code == 0 and re.search(r"^overall +8 ", out, re.MULTILINE)  # and the others join them


def test_help_teaches_every_command_with_an_example() -> None:
    runner = typer.testing.CliRunner()
    for command in ("run", "suite", "replay", "metrics", "plots", "diff"):
        text = runner.invoke(app, [command, "--help"], terminal_width=200).output
        assert re.search(rf"homeostat code\s+{command}", text), text


@needs_sandbox
def test_check_takes_a_contract_by_name_or_file_and_leaves_nothing_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(resource("contracts/easy/is_even.yaml").read_text(encoding="utf-8"))
    for contract in (str(path), "is_even"):
        code, out, _ = call(capsys, "contracts", "check", contract, "--mutants", "1", "--workers", "1")
        assert code == 0 and "\nis_even: " in out and "kept in" not in out
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_that_leaves_ends_the_output_and_not_the_work() -> None:
    source = """
import sys, typer
from homeostat.core.entry import run
app = typer.Typer()
@app.command()
def work():
    for number in range(20_000):
        print("line", number)
    print("finished", file=sys.stderr)
run(app, [])
"""
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b"finished\n"
        assert process.wait() == 0


@needs_sandbox
def test_judge_says_how_a_contract_allows_an_import(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text("import statistics\n" + GCD)
    code, out, _ = call(capsys, "contracts", "judge", "gcd", str(tmp_path / "mine.py"))
    assert code == 1
    assert "imports statistics, which the contract does not allow" in out
    assert "to allow this, write in the contract: constraints: {imports: [statistics]}" in out
    (tmp_path / "mine.py").write_text("def gcd(a, b):\n    return 1")
    assert "to allow this" not in call(capsys, "contracts", "judge", "gcd", str(tmp_path / "mine.py"))[1]


@needs_sandbox
@pytest.mark.parametrize(
    ("canon", "says"),
    [
        ({"contract_id": "gcd", "canonical_code": "def gcd(a, b):\n    return 1"}, "gcd(48, 18)"),
        ({"contract_id": "gdc", "canonical_code": GCD}, "has canons of gdc alone"),
    ],
)
def test_refused_canons_leave_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], canon: dict[str, str], says: str
) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    (tmp_path / "canons.json").write_text(json.dumps([canon]))
    options = ["--canons", str(tmp_path / "canons.json"), "--out", str(tmp_path / "run"), "--workers", "1"]
    code, _, err = call(capsys, "replay", str(tmp_path / "rows.jsonl"), *options)
    assert code == 2 and says in err
    assert not (tmp_path / "run").exists()
