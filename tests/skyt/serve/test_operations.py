"""The real process: killed under load it loses nothing it answered for; asked to stop it answers first."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from tests.support.scripted import GCD, GCD_RENAMED, GCD_WRONG, ScriptedUpstream, fenced

import homeostat.cli  # noqa: F401 - the commands hang together from the top
from homeostat.core.errors import UserError
from skyt.records.tables import answers, samples
from skyt.runs.judging.assess import versions
from skyt.serve.cli import commands
from skyt.serve.database.store import Store

pytestmark = pytest.mark.slow  # starts the service again and again
CLIENTS, EACH = 6, 25


class Process:
    """`homeostat code serve` on a port of its own."""

    def __init__(
        self,
        upstream: ScriptedUpstream,
        folder: Path,
        more: Sequence[str] = (),
        module: str = "homeostat",
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = str(folder / "skyt.sqlite")
        start = f"import runpy, {module}; runpy.run_module('homeostat', run_name='__main__', alter_sys=True)"
        self._command = [sys.executable, "-c", start, "code", "serve", "--port", str(self.port)]
        self._command += ["--database", self.database, "--upstream", upstream.base_url, "--model", "scripted"]
        self._command += [
            "--set",
            "judges=1",
            "--set",
            "canons_from=anyone",
            "--set",
            "upstream.backoff_s=0.01",
            *more,
        ]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        line = self.process.stdout.readline() if self.process.stdout else ""
        assert line.startswith(f"skyt serves {self.url}/v1"), line

    def stop(self, number: int = signal.SIGTERM) -> int:
        os.kill(self.process.pid, number)
        return self.process.wait(30)


def persistent(client: httpx.Client, key: str, stop_at: float) -> dict[str, Any]:
    """A client that does not give up: the same request with the same key until it is answered."""
    body = {"model": "skyt/gcd", "messages": [{"role": "user", "content": key}]}
    while True:
        try:
            answer = client.post("/v1/chat/completions", json=body, headers={"idempotency-key": key})
            if answer.status_code == 200:
                return dict(answer.json())
        except httpx.HTTPError:
            pass
        assert time.monotonic() < stop_at
        time.sleep(0.05)


def test_kill_9_under_load_loses_no_answered_sample_and_counts_none_twice(tmp_path: Path) -> None:
    outputs = [fenced(GCD), fenced(GCD_RENAMED), fenced(GCD_WRONG)]

    def turn(body: dict[str, Any]) -> str:
        time.sleep(0.002)
        return outputs[int(body["messages"][0]["content"].split("-")[1]) % 3]

    with ScriptedUpstream(turn) as upstream:
        service = Process(upstream, tmp_path)
        got: dict[str, dict[str, Any]] = {}
        before_kill: dict[str, dict[str, Any]] = {}
        stop_at = time.monotonic() + 120

        def work(client: int) -> None:
            with httpx.Client(base_url=service.url, timeout=20) as connection:
                for number in range(EACH):
                    key = f"{client}-{number}"
                    got[key] = persistent(connection, key, stop_at)

        threads = [threading.Thread(target=work, args=(client,)) for client in range(CLIENTS)]
        for thread in threads:
            thread.start()
        while len(got) < CLIENTS * EACH // 3:
            time.sleep(0.005)
        before_kill.update(got)
        service.stop(signal.SIGKILL)
        service.start()
        for thread in threads:
            thread.join()

        store = Store.open(service.database, versions())
        with store.reading() as connection:
            rows = connection.execute(select(samples.c.run_id, samples.c.number, samples.c.record)).all()
            kept = connection.execute(select(answers.c.idempotency_key, answers.c.answer)).all()
        canon = store.get("gcd")
        store.close()
        assert canon is not None
        assert len(rows) == len(kept) == len(got) == CLIENTS * EACH
        assert sorted(row.number for row in rows) == list(range(CLIENTS * EACH))
        told = Counter(answer["skyt"]["samples"][0]["sample_id"] for answer in got.values())
        assert set(told.values()) == {1}  # every answer has a sample of its own
        assert {key: json.loads(text)["body"] for key, text in kept} == got
        assert before_kill.items() <= got.items()
        seen = {answer["skyt"]["canon_signature"] for answer in got.values()} - {None}
        assert seen == {canon.canon_signature}

        # Asked to stop, it answers what it has accepted, then ends well.
        release = threading.Event()
        upstream.otherwise = lambda body: (release.wait(20), fenced(GCD))[1]
        late: list[int] = []

        def ask(number: int) -> None:
            body = {
                "model": "skyt/gcd" if number % 2 else "scripted",
                "messages": [{"role": "user", "content": "?"}],
            }
            late.append(httpx.post(f"{service.url}/v1/chat/completions", json=body, timeout=20).status_code)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        while "\nskyt_active_requests 6.0" not in httpx.get(f"{service.url}/metrics").text:
            time.sleep(0.01)
        os.kill(service.process.pid, signal.SIGTERM)
        release.set()
        assert service.process.wait(30) == 0
        for thread in threads:
            thread.join()
        assert late == [200] * 6


def test_status_and_export_read_what_was_served(
    start: Callable[..., Any],
    upstream: ScriptedUpstream,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with start() as (url, service):
        upstream.plan.extend([fenced(GCD), fenced(GCD_RENAMED)])
        for _ in range(2):
            body = {"model": "skyt/gcd", "messages": [{"role": "user", "content": "?"}]}
            httpx.post(f"{url}/v1/chat/completions", json=body, timeout=30)
        database = service.config.database
        commands.status(database, 0.1, as_json=True)
        [row] = json.loads(capsys.readouterr().out)
        assert row["metrics"]["R_anchor"] == 1.0 and row["metrics"]["rescue_rate"] == 0.5
        assert row["usage"] == {"prompt_tokens": 10, "completion_tokens": 14}
        commands.status(database, 0.1, as_json=False)
        shown = capsys.readouterr().out
        assert "R_anchor" in shown and "gcd: 10 prompt and 14 completion tokens" in shown
        commands.export(tmp_path / "out", database, None, 0.1)
        assert (tmp_path / "out" / "metrics_summary.csv").read_text().count("\n") == 2
        with pytest.raises(UserError, match="not an empty folder"):
            commands.export(tmp_path / "out", database, None, 0.1)


def test_a_missing_extra_is_one_line_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("skyt.serve.database")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(UserError, match=r"pip install 'homeostat-llm\[serve\]'"):
        commands.list_("x://y")
