"""The guard in a real server: its numbers in `/metrics`, and blocks at rest that are verified in between."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

pytestmark = pytest.mark.timeout(600)
PROMPT = "The history of the lighthouse begins with fires built on hilltops. " * 20
DASHBOARD = Path("docs/grafana/engine_guard.json")


class Server:
    def __init__(self, port: int, model: str) -> None:
        self._url, self._model = f"http://127.0.0.1:{port}", model

    def get(self, path: str) -> str:
        with urlopen(f"{self._url}{path}", timeout=60) as answer:  # noqa: S310
            return str(answer.read().decode())

    def post(self, path: str, **about: Any) -> Any:
        data = json.dumps(about).encode()
        asked = Request(f"{self._url}{path}", data, {"Content-Type": "application/json"})  # noqa: S310
        with urlopen(asked, timeout=120) as answer:  # noqa: S310
            return json.loads(answer.read())

    def ask(self) -> str:
        about = {
            "model": self._model,
            "prompt": PROMPT,
            "max_tokens": 8,
            "temperature": 0,
            "ignore_eos": True,
        }
        return str(self.post("/v1/completions", **about)["choices"][0]["text"])

    def rpc(self, method: str, *given: Any) -> Any:
        return self.post("/collective_rpc", method=method, args=given)["results"][0]

    def metrics(self) -> dict[str, float]:
        """The guard's metrics by name."""
        lines = re.findall(r"^(homeostat_guard_\w+){[^}]*} (\S+)$", self.get("/metrics"), re.MULTILINE)
        return {name: float(value) for name, value in lines}


@pytest.fixture
def server(python: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[Server]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    guard = {
        "kv_connector": "GuardConnector",
        "kv_connector_module_path": "cachemedicpp.engines.vllm",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"idle_after": 0.3, "log": str(tmp_path / "events")},
    }
    model = environment["HOMEOSTAT_TEST_MODEL"]
    command = [
        str(python),
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        model,
        "--host",
        "127.0.0.1",
    ]
    command += ["--port", str(port), "--dtype", "float32", "--enforce-eager", "--max-model-len", "1024"]
    command += ["--block-size", "32", "--no-async-scheduling", "--kv-transfer-config", json.dumps(guard)]
    command += ["--worker-extension-cls", "cachemedicpp.engines.faults.FaultInjector"]
    with (tmp_path / "log").open("w") as log:
        running = subprocess.Popen(
            command, env={**environment, "VLLM_SERVER_DEV_MODE": "1"}, stdout=log, stderr=subprocess.STDOUT
        )
        made = Server(port, model)
        try:
            while running.poll() is None:
                try:
                    made.get("/health")
                    break
                except (URLError, ConnectionError):
                    time.sleep(0.3)
            assert running.poll() is None, (tmp_path / "log").read_text()[-3000:]
            yield made
        finally:
            running.terminate()
            running.wait(60)


def test_damage_at_rest_is_found_while_nothing_runs_and_metrics_tell_all(
    server: Server, tmp_path: Path
) -> None:
    first = server.ask()
    block = 3  # an engine that was just started hands out its blocks in turn
    assert int(server.rpc("fault_inject", {"kind": "bit", "epsilon": 0.01}, [block], "idle", [])) > 0
    deadline = time.time() + 30
    while not (tmp_path / "events").exists() and time.time() < deadline:
        time.sleep(0.1)
    (event,) = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert event["event"] == "bad-block" and event["block"] == block and event["request"] is None
    assert server.ask() == first
    while not (seen := server.metrics()).get("homeostat_guard_recomputed_total") and time.time() < deadline:
        time.sleep(0.2)
    assert seen["homeostat_guard_bad_total"] == 1 and seen["homeostat_guard_recomputed_total"] >= 1
    # the unfinished last block of a request that has ended may stay, until it is written again
    assert seen["homeostat_guard_quarantine"] <= 1 and seen["homeostat_guard_seconds_total"] > 0
    drawn = set(re.findall(r"homeostat_guard_\w+", DASHBOARD.read_text(encoding="utf-8")))
    assert drawn and drawn <= seen.keys(), "the dashboard draws what the server does not have"
