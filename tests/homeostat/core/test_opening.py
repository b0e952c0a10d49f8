"""A failed start leaves nothing in the way, a run grows, and other settings are named."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field

from homeostat.core.config import ConfigModel
from homeostat.core.errors import UserError
from homeostat.core.records import read_record
from homeostat.core.rundir import RunDir, check_out, default_out, open_run


class Sampling(ConfigModel):
    temperature: float = 0.7


class Config(ConfigModel):
    grows: ClassVar[tuple[str, ...]] = ("n",)
    told: ClassVar[dict[str, str]] = {"hashes": "the contract {} has changed"}
    seed: int = 0
    n: int = 20
    sampling: Sampling = Sampling()
    hashes: dict[str, str] = Field(default_factory=dict)


def work(out: Path, config: Config, stages: int = 1) -> RunDir:
    with open_run(out, command="test", config=config) as run:
        for number in range(stages):
            run.once(f"stage-{number}", lambda number=number: number)
        run.finish()
    return run


def record(out: Path) -> dict[str, object]:
    return read_record(out / "run_record.json", "run_record")


def files(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_failure_is_recorded_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError), open_run(tmp_path / "run", command="test", config=Config()):
        raise UserError("no key:\n  set OPENAI_API_KEY")
    found = record(tmp_path / "run")
    assert (found["status"], found["error"]) == ("failed", "no key: set OPENAI_API_KEY")
    with pytest.raises(ZeroDivisionError), open_run(tmp_path / "bug", command="test", config=Config()):
        _ = 1 / 0
    assert record(tmp_path / "bug")["error"] == "ZeroDivisionError: division by zero"


def test_a_start_that_finished_nothing_is_in_nobodys_way(tmp_path: Path) -> None:
    with pytest.raises(UserError), open_run(tmp_path / "run", command="test", config=Config()) as run:
        run.log("train").append(0, note="of the start that failed")
        raise UserError("model 'smollm3': no such model")
    first = record(tmp_path / "run")["run_id"]
    corrected = work(tmp_path / "run", Config(seed=1))
    found = record(tmp_path / "run")
    assert found["status"] == "complete" and "error" not in found and found["run_id"] != first
    assert list(corrected.log("train").read()) == []


def test_an_interrupted_start_is_in_nobodys_way_either(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), open_run(tmp_path / "run", command="test", config=Config()):
        raise KeyboardInterrupt
    assert record(tmp_path / "run")["status"] == "running"  # nobody holds it: shown as interrupted
    work(tmp_path / "run", Config(seed=1))


def test_a_failed_run_goes_on_and_is_complete_in_the_end(tmp_path: Path) -> None:
    with pytest.raises(UserError), open_run(tmp_path / "run", command="test", config=Config()) as run:
        run.once("stage-0", lambda: "kept")
        raise UserError("the disk is full")
    again = work(tmp_path / "run", Config())
    assert again.once("stage-0", lambda: "anew") == "kept"
    assert again.run_id == run.run_id and "error" not in record(tmp_path / "run")


def test_a_complete_run_stays_complete_when_a_later_command_fails_on_it(tmp_path: Path) -> None:
    work(tmp_path / "run", Config())
    with pytest.raises(UserError), open_run(tmp_path / "run", command="test", config=Config()):
        raise UserError("no such stage")
    assert record(tmp_path / "run")["status"] == "complete"


def test_other_settings_are_refused_by_name_and_nothing_changes(tmp_path: Path) -> None:
    out = tmp_path / "run"
    work(out, Config(hashes={"gcd": "a" * 64}))
    before = files(out)
    other = Config(sampling=Sampling(temperature=0.9), hashes={"gcd": "b" * 64})
    for refuse in (lambda: check_out(out, other), lambda: work(out, other)):
        with pytest.raises(UserError) as refused:
            refuse()
        said = str(refused.value)
        assert (
            "sampling.temperature is 0.7 there, 0.9 here" in said and "the contract gcd has changed" in said
        )
        assert "a" * 12 not in said and "hash" not in said
    assert files(out) == before


def test_a_run_grows_and_keeps_what_it_has(tmp_path: Path) -> None:
    out = tmp_path / "run"
    small = work(out, Config(n=20), stages=2)
    with open_run(out, command="test", config=Config(n=25)) as grown:
        assert record(out)["status"] == "running"
        assert grown.run_id == small.run_id and grown.config_hash != small.config_hash
        assert grown.once("stage-1", lambda: "anew") == 1
        grown.finish()
    assert "n: 25" in (out / "config_resolved.yaml").read_text()


def test_a_run_neither_shrinks_nor_grows_with_another_setting_changed(tmp_path: Path) -> None:
    work(tmp_path / "run", Config(n=20))
    with pytest.raises(UserError, match="n is 20 there, 10 here"):
        work(tmp_path / "run", Config(n=10))
    with pytest.raises(UserError, match="seed is 0 there, 1 here"):
        work(tmp_path / "run", Config(n=30, seed=1))


def test_without_out_each_settings_have_their_own_folder_and_find_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def folder(config: Config) -> str:
        out = default_out("code-gcd", config)
        work(out, config)
        return out.as_posix()

    assert folder(Config()) == "runs/code-gcd"
    assert folder(Config(seed=1)) == "runs/code-gcd-2"
    assert folder(Config(seed=2)) == "runs/code-gcd-3"
    assert folder(Config(seed=1)) == "runs/code-gcd-2"
    assert folder(Config(n=25)) == "runs/code-gcd"  # it grew
    (tmp_path / "runs/other").mkdir()
    (tmp_path / "runs/other/thesis.txt").write_text("precious")
    assert default_out("other", Config()).as_posix() == "runs/other-2"


def test_a_folder_that_another_process_has_just_begun_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_run("runs/x", command="test", config=Config()):
        assert default_out("x", Config(seed=1)).as_posix() == "runs/x-2"
        with pytest.raises(UserError, match="another process is using"):
            check_out("runs/x", Config(seed=1))


def test_checking_makes_nothing_and_names_what_is_in_the_way(tmp_path: Path) -> None:
    check_out(tmp_path / "a" / "b", Config())
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        check_out(tmp_path / "file" / "run", Config())
    with pytest.raises(UserError, match="is a file: --out needs a directory"):
        check_out(tmp_path / "file", Config())
    (tmp_path / "closed").mkdir(mode=0o500)
    if (tmp_path / "closed").stat().st_uid != 0:  # nothing is closed to root
        with pytest.raises(UserError, match="is not writable"):
            check_out(tmp_path / "closed" / "run", Config())
