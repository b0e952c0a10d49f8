"""The guard in a real vLLM. Runs by `make test-engines` only: an engine takes half a minute to start."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cachemedicpp.engines.campaign.run import model_folder
from cachemedicpp.engines.environment import engine_python, settings
from homeostat.core.errors import UserError

pytestmark = [
    pytest.mark.skipif(not os.environ.get("HOMEOSTAT_TEST_ENGINES"), reason="runs by `make test-engines`"),
    pytest.mark.timeout(600),
]


def scenario(name: str, folder: Path, script: str = "scenarios.py") -> dict[str, Any]:
    """Run one scenario in the engine's environment."""
    try:
        python = engine_python()
    except UserError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [str(python), str(Path(__file__).with_name(script)), name, str(folder)],
        env={**os.environ, **settings(), "HOMEOSTAT_TEST_MODEL": model_folder("smollm2-135m")},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
    return found


def test_damage_in_the_paged_cache_is_found_and_every_answer_is_the_clean_one(tmp_path: Path) -> None:
    found = scenario("paged", tmp_path)
    for sharers in ("sharers4", "sharers16"):
        assert found[sharers]["numbers"] > 0, "nothing was damaged"
        assert found[sharers]["hits"] >= 6 * 32, "the damaged blocks were not hit"
        assert found[sharers]["bad"] == 3 and found[sharers]["same"]
    assert found["sharers4"]["quiet"] == 0, "a false alarm"
    assert found["decoding"]["same"] == [True, True, True]
    assert found["abort"]["same"]


def test_requests_that_lose_their_blocks_and_come_back_are_verified(tmp_path: Path) -> None:
    found = scenario("preemption", tmp_path)
    assert found["preempted"] > 0, "nobody lost any blocks"
    assert found["same"] and found["counts"]["bad"] == 1


def test_a_store_serves_what_was_computed_and_nothing_else(tmp_path: Path) -> None:
    found = scenario("store", tmp_path)
    assert found["stored"] >= 8
    for name in ("whole", "flipped", "cut", "another", "layout", "mended"):
        assert found[name]["same"], name
    assert found["whole"]["loaded"] >= 8 and found["whole"]["refused"] == 0
    for name in ("flipped", "cut", "another", "layout"):
        assert found[name]["refused"] == 1, name
    assert found["mended"]["refused"] == 0 and found["mended"]["loaded"] >= 8


def test_a_store_survives_an_engine_that_is_killed_while_it_writes(tmp_path: Path) -> None:
    found = scenario("shared_store", tmp_path)
    assert found["loaded"] > 0 and found["refused"] == 0 and found["same"]
    assert found["nothing"] == [0, 0]


def test_a_policy_that_fails_requests_is_refused_in_one_line(tmp_path: Path) -> None:
    said = scenario("refused", tmp_path)["policy"]
    assert "kv_load_failure_policy = 'fail'" in said and "recompute" in said
