"""What hostile outputs cost everybody else: the service under eight clients, one output in five hostile.

Every output is a program that was never seen before, so each must be judged; nothing is answered from memory.
Rounds without and with hostile outputs alternate in one run. Shown is the latency of the requests that got an
ordinary output, and its ratio. Then SIGTERM comes while hostile samples are being judged, and SIGKILL after a
new start: how long the end takes, and whether every answered sample is on record, with one canon.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CLIENTS, EVERY = 8, 5
ORDINARY = [
    "def gcd(a{n}, b{n}):\n    while b{n}:\n        a{n}, b{n} = b{n}, a{n} % b{n}\n    return abs(a{n})",
    "def gcd(x{n}, y{n}):\n    if y{n} == 0:\n        return abs(x{n})\n    return gcd(y{n}, x{n} % y{n})",
    "import math\n\ndef gcd(p{n}, q{n}):\n    return math.gcd(p{n}, q{n})",
    "def gcd(a, b):\n    return {n}",
]
HOSTILE = {
    "endless loop": "def gcd(a, b):\n    n = {n}\n    while True:\n        n += 1",
    "endless loop at import": "n = {n}\nwhile True:\n    n += 1\ndef gcd(a, b):\n    return n",
    "flood of output": "def gcd(a, b):\n    while True:\n        print('x{n}' * 10 ** 6)",
    "giant text as result": "def gcd(a, b):\n    return 'x{n}' * 10 ** 8",
    "newlines as result": "def gcd(a, b):\n    return '\\n' * (60 * 2 ** 20 + {n})",
    "colliding set as result": "def gcd(a, b):\n    return {{k * {n} * (2 ** 61 - 1) for k in range(60000)}}",
    "memory": "def gcd(a, b):\n    hoard = [{n}]\n    while True:\n        hoard.append(bytearray(10 ** 7))",
    "deep result": "def gcd(a, b):\n    r = [{n}]\n    for _ in range(9999):\n        r = [r]\n    return r",
}


class Upstream(asyncio.Protocol):
    """Answers each request at once with a new program; every fifth is hostile if the model's name says so."""

    turn = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._data = transport, b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._data) < end + 4 + length:
                return
            asked, self._data = self._data[end + 4 : end + 4 + length], self._data[end + 4 + length :]
            self._transport.write(_answer(b"with-hostile" in asked))  # type: ignore[attr-defined]


def _answer(hostile_too: bool) -> bytes:
    Upstream.turn += 1
    n, kind = Upstream.turn, "ordinary"
    code = ORDINARY[n % len(ORDINARY)]
    if hostile_too and n % EVERY == 0:
        kind = list(HOSTILE)[n // EVERY % len(HOSTILE)]
        code = HOSTILE[kind]
    message = {"role": "assistant", "content": f"```python\n{code.format(n=n)}\n```"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": f"{kind}/{n}", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    data = json.dumps(body).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(data) + data


async def _serve_upstream() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@dataclass
class Seen:
    """What the clients saw."""

    ordinary: list[float] = field(default_factory=list)  # seconds
    hostile: list[float] = field(default_factory=list)
    unjudged: Counter[str] = field(default_factory=Counter)  # by kind of output
    answered: set[tuple[str, str]] = field(default_factory=set)  # run_id, sample_id
    health: list[float] = field(default_factory=list)


async def _client(port: int, model: str, until: float, seen: Seen) -> None:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "gcd"}]}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"x-skyt-contract: gcd\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        while time.perf_counter() < until:
            began = time.perf_counter()
            writer.write(head.encode() + body)
            answer = await _read(reader)
            took = time.perf_counter() - began
            kind = answer["id"].partition("/")[0]
            (seen.ordinary if kind == "ordinary" else seen.hostile).append(took)
            for sample in answer["skyt"]["samples"]:
                seen.answered.add((sample["run_id"], sample["sample_id"]))
                seen.unjudged[kind] += not sample["judged"]
    except (OSError, asyncio.IncompleteReadError):
        pass  # the service was stopped or killed: what it did not answer does not count
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader) -> Any:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
    body = await reader.readexactly(length)
    if not head.startswith(b"http/1.1 200"):
        raise OSError(head.split(b"\r\n", 1)[0].decode())
    return json.loads(body)


async def _health(port: int, until: float, seen: Seen) -> None:
    request = f"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(request)
        await _read(reader)
        seen.health.append(time.perf_counter() - began)
        await asyncio.sleep(0.2)
    writer.close()


async def _load(port: int, model: str, seconds: float, seen: Seen, health: bool = True) -> None:
    until = time.perf_counter() + seconds
    watching = [_health(port, until, seen)] if health else []
    await asyncio.gather(*(_client(port, model, until, seen) for _ in range(CLIENTS)), *watching)


