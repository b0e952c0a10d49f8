"""What can be named is listed, completed and suggested; help shows only what exists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.docs import exists

from homeostat.cli.main import app
from homeostat.core import resources
from homeostat.core.entry import named_configs, named_contracts, run
from homeostat.core.errors import UserError


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        run(app, list(arguments))
    said = capsys.readouterr()
    return int(stop.value.code or 0), said.out, said.err


@pytest.mark.parametrize(
    ("what", "known"),
    [
        ("contracts", {"gcd", "is_even"}),
        ("configs", {"smoke", "joint", "skyt/suite", "sweeps/ablations"}),
        ("models", {"smollm2-135m"}),
        ("defences", {"none", "smoothing", "G", "guard"}),
        ("rules", {"absolute"}),
    ],
)
def test_what_can_be_named_is_listed(what: str, known: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "list", what, "--json")
    rows = json.loads(out)
    assert code == 0 and known <= {next(iter(row.values())) for row in rows}
    code, out, _ = call(capsys, "list", what)
    assert code == 0 and all(name in out for name in known)


def test_each_configuration_is_listed_with_the_command_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["config"]: row["for"] for row in json.loads(call(capsys, "list", "configs", "--json")[1])}
    assert rows["smoke"] == "homeostat cache run smoke"
    assert rows["joint-small"] == "homeostat joint joint-small"
    assert rows["skyt/suite"] == "homeostat code suite skyt/suite"
    assert rows["sweeps/ablations"] == "homeostat cache sweep sweeps/ablations"
    assert rows["models/gpt2-medium"].startswith("a part")


def test_runs_are_listed_with_the_reason_of_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from homeostat.core.config import ConfigModel
    from homeostat.core.rundir import open_run

    with pytest.raises(UserError), open_run(tmp_path / "bad", command="code run", config=ConfigModel()):
        raise UserError("the environment variable OPENAI_API_KEY is not set")
    code, out, _ = call(capsys, "list", "runs", str(tmp_path), "--json")
    [row] = json.loads(out)
    assert (code, row["run"], row["status"]) == (0, "bad", "failed") and "OPENAI_API_KEY" in row["error"]
    code, _, err = call(capsys, "list", "runs", str(tmp_path / "nowhere"))
    assert code == 2 and "no such folder" in err


def test_names_are_completed() -> None:
    assert named_contracts("is_") == ["is_even", "is_palindrome", "is_prime"]
    assert named_configs("smo") == ["smoke"]
    command: Any = typer.main.get_command(app)
    assert {"--install-completion", "--show-completion"} <= {o for p in command.params for o in p.opts}


@pytest.mark.parametrize(
    ("arguments", "suggested", "not_suggested"),
    [
        (("cache", "run", "smok"), "'smoke'", "suite"),
        (
            ("cache", "run", "nothing-like-it"),
            "known: baselines, corpus, cpu, distil, families, learned, mve, smoke, trained",
            "joint",
        ),
        (("joint", "nothing-like-it"), "known: joint, joint-small", "smoke"),
        (("cache", "sweep", "nothing-like-it"), "sweeps/ablations", "smoke"),
        (("code", "suite", "nothing-like-it"), "skyt/suite", "smoke"),
        (("code", "keys", "add", "me", "--contract", "gdc"), "'gcd'", "smoke"),
    ],
)
def test_suggestions_are_of_the_right_kind(
    arguments: tuple[str, ...],
    suggested: str,
    not_suggested: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = call(capsys, *arguments)
    assert code == 2 and suggested in err and not_suggested not in err, err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("code", "run", "gcd", "--workers", "0"),
        ("code", "replay", "x.jsonl", "--workers", "-1"),
        ("cache", "run", "smoke", "--workers", "0"),
        ("joint", "--workers", "0"),
    ],
)
def test_workers_are_checked_before_anything_else(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(capsys, *arguments)
    assert code == 2 and "--workers" in err


@pytest.mark.parametrize("database", ["none.sqlite", "sqlite:///none.sqlite"])
def test_looking_at_a_database_does_not_make_one(
    database: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sqlalchemy")
    monkeypatch.chdir(tmp_path)
    for command in (("status",), ("export", "--out", "x"), ("keys", "list"), ("keys", "revoke", "me")):
        code, _, err = call(capsys, "code", *command, "--database", database)
        assert code == 2 and "no such database" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("cache", "run", "bad.yaml"),
        ("joint", "bad.yaml"),
        ("code", "run", "mine", "--contracts", "."),
        ("cache", "calibrate", "smollm2-135m", "--text", "bad.yaml"),
    ],
)
def test_a_file_that_is_not_utf8_is_named_in_plain_words(
    arguments: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_bytes("prompt: Gr\xfc\xdfe".encode("latin-1"))
    code, _, err = call(capsys, *arguments)
    assert code == 2 and "is not UTF-8 text (byte 0xfc at position 10)" in err and "codec" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]


def test_a_folder_that_cannot_be_made_is_named_before_the_model_is_loaded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    for arguments in (
        ("demo", "--out", "file/run"),
        ("cache", "run", "smoke", "--out", "file/run"),
        ("cache", "calibrate", "smollm2-135m", "--out", "file/run"),
        ("code", "run", "gcd", "--out", "file/run"),
    ):
        code, _, err = call(capsys, *arguments)
        assert code == 2 and re.search(r"file is a file|cannot make file/run", err), err


def commands(command: Any, path: tuple[str, ...] = ()) -> dict[str, Any]:
    inner = getattr(command, "commands", None)
    if inner is None:
        return {" ".join(path): command}
    return {k: v for name, child in inner.items() for k, v in commands(child, (*path, name)).items()}


COMMANDS = commands(typer.main.get_command(app))


@pytest.mark.parametrize("name", [name for name, c in COMMANDS.items() if "Example:" in (c.help or "")])
def test_examples_in_help_exist(name: str) -> None:
    example = re.search(r"Example: (.*)", COMMANDS[name].help)
    assert example and exists.problem(example.group(1)) is None
    assert example.group(1).startswith(f"homeostat {name}")
    for word in example.group(1).split():
        if word.endswith((".yaml", ".jsonl", ".gz", ".json")) and not word.startswith("runs/"):
            resources.find(word, "configs")


def test_out_is_the_same_everywhere() -> None:
    """Optional, a folder, with its default told; `report` writes a file and says so."""
    for name, command in COMMANDS.items():
        for option in (p for p in command.params if "--out" in p.opts):
            assert not option.required, name
            assert "default: " in option.help.lower(), name
            assert option.metavar == ("FILE" if name == "report" else "DIR"), name


def test_flags_are_shown_as_flags(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        _, shown, _ = call(capsys, *name.split(), "--help")
        assert "BOOLEAN" not in shown, name
        assert not re.search(r"--no-(open|json|per-prompt|confident|re-anchor|heal)\b", shown), name
