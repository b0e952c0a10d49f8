"""A Ray cluster of three nodes that loses one in the middle and gets another: nothing is lost.

The records are those of the local engine to the bit, and what was stored is not computed again.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tests.docs.givens import tiny_model
from tests.support.scripted import ScriptedUpstream, fenced

from homeostat.cli.main import app
from homeostat.core.entry import run as run_app

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray"), pytest.mark.timeout(900)]

SWEEP: dict[str, Any] = {
    "data": {"use_offline": True, "wikitext2": {"num_sequences": 3, "score_len": 4}},
    "corruption": {"axes": {"head_mode": "all", "N_recent": 8}},
    "repair": {"family": "A", "protect_layers": "mid:1", "rank": 2},
    "train": {"steps": 1, "batch_size": 1, "prefix_len": 24, "continuation_len": 4, "heldout_sequences": 0},
    "eval": {
        "tasks": ["wikitext2"],
        "max_seq_len": 40,
        "corruption_eval": {"eps": [0.5], "types": ["gaussian", "dropout_zero"]},
        "defences": ["none", "smoothing", "operators"],
        "oracle_heuristics": False,
        "measure_overhead": False,
        "bootstrap": 100,
    },
    "stability": {"enabled": False},
}
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}
PROGRAMS = {
    "is_even": ["def is_even(n):\n    return n % 2 == 0", "def is_even(k):\n    return not k % 2"],
    "reverse_string": [
        "def reverse_string(s):\n    return s[::-1]",
        "def reverse_string(t):\n    return t[::-1]",
    ],
    "sum_list": ["def sum_list(xs):\n    return sum(xs)", "def sum_list(ns):\n    return sum(ns)"],
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Three raylets with one CPU each, the first of them the head; commands join by its address."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("HOMEOSTAT_THREADS", "1")
    found = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    for _ in range(2):
        found.add_node(**NODE)
    monkeypatch.setenv("RAY_ADDRESS", found.address)
    yield found
    ray.shutdown()
    found.shutdown()


def homeostat(*words: str) -> None:
    with pytest.raises(SystemExit) as stop:
        run_app(app, list(words))
    assert stop.value.code == 0


def lose_a_node(cluster: Any, command: Future[None], may: Callable[[Any], bool]) -> None:
    """Kill the first node but the head of which `may` holds while the command runs."""
    while not command.done():
        for node in cluster.worker_nodes:
            if may(node):
                cluster.remove_node(node, allow_graceful=False)
                return
        time.sleep(0.01)
    command.result()
    raise AssertionError("the command ended before a node was lost")


def workers(node: Any) -> list[psutil.Process]:
    """The processes that a node has started."""
    [raylet] = node.all_processes["raylet"]
    try:
        return list(psutil.Process(raylet.process.pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def metrics(folder: Path) -> dict[str, Any]:
    """The metrics of a run without its id, and without how long things took."""
    found = {}
    for path in sorted(folder.glob("metrics/*.json")):
        record = json.loads(path.read_text())
        timeless = {key: value for key, value in record["metrics"].items() if "second" not in key}
        found[path.name] = {**record, "run_id": None, "metrics": timeless}
    return found


def written(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.glob("*/seed_*/stages/**/*.json")}


def test_a_sweep_ends_with_the_records_of_the_local_engine(cluster: Any, tmp_path: Path) -> None:
    tiny_model(tmp_path / "tiny")
    config = {**SWEEP, "model": {"name": str(tmp_path / "tiny"), "device": "cpu"}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    sweep = {"name": "ranks", "config": str(tmp_path / "run.yaml"), "grid": {"repair.rank": [1, 2, 3]}}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    out = tmp_path / "ray"

    def sweep_to(folder: Path) -> list[str]:
        return ["cache", "sweep", str(tmp_path / "sweep.yaml"), "--out", str(folder)]

    def in_the_middle(node: Any) -> bool:
        """One of its processes holds a run that has stored a part of its results."""
        for process in workers(node):
            try:
                held = [
                    Path(file.path).parent for file in process.open_files() if file.path.endswith(".lock")
                ]
            except psutil.Error:
                continue
            if any(run.parent.parent == out and any(run.glob("stages/eval/*.json")) for run in held):
                return True
        return False

    with ThreadPoolExecutor(1) as beside:
        command = beside.submit(homeostat, *sweep_to(out), "--engine", "ray")
        lose_a_node(cluster, command, in_the_middle)
        stored = written(out)
        cluster.add_node(**NODE)
        command.result()
    now = written(out)
    assert {path: now[path] for path in stored} == stored  # nothing that was stored was computed again
    assert len(now) > len(stored)
    homeostat(*sweep_to(tmp_path / "local"))
    runs = [f"rank={rank}/seed_0" for rank in (1, 2, 3)]
    for name in runs:
        assert metrics(out / name) == metrics(tmp_path / "local" / name) != {}


class HeldUpstream(ScriptedUpstream):
    """Answers the first request of every prompt, and the others once a node was lost."""

    def __init__(self) -> None:
        super().__init__(self._program)
        self.lost = threading.Event()
        self.asked: Counter[str] = Counter()

    @staticmethod
    def _contract(body: dict[str, Any]) -> str:
        return next(name for name in PROGRAMS if name in json.dumps(body["messages"]))

    def _program(self, body: dict[str, Any]) -> str:
        return fenced(PROGRAMS[self._contract(body)][body["seed"] % 2])

    async def _behave(self, writer: asyncio.StreamWriter, text: str, body: Any, chat: bool) -> bool:
        name = self._contract(body)
        self.asked[name] += 1
        while self.asked[name] > 1 and not self.lost.is_set():
            await asyncio.sleep(0.01)
        return await super()._behave(writer, text, body, chat)


def test_a_suite_ends_with_the_records_of_the_local_engine(cluster: Any, tmp_path: Path) -> None:
    with HeldUpstream() as upstream:
        model = {"kind": "openai", "name": "m", "base_url": upstream.base_url, "concurrency": 1}
        suite = {"contracts": list(PROGRAMS), "generators": [model], "temperatures": [0.5], "n": 3}
        (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite))
        out = tmp_path / "ray"
        command = ["code", "suite", str(tmp_path / "suite.yaml"), "--no-figures", "--workers", "1", "--out"]

        def outputs() -> list[int]:
            return [path.read_text().count('"sample"') for path in out.glob("generations/*.jsonl")]

        with ThreadPoolExecutor(1) as beside:
            run = beside.submit(homeostat, *command, str(out), "--engine", "ray")
            lose_a_node(cluster, run, lambda node: outputs() == [1, 1, 1])
            cluster.add_node(**NODE)
            upstream.lost.set()
            run.result()
        # one request was under way on the node that was lost; what had been stored was not asked for again
        assert sorted(upstream.asked.values()) == [3, 3, 4]
        homeostat(*command, str(tmp_path / "local"), "--engine", "local")
    rays, locals_ = (
        [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
        for folder in (out, tmp_path / "local")
    )
    for row in [*rays, *locals_]:
        del row["run_id"]
    assert rays == locals_ and len(rays) == 9
