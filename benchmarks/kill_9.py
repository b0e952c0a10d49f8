"""kill -9 at random moments: a run and the service lose nothing that was acknowledged, and keep one canon.

Run as `python -m benchmarks.kill_9 [TIMES]`. A replay is killed and started again, 50 times unless told
otherwise, then left to finish: after every kill the samples of before must still be there, unchanged, and at
the end its rows must be those of a replay that nobody killed. The service is killed as often while a client
asks; whatever was answered must be on record once, with the one canon.
"""

from __future__ import annotations

import csv
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
from tests.support.scripted import ScriptedUpstream, fenced

from skyt.records import PRE, REPAIRS, STORE, RunStore
from skyt.runs.judging.assess import versions
from skyt.serve.database.store import Store

_OUTPUTS = 60
_LOOP = "def gcd({x}, {y}):\n    while {y}:\n        {x}, {y} = {y}, {x} % {y}\n    return abs({x})"


def _program(number: int) -> str:
    """Programs that differ in their names; every seventh is wrong."""
    text = _LOOP.format(x=f"x{number}", y=f"y{number}")
    return text.replace("abs", "-abs") if number % 7 == 3 else text


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "homeostat", "code", *words]


def _rows(folder: Path) -> list[list[list[str]]]:
    """Rows of a run without what names the run and the moment."""
    found = []
    for name in (PRE, REPAIRS):
        with (folder / name).open(newline="") as file:
            rows = list(csv.DictReader(file))
        found.append([[v for k, v in row.items() if k not in ("run_id", "timestamp")] for row in rows])
    return found


def _on_record(folder: Path) -> list[dict[str, Any]]:
    if not (folder / STORE).exists():
        return []
    with RunStore(folder) as store:
        return [sample.record for sample in store.samples()]


def kill_run(folder: Path, times: int) -> None:
    rows = [
        {"contract_id": "gcd", "model": "m", "temperature": 0.5, "sample": at, "raw_output": _program(at)}
        for at in range(_OUTPUTS)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    environment = {**os.environ, "HOMEOSTAT_KEPT": "off"}

    def start(out: str) -> subprocess.Popen[bytes]:
        words = ("replay", str(folder / "rows.jsonl"), "--out", str(folder / out), "--no-figures")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(_command(*words, "--workers", "1"), env=environment, **quiet)

    began = time.monotonic()
    assert start("whole").wait() == 0
    whole_s, rng = time.monotonic() - began, random.Random(0)
    before: list[dict[str, Any]] = []
    killed = finished = 0
    while killed < times:
        out = f"killed-{finished}"
        process, until = start(out), time.monotonic() + rng.uniform(0.0, whole_s)
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        if process.poll() is None:
            process.kill()
            process.wait()
            killed += 1
            now = _on_record(folder / out)
            assert now[: len(before)] == before, "a sample that was on record is not there any more"
            before = now
        else:
            _check(folder / out, folder / "whole")
            finished, before = finished + 1, []
    assert start(f"killed-{finished}").wait() == 0
    _check(folder / f"killed-{finished}", folder / "whole")
    print(f"run: killed {killed} times, finished {finished + 1} times", flush=True)


def _check(out: Path, whole: Path) -> None:
    """A run that was killed has the rows of one that was not, and one canon."""
    assert _rows(out) == _rows(whole)
    assert len(list((out / "canon").glob("*.json"))) == 1


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def kill_service(folder: Path, times: int) -> None:
    database, port = str(folder / "skyt.sqlite"), _free_port()
    stop = threading.Event()
    answered: dict[str, dict[str, Any]] = {}
    with ScriptedUpstream(lambda body: fenced(_program(int(body["messages"][0]["content"])))) as upstream:
        words = ["serve", "--upstream", upstream.base_url, "--model", "m", "--database", database]
        words += ["--port", str(port)]
        words += ["--set", "canons_from=anyone", "--set", "judges=1", "--set", "limits.slow_judges=0"]

        def start() -> subprocess.Popen[bytes]:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            process = subprocess.Popen(_command(*words), **quiet)
            while process.poll() is None:
                try:
                    httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5)
                    return process
                except httpx.HTTPError:
                    time.sleep(0.05)
            raise RuntimeError("the service did not start")

        def ask() -> None:
            number = 0
            while not stop.is_set():
                body = {"model": "skyt/gcd", "messages": [{"role": "user", "content": str(number)}]}
                headers = {"Idempotency-Key": f"k{number}"}
                url = f"http://127.0.0.1:{port}/v1/chat/completions"
                try:
                    answer = httpx.post(url, json=body, headers=headers, timeout=20)
                except httpx.HTTPError:
                    time.sleep(0.02)  # it was killed: the same request again
                    continue
                if answer.status_code == 200:
                    answered[f"k{number}"] = answer.json()["skyt"]
                    number += 1
                elif answer.status_code < 500:
                    raise RuntimeError(answer.text)

        client = threading.Thread(target=ask)
        client.start()
        rng = random.Random(1)
        for _ in range(times):
            process = start()
            time.sleep(rng.uniform(0.0, 3.0))
            process.kill()
            process.wait()
        process = start()
        stop.set()
        client.join()
        process.terminate()
        process.wait()
    store = Store.open(database, versions())
    with store.reading() as connection:
        records = connection.exec_driver_sql("SELECT number FROM samples ORDER BY number").scalars().all()
        canons = connection.exec_driver_sql("SELECT canon_signature FROM canons").scalars().all()
    store.close()
    assert answered, "no request was answered"
    numbers = [int(found["samples"][0]["sample_id"]) for found in answered.values()]
    assert len(set(numbers)) == len(numbers), "two answers have the same sample"
    assert set(numbers) <= set(records), "a sample that was answered for is not on record"
    assert records == list(range(len(records))), "numbers have gaps"
    assert {found["canon_signature"] for found in answered.values()} - {None} <= set(canons)
    assert len(canons) <= 1
    print(f"service: killed {times} times, {len(answered)} requests answered, each on record once; one canon")


def main(times: int = 50) -> None:
    with tempfile.TemporaryDirectory() as name:
        for kill in (kill_run, kill_service):
            folder = Path(name) / kill.__name__
            folder.mkdir()
            kill(folder, times)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
