"""What a user registers is known by name, and mistakes in names are refused before any work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cachemedicpp import tasks
from cachemedicpp.repair import heuristics
from cachemedicpp.repair.heuristics import Smoothing
from cachemedicpp.runs.config import MedicConfig
from cachemedicpp.runs.defences import check_defence_names
from cachemedicpp.tasks.config import TASK_NAMES
from homeostat.core.config import parse_config
from homeostat.core.errors import UserError


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Registries are the process's: leave them as they were."""
    kept = dict(heuristics.HEURISTICS), dict(tasks.TASKS), list(TASK_NAMES)
    yield
    heuristics.HEURISTICS.clear()
    heuristics.HEURISTICS.update(kept[0])
    tasks.TASKS.clear()
    tasks.TASKS.update(kept[1])
    TASK_NAMES[:] = kept[2]


def configured(**evaluation: object) -> MedicConfig:
    return parse_config(MedicConfig, {"eval": evaluation}, "test")


def test_a_registered_repair_is_a_defence_and_an_unknown_one_is_refused() -> None:
    @heuristics.register
    class Mine(Smoothing):
        name = "mine"

    check_defence_names(configured(defences=["mine"]))
    assert heuristics.heuristic("mine", [1]).layers == (1,)
    with pytest.raises(UserError, match=r"unknown defence 'mien'.*mine"):
        check_defence_names(configured(defences=["mien"]))


def test_a_run_that_would_compare_nothing_is_refused_at_once() -> None:
    with pytest.raises(UserError, match="at least one defence"):
        check_defence_names(configured(defences=["none"]))


def test_a_registered_task_may_be_configured_and_an_unknown_one_may_not() -> None:
    with pytest.raises(UserError, match="unknown task 'capitals'"):
        configured(tasks=["capitals"])
    tasks.register("capitals", object())
    assert configured(tasks=["capitals"]).eval.tasks == ["capitals"]
    assert MedicConfig().eval.tasks == ["wikitext2", "sst2", "needle"]
