"""Both engines give the same outcomes in the same order, whatever one task does to itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import pytest

from homeostat.core.engine import run_tasks
from homeostat.core.errors import UserError


def square_unless_three(x: int) -> int:
    if x == 3:
        raise ValueError("three is refused")
    return x * x


def die_on_two(x: int) -> int:
    if x == 2:
        os._exit(9)
    return x + 1


def test_one_failing_task_is_reported_and_the_others_finish_in_order() -> None:
    outcomes = run_tasks(square_unless_three, range(6), workers=2)
    assert [o.value for o in outcomes] == [0, 1, 4, None, 16, 25]
    assert outcomes[3].error == "ValueError: three is refused"
    assert "square_unless_three" in (outcomes[3].traceback or "")


def test_a_task_that_kills_its_worker_does_not_take_the_others_along() -> None:
    outcomes = run_tasks(die_on_two, range(5), workers=2)
    assert [o.ok for o in outcomes] == [True, True, False, True, True]
    assert [o.value for o in outcomes if o.ok] == [1, 2, 4, 5]
    assert "died" in (outcomes[2].error or "")


def say_who_and_stay(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


def test_workers_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    run = get_context("spawn").Process(target=_run_both, args=(str(tmp_path),))
    run.start()
    _wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
    run.kill()
    workers = [int(path.name) for path in tmp_path.iterdir()]
    _wait_until(lambda: not any(_is_running(pid) for pid in workers))


def _run_both(folder: str) -> None:
    run_tasks(say_who_and_stay, [folder, folder], workers=2)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait_until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.05)


@pytest.mark.ray
@pytest.mark.xdist_group("ray")
def test_local_and_ray_engines_give_identical_outcomes_with_a_failing_task() -> None:
    pytest.importorskip("ray")
    local = run_tasks(square_unless_three, range(6), engine="local", workers=2)
    ray = run_tasks(square_unless_three, range(6), engine="ray", workers=2)
    alone = run_tasks(square_unless_three, range(6), engine="local", workers=1)
    assert [(o.ok, o.value, o.error) for o in local] == [(o.ok, o.value, o.error) for o in ray]
    assert [(o.ok, o.value, o.error) for o in local] == [(o.ok, o.value, o.error) for o in alone]


def test_an_unknown_engine_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match="did you mean 'ray'"):
        run_tasks(square_unless_three, [1], engine="rai")  # type: ignore[arg-type]


def test_a_missing_ray_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UserError, match=r"homeostat-llm\[ray\]"):
        run_tasks(square_unless_three, [1], engine="ray")
