"""Independent tasks over a local process pool or over Ray: the same results, in the same order, from both.

A task that fails is reported with its traceback while the others finish. On Ray, tasks of a node that is lost
run again on another one.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Any, Generic, Literal, TypeVar

from homeostat.core.errors import UserError, nearest
from homeostat.core.progress import progress, silence

Item = TypeVar("Item")
Result = TypeVar("Result")
EngineName = Literal["local", "ray"]


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """The result of one task: its value, or the error it ended with (one line) and the traceback."""

    ok: bool
    value: Result | None = None
    error: str | None = None
    traceback: str | None = None

    def unwrap(self) -> Result:
        if not self.ok:
            raise RuntimeError(self.traceback or self.error)
        return self.value  # type: ignore[return-value]


Indexed = Iterator[tuple[int, Outcome[Any]]]


def run_tasks(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    engine: EngineName = "local",
    workers: int = 1,
    label: str = "tasks",
    unit: str = "",
    joined: bool = False,
) -> list[Outcome[Result]]:
    """Apply `function` to every item and return the outcomes in the items' order.

    `function` is a module-level function; it and the items can be pickled. One local worker runs in this
    process; more run in fresh interpreters, as under Ray, so nothing leaks from one task to another. `unit`
    and `joined` are those of the progress bar.
    """
    outcomes: dict[int, Outcome[Any]] = {}
    with progress(label, len(items), unit=unit, joined=joined) as bar:
        for place, outcome in stream(function, items, engine, workers):
            outcomes[place] = outcome
            failed = sum(not outcome.ok for outcome in outcomes.values())
            bar.advance(note=f"{failed} failed" if failed else None)
    return [outcomes[place] for place in range(len(items))]


def stream(
    function: Callable[[Item], Any], items: Sequence[Item], engine: EngineName = "local", workers: int = 1
) -> Indexed:
    """The outcomes of `function` as they come, each with the place of its item."""
    engines = {"local": _local, "ray": _ray}
    if engine not in engines:
        raise UserError(f"engine {engine!r} is unknown; {nearest(engine, engines)}")
    if workers < 1:
        raise UserError(f"workers = {workers}: at least one is needed")
    if items:
        yield from engines[engine](function, dict(enumerate(items)), workers)


def successes(outcomes: Indexed) -> Iterator[tuple[int, Any]]:
    """The values among outcomes. When all have come, the first failure is raised."""
    failed: Outcome[Any] | None = None
    for place, outcome in outcomes:
        if outcome.ok:
            yield place, outcome.value
        else:
            failed = failed or outcome
    if failed is not None:
        failed.unwrap()


def _attempt(function: Callable[[Any], Any], item: Any) -> Outcome[Any]:
    try:
        return Outcome(ok=True, value=function(item))
    except Exception as error:
        last = traceback.format_exception_only(error)[-1].strip()
        return Outcome(ok=False, error=last, traceback=traceback.format_exc())


def _died(reason: object) -> Outcome[Any]:
    text = f"the worker process died: {reason} (out of memory, or killed)"
    return Outcome(ok=False, error=text, traceback=text)


def _local(function: Callable[[Any], Any], items: Mapping[int, Any], workers: int) -> Indexed:
    if workers == 1:
        for place, item in items.items():
            yield place, _attempt(function, item)
        return
    left = dict(items)
    for place, outcome in _pool(function, items, workers):
        del left[place]
        yield place, outcome
    # A dying worker takes the pool and all that was under way with it: the rest run one by one, so that
    # only the task that kills its worker is reported as failed.
    for place, item in left.items():
        alone = list(_pool(function, {place: item}, 1))
        yield alone[0] if alone else (place, _died("it broke its process pool"))


def _begin() -> None:
    """The first thing a worker does: it is quiet, and it ends when the process that started it is gone."""
    silence()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None  # noqa: S101
    parent.join()
    os._exit(1)


def _pool(function: Callable[[Any], Any], items: Mapping[int, Any], workers: int) -> Indexed:
    """Outcomes as they come; stops early when a worker dies."""
    pool = ProcessPoolExecutor(min(workers, len(items)), mp_context=get_context("spawn"), initializer=_begin)
    places = {pool.submit(_attempt, function, item): place for place, item in items.items()}
    try:
        for future in as_completed(places):
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                return
            if error is not None:  # a value that cannot be pickled
                yield places[future], Outcome(ok=False, error=repr(error), traceback=repr(error))
            else:
                yield places[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _ray(function: Callable[[Any], Any], items: Mapping[int, Any], workers: int) -> Indexed:
    try:
        import ray
    except ImportError:
        raise UserError(
            "--engine ray needs Ray: `pip install 'homeostat-llm[ray]'`, or use --engine local"
        ) from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    started = not ray.is_initialized()
    if started:
        _start_ray(ray, workers)
    try:
        attempt = ray.remote(max_retries=0, num_cpus=1)(_attempt)
        places = {attempt.remote(function, item): place for place, item in items.items()}
        while places:
            [done], _ = ray.wait(list(places), num_returns=1)
            place = places.pop(done)
            try:
                yield place, ray.get(done)
            except (ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError):
                places[attempt.remote(function, items[place])] = place  # not the task's fault: another node
            except ray.exceptions.RayError as error:
                yield place, _died(type(error).__name__)
    finally:
        if started:
            ray.shutdown()


def _start_ray(ray: Any, workers: int) -> None:
    """Join the cluster that `RAY_ADDRESS` names, or start one here that listens on localhost only."""
    if os.environ.get("RAY_ADDRESS"):
        ray.init(log_to_driver=False)
        return
    local = {"num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    ray.init("local", log_to_driver=False, **local)
