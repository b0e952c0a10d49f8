"""The guard in a real vLLM. Runs by `make test-engines` only: an engine takes a while to start."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.cachemedicpp.engines.real.conftest import Scenario

pytestmark = pytest.mark.timeout(600)


def test_damage_in_the_paged_cache_is_found_and_every_answer_is_the_clean_one(scenario: Scenario) -> None:
    found = scenario("paged")
    for sharers in ("sharers4", "sharers16"):
        assert found[sharers]["numbers"] > 0, "nothing was damaged"
        assert found[sharers]["hits"] >= 6 * 32, "the damaged blocks were not hit"
        assert found[sharers]["bad"] == 3 and found[sharers]["same"]
    assert found["sharers4"]["quiet"] == 0, "a false alarm"
    assert found["decoding"]["same"] == [True, True, True]
    assert found["abort"]["same"]


def test_requests_that_lose_their_blocks_and_come_back_are_verified(scenario: Scenario) -> None:
    found = scenario("preemption")
    assert found["preempted"] > 0, "nobody lost any blocks"
    assert found["same"] and found["counts"]["bad"] == 1


def test_a_store_serves_what_was_computed_and_nothing_else(scenario: Scenario) -> None:
    own_mounts = ["unshare", "--map-root-user", "--mount"]  # a disk of its own, small enough to be full
    if shutil.which("unshare") is None or subprocess.run([*own_mounts, "true"], check=False).returncode:
        own_mounts = []
    found = scenario("store", before=own_mounts)
    assert found["stored"] >= 8
    cases = ("whole", "flipped", "cut", "another", "layout", "mended", "beside", "foreign")
    for name in cases:
        assert found[name]["same"], name
        assert found[name]["refused"] == int(name not in ("whole", "mended", "beside")), name
    for name in ("whole", "mended", "beside"):
        assert found[name]["loaded"] >= 8, "nothing was loaded"
    assert found["theirs"] >= 8, "the other model stored nothing"
    if "full" not in found:
        pytest.skip("all but the full disk, which needs `unshare` and a file system of its own")
    full = found["full"]
    assert full["same"] and full["cached"] == [0] and full["stored"] == 0 and full["left"] == []
    assert len(full["said"]) == 1 and "No space left" in full["said"][0]
    assert found["emptied"]["same"]


def test_a_store_survives_an_engine_that_is_killed_while_it_writes(scenario: Scenario) -> None:
    found = scenario("shared_store")
    assert found["loaded"] > 0 and found["refused"] == 0 and found["same"]
    assert found["nothing"] == [0, 0]


def test_what_a_wrapped_connector_loads_from_a_damaged_file_is_computed_again(scenario: Scenario) -> None:
    found = scenario("wrapped")
    first, again, damaged = (found[name] for name in ("first", "again", "damaged"))
    assert first["loaded"] == 0 and again["loaded"] >= 8 and again["cached"] >= 8 * 32, "nothing was loaded"
    assert again["unknown"] == again["bad"] == 0
    assert damaged["bad"] == 1 and damaged["recomputed"] >= 1
    assert first["answer"] == again["answer"] == damaged["answer"]


def test_numbers_that_cannot_be_are_computed_once_more_and_reported_if_they_stay_so(
    scenario: Scenario, models: list[Path], tmp_path: Path
) -> None:
    from cachemedicpp.runs.calibrate import calibrate_command

    calibrate_command(str(models[0]), "offline", tmp_path / "G", windows=48, length=128, reach=None)
    found = scenario("plausible")
    clean, once, always = (found[name] for name in ("clean", "once", "always"))
    assert clean["fingerprinted"] >= 8 and clean["implausible"] == 0
    assert once["then"] and set(once["then"]) == {"computed-again"}
    assert once["answer"] == clean["answer"] and once["recomputed"] > 0
    assert "stays-so" in always["then"]


def test_intact_blocks_of_another_text_place_layout_or_model_are_computed_again(scenario: Scenario) -> None:
    found = scenario("audited")
    for kind in ("foreign", "shifted", "transposed", "stale"):
        row, bare = found["audit"][kind], found["none"][kind]
        assert row["same"] and row["foreign"] >= 1 and row["refused"] >= 1, kind
        assert bare["loaded"] >= 2 and bare["foreign"] == 0
    assert sum(not found["none"][kind]["same"] for kind in found["none"]) >= 3, "the blocks were harmless"
    whole = found["audit"]["none"]
    assert whole["same"] and whole["audited"] >= 8 and whole["foreign"] == 0, "a false alarm"


def test_sleep_is_no_damage_and_damage_after_it_is_found(scenario: Scenario) -> None:
    found = scenario("sleep")
    assert found == {"same": True, "quiet": 0, "bad": 1, "supported": True}


def test_a_policy_that_fails_requests_is_refused_in_one_line(scenario: Scenario) -> None:
    said = scenario("refused")["policy"]
    assert "kv_load_failure_policy = 'fail'" in said and "recompute" in said
