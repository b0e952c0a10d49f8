"""Canons: compliant with the contract of today, or refused, or trusted on record; and who did what."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import homeostat.cli  # noqa: F401 - the commands hang together from the top
from homeostat.core.errors import UserError
from homeostat.core.resources import resource_root
from skyt.canon import CanonRefusedError, CanonStore
from skyt.runs.config import BatchConfig
from skyt.runs.judging.assess import versions
from skyt.runs.measure import RunOptions
from skyt.runs.replay import replay
from skyt.sandbox import capability
from skyt.serve.cli import canon_commands as commands

pytestmark = pytest.mark.skipif(not capability().contained, reason="this machine cannot contain code")

QUIET = RunOptions(workers=1, figures=False)
EUCLID = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return abs(a)"
RENAMED = "def gcd(x, y):\n    while y:\n        x, y = y, x % y\n    return abs(x)"
ODD = """def gcd(a, b):
    a, b = abs(a), abs(b)
    while a and b:
        a, b = b % a, a
    return a or b
"""
WRONG = "def gcd(a, b):\n    return 1"


def generations(path: Path, *programs: str) -> Path:
    rows = [
        {"contract_id": "gcd", "model": "m", "temperature": 0.7, "sample": at, "raw_output": program}
        for at, program in enumerate(programs)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def canons(path: Path, code: str) -> Path:
    path.write_text(json.dumps([{"contract_id": "gcd", "canonical_code": code}]))
    return path


def changed_contracts(folder: Path) -> Path:
    """The contract of gcd with one field changed."""
    folder.mkdir()
    contract = yaml.safe_load((resource_root() / "contracts" / "gcd.yaml").read_text())
    contract.setdefault("constraints", {})["forbidden_calls"] = ["sorted"]
    (folder / "gcd.yaml").write_text(yaml.safe_dump(contract, sort_keys=False))
    return folder


def test_a_given_canon_that_the_oracle_rejects_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    file = generations(tmp_path / "g.jsonl", EUCLID)
    given = canons(tmp_path / "c.json", WRONG)
    with pytest.raises(CanonRefusedError, match=r"'gcd'.*in --canons.*gcd\(48, 18\) returns 1.*--trust"):
        replay(file, tmp_path / "run", BatchConfig(), QUIET, canons=given)
    assert not (tmp_path / "run" / "canon" / "gcd.json").exists()
    assert not (tmp_path / "run" / "distances_pre.csv").exists()


def test_a_trusted_canon_is_used_and_that_is_on_record(tmp_path: Path) -> None:
    file = generations(tmp_path / "g.jsonl", EUCLID, WRONG)
    given = canons(tmp_path / "c.json", WRONG)
    done = replay(file, tmp_path / "run", BatchConfig(trust_canons=True), QUIET, canons=given)
    assert done.metrics["skyt.overall"]["R_anchor"] == 0.5  # no repair leads to a program that is wrong
    record = json.loads((tmp_path / "run" / "metrics" / "repeatability_metrics.json").read_text())
    assert "the oracle rejects it" in record["settings"]["trusted_canons"]["gcd"][0]
    assert yaml.safe_load((tmp_path / "run" / "config_resolved.yaml").read_text())["trust_canons"] is True
    [event] = CanonStore(tmp_path / "run" / "canon", versions()).events("gcd")
    assert event.action == "trusted" and event.who and event.findings


def test_a_canon_of_a_changed_contract_is_refused_with_the_field_that_changed(tmp_path: Path) -> None:
    file = generations(tmp_path / "g.jsonl", EUCLID)
    shared = RunOptions(workers=1, figures=False, canon_dir=tmp_path / "canons")
    replay(file, tmp_path / "one", BatchConfig(), shared)
    contracts = changed_contracts(tmp_path / "contracts")
    with pytest.raises(CanonRefusedError) as caught:
        replay(file, tmp_path / "two", BatchConfig(), shared, contracts_dir=contracts)
    assert 'constraints.forbidden_calls[0] was not there, is "sorted"' in str(caught.value)
    assert "--re-anchor" in str(caught.value) and "--trust-canons" in str(caught.value)
    anew = RunOptions(workers=1, figures=False, canon_dir=tmp_path / "canons", re_anchor=True)
    replay(file, tmp_path / "three", BatchConfig(), anew, contracts_dir=contracts)
    store = CanonStore(tmp_path / "canons", versions())
    assert [event.action for event in store.events("gcd")] == ["archived"]
    assert len(store.archived("gcd")) == 1


def test_a_field_that_came_later_at_its_default_is_no_difference(tmp_path: Path) -> None:
    from skyt.canon import contract_differences
    from skyt.contracts.contract import load_contract
    from skyt.runs.canons import new_canon

    contract = load_contract("gcd")
    canon = new_canon(contract, EUCLID, origin="given", model=None, temperature=None)
    earlier = {**canon.constraints_snapshot}
    earlier["constraints"] = {
        name: value for name, value in earlier["constraints"].items() if name != "forbidden_calls"
    }
    assert contract_differences(replace(canon, constraints_snapshot=earlier), contract) == []


def test_modal_takes_the_most_frequent_normal_form_and_says_so(tmp_path: Path) -> None:
    file = generations(tmp_path / "g.jsonl", ODD, WRONG, RENAMED, EUCLID, RENAMED)
    replay(file, tmp_path / "first", BatchConfig(), QUIET)
    done = replay(file, tmp_path / "modal", BatchConfig(canon="modal"), QUIET)
    first = CanonStore(tmp_path / "first" / "canon", versions()).get("gcd")
    modal = CanonStore(tmp_path / "modal" / "canon", versions()).get("gcd")
    assert first is not None and "while a and b" in first.normalized_code
    assert modal is not None and "while y" in modal.normalized_code and modal.origin == "modal"
    assert done.metrics["skyt.overall"]["R_anchor"] == 0.6
    record = json.loads((tmp_path / "modal" / "metrics" / "repeatability_metrics.json").read_text())
    assert record["settings"]["canon"] == "modal"


def test_the_commands_set_approve_and_tell_the_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    replay(generations(tmp_path / "g.jsonl", ODD, EUCLID), run, BatchConfig(), QUIET)
    program = tmp_path / "better.py"
    program.write_text(EUCLID)
    commands.set_(str(run), "gcd", program, why="plainer", who="Ada")
    assert (run / "canon" / "archive").is_dir() and not (run / "distances_pre.csv").exists()
    commands.approve(str(run), "gcd", why="looked at it", who="Grace")
    capsys.readouterr()
    commands.history(str(run), "gcd")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["fixed", "fixed", "set", "approved"]
    assert "Ada: plainer" in lines[2] and "Grace: looked at it" in lines[3]
    commands.list_(str(run))
    assert "Grace" in capsys.readouterr().out
    commands.diff(str(run), "gcd")
    shown = capsys.readouterr().out
    assert "-    while a and b:" in shown and "+    while b:" in shown
    commands.show(str(run), "gcd")
    assert "while b:" in capsys.readouterr().out
    # The same command measures everything anew, against the canon that was set.
    again = replay(tmp_path / "g.jsonl", run, BatchConfig(), QUIET)
    assert again.metrics["skyt.overall"]["N"] == 2


def test_a_wrong_program_cannot_be_set_unless_trusted_and_a_reason_is_needed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    replay(generations(tmp_path / "g.jsonl", EUCLID), run, BatchConfig(), QUIET)
    before = (run / "canon" / "gcd.json").read_bytes()
    program = tmp_path / "wrong.py"
    program.write_text(WRONG)
    with pytest.raises(CanonRefusedError, match="the oracle rejects it"):
        commands.set_(str(run), "gcd", program, why="why not")
    with pytest.raises(UserError, match="say why"):
        commands.approve(str(run), "gcd", why=" ")
    assert (run / "canon" / "gcd.json").read_bytes() == before
    commands.set_(str(run), "gcd", program, why="for a test", trust=True)
    [event] = CanonStore(run / "canon", versions()).events("gcd")
    assert event.findings and event.action == "set"


def test_approving_renews_a_canon_of_an_earlier_oracle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    replay(generations(tmp_path / "g.jsonl", EUCLID), run, BatchConfig(), QUIET)
    path = run / "canon" / "gcd.json"
    canon = json.loads(path.read_text())
    path.write_text(json.dumps({**canon, "oracle_version": "0-py3.11"}, indent=2))
    store = CanonStore(run / "canon", versions())
    with pytest.raises(UserError, match="canon approve"):
        store.get("gcd")
    commands.list_(str(run))
    assert "oracle 0-py3.11" in capsys.readouterr().out
    commands.approve(str(run), "gcd", why="same program, new oracle")
    renewed = store.get("gcd")
    assert renewed is not None and renewed.versions == versions()
    assert store.archived("gcd")[0].oracle_version == "0-py3.11"


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match="no such folder or database"):
        commands.list_("nowhere.sqlite")