def _start(command: list[str]) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise RuntimeError(f"{command} did not start")
    return process, line


class Service:
    """`homeostat code serve` on a database; may be started again after its end."""

    def __init__(self, database: Path, upstream: int) -> None:
        self.database = database
        self._command = [sys.executable, "-m", "homeostat", "code", "serve", "--port", "0", "--model", "m"]
        self._command += ["--set", "canons_from=anyone"]
        self._command += ["--upstream", f"http://127.0.0.1:{upstream}/v1", "--database", str(database)]

    def start(self) -> int:
        self.process, line = _start(self._command)
        return int(line.split("127.0.0.1:")[1].split("/")[0])

    def end(self, number: int) -> float:
        began = time.perf_counter()
        self.process.send_signal(number)
        self.process.wait(60)
        return time.perf_counter() - began

    def missing(self, seen: Seen) -> int:
        """Answered samples that are not on record."""
        with sqlite3.connect(self.database) as connection:
            rows = connection.execute("select run_id, number from samples").fetchall()
        return len(seen.answered - {(run_id, f"{number:06d}") for run_id, number in rows})

    def canons(self) -> int:
        with sqlite3.connect(self.database) as connection:
            [(found,)] = connection.execute("select count(*) from canons").fetchall()
        return int(found)


def _p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))] * 1e3


def _interrupted(service: Service, port: int, number: int, seconds: float) -> tuple[float, Seen]:
    """Load with hostile outputs, and the signal in the middle of it."""
    seen = Seen()

    async def both() -> float:
        load = asyncio.create_task(_load(port, "with-hostile", 3600, seen, health=False))
        await asyncio.sleep(seconds)
        took = await asyncio.to_thread(service.end, number)
        await load
        return took

    return asyncio.run(both()), seen


def main(seconds: float, rounds: int, warm_up: float) -> None:
    upstream, line = _start([sys.executable, "-m", "benchmarks.serve_hostile", "--upstream"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            service = Service(Path(folder) / "hostile.sqlite", int(line))
            port = service.start()
            print(f"cores {os.cpu_count()}, load {os.getloadavg()[0]:.1f}, {CLIENTS} clients, {seconds:g} s")
            asyncio.run(_load(port, "plain", warm_up, Seen()))
            plain, mixed = Seen(), Seen()
            ratios = []
            for number in range(rounds):
                rest, rough = Seen(), Seen()
                asyncio.run(_load(port, "plain", seconds, rest))
                asyncio.run(_load(port, "with-hostile", seconds, rough))
                ratios.append(_p95(rough.ordinary) / _p95(rest.ordinary))
                print(
                    f"round {number + 1}: p95 of ordinary requests {_p95(rest.ordinary):.0f} ms without, "
                    f"{_p95(rough.ordinary):.0f} ms with hostile ones, ratio {ratios[-1]:.2f}",
                    flush=True,
                )
                for total, part in ((plain, rest), (mixed, rough)):
                    total.ordinary += part.ordinary
                    total.hostile += part.hostile
                    total.unjudged += part.unjudged
                    total.answered |= part.answered
                    total.health += part.health
            for name, seen in (("without hostile outputs", plain), ("one in five hostile", mixed)):
                print(
                    f"{name:<26} {len(seen.ordinary)} ordinary requests, median "
                    f"{statistics.median(seen.ordinary) * 1e3:.0f} ms, p95 {_p95(seen.ordinary):.0f} ms; "
                    f"health p95 {_p95(seen.health):.0f} ms, worst {max(seen.health) * 1e3:.0f} ms"
                )
            print(f"ratio of the p95s over all rounds: {_p95(mixed.ordinary) / _p95(plain.ordinary):.2f}")
            print(
                f"hostile: {len(mixed.hostile)}, median {statistics.median(mixed.hostile):.1f} s, worst "
                f"{max(mixed.hostile):.1f} s; not judged: {dict(+mixed.unjudged) or 'none'}"
            )
            took, before = _interrupted(service, port, signal.SIGTERM, seconds / 2)
            before.answered |= plain.answered | mixed.answered
            print(
                f"SIGTERM to the end: {took:.2f} s of at most 10; of {len(before.answered)} answered samples "
                f"{service.missing(before)} are missing; canons: {service.canons()}"
            )
            port = service.start()
            _, killed = _interrupted(service, port, signal.SIGKILL, seconds / 2)
            killed.answered |= before.answered
            print(
                f"SIGKILL: of {len(killed.answered)} answered samples {service.missing(killed)} are missing; "
                f"canons: {service.canons()}"
            )
    finally:
        upstream.terminate()
        upstream.wait(10)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=30.0, help="seconds before the first round")
    parser.add_argument("--upstream", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.upstream:
        asyncio.run(_serve_upstream())
    else:
        main(options.seconds, options.rounds, options.warm_up)
