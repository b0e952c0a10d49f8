"""How fast `homeostat code serve` is, against an upstream that answers at once, all on loopback.

This client, the service with its sandboxes and the scripted upstream share the machine. Shown for each load:
requests per second and latency straight to the upstream and through the service, in the same run. Anchored
requests are answered after their samples are committed to SQLite; their programs' verdicts are known by then.
A busy machine changes the service's processor time per request least.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = [
    "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return abs(a)",
    "def gcd(x, y):\n    while y != 0:\n        x, y = y, x % y\n    return abs(x)",
    "def gcd(a, b):\n    if b == 0:\n        return abs(a)\n    return gcd(b, a % b)",
    "import math\n\ndef gcd(a, b):\n    return math.gcd(a, b)",
    "def gcd(a, b):\n    return 1",
]
SECONDS = 5.0


class Upstream(asyncio.Protocol):
    """Answers each request at once with the next program."""

    turn = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._data) < end + 4 + length:
                return
            self._data = self._data[end + 4 + length :]
            Upstream.turn += 1
            self._transport.write(ANSWERS[Upstream.turn % len(ANSWERS)])  # type: ignore[attr-defined]


def _answer(code: str) -> bytes:
    message = {"role": "assistant", "content": f"```python\n{code}\n```"}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 40, "total_tokens": 60},
    }
    data = json.dumps(body).encode()
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data) + data
    )


ANSWERS = [_answer(code) for code in PROGRAMS]


async def _serve_upstream() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _request(port: int, model: str) -> bytes:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Write gcd, please."}],
        "temperature": 0.7,
    }
    data = json.dumps(body).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


async def _client(port: int, request: bytes, until: float, took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while time.perf_counter() < until:
            began = time.perf_counter()
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if not head.startswith(b"http/1.1 200"):
                raise RuntimeError(head.decode())
            length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            took.append(time.perf_counter() - began)
    finally:
        writer.close()


async def load(port: int, model: str, clients: int, seconds: float) -> tuple[float, list[float]]:
    """Requests per second, and the sorted latencies in milliseconds."""
    took: list[float] = []
    began = time.perf_counter()
    request = _request(port, model)
    await asyncio.gather(*(_client(port, request, began + seconds, took) for _ in range(clients)))
    return len(took) / (time.perf_counter() - began), sorted(t * 1e3 for t in took)


def _p95(values: list[float]) -> float:
    return values[int(0.95 * (len(values) - 1))]


def _start(command: list[str], **options: object) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload]
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise RuntimeError(f"{command} did not start")
    return process, line


def main(seconds: float = SECONDS) -> None:
    started = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            upstream, line = _start([sys.executable, "-m", "benchmarks.serve_load", "--upstream"])
            started.append(upstream)
            upstream_port = int(line)
            command = [
                sys.executable,
                "-m",
                "homeostat",
                "code",
                "serve",
                "--port",
                "0",
                "--model",
                "scripted",
                "--set",
                "canons_from=anyone",
            ]
            command += ["--upstream", f"http://127.0.0.1:{upstream_port}/v1"]
            command += ["--database", str(Path(folder) / "load.sqlite")]
            service, line = _start(command, stderr=subprocess.DEVNULL)
            started.append(service)
            port = int(line.split("127.0.0.1:")[1].split("/")[0])
            asyncio.run(_measure(upstream_port, port, seconds, service.pid))
        finally:
            for process in reversed(started):
                process.send_signal(signal.SIGTERM)
                process.wait(30)


def _cpu(pid: int) -> float:
    """Processor seconds a process has used; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _measure(upstream: int, service: int, seconds: float, pid: int) -> None:
    await load(service, "scripted", 4, 0.5)
    await load(service, "skyt/gcd", 4, 2.0)  # every program gets its verdict
    print(f"cores {os.cpu_count()}, {seconds:g} s per row; client, service and upstream on one machine")
    print(f"{'load':<34}{'requests/s':>12}{'p50 ms':>9}{'p95 ms':>9}{'CPU ms':>9}")
    rows = [
        ("upstream itself, 64 clients", upstream, "scripted", 64),
        ("pass-through, 64 clients", service, "scripted", 64),
        ("anchored, verdicts known, 64", service, "skyt/gcd", 64),
        ("upstream itself, 4 clients", upstream, "scripted", 4),
        ("pass-through, 4 clients", service, "scripted", 4),
        ("anchored, verdicts known, 4", service, "skyt/gcd", 4),
    ]
    p95 = {}
    for name, port, model, clients in rows:
        before = _cpu(pid)
        rate, took = await load(port, model, clients, seconds)
        used = f"{(_cpu(pid) - before) * 1e3 / len(took):>9.2f}" if port == service else ""
        p95[name] = _p95(took)
        print(f"{name:<34}{rate:>12.0f}{statistics.median(took):>9.2f}{p95[name]:>9.2f}{used}", flush=True)
    for kind in ("pass-through, 4 clients", "anchored, verdicts known, 4"):
        over = p95[kind] - p95["upstream itself, 4 clients"]
        print(f"p95 overhead of {kind}: {over:.2f} ms")


if __name__ == "__main__":
    if "--upstream" in sys.argv:
        import uvloop

        uvloop.run(_serve_upstream())
    else:
        main()
