"""An upstream that does as it is told: answers, fails, hangs, breaks off. Plain sockets in a thread."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

Behaviour = str | Callable[[dict[str, Any]], str]

GCD = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return abs(a)"
GCD_RENAMED = "def gcd(x, y):\n    # Euclid\n    while y:\n        x, y = y, x % y\n    return abs(x)"
GCD_WRONG = "def gcd(a, b):\n    return 1"


def fenced(code: str) -> str:
    return f"Here you are:\n```python\n{code}\n```\nEnjoy!"


class ScriptedUpstream:
    """`plan` holds what to do with the next requests, then `otherwise` applies.

    A behaviour is a text to answer with, a function that makes one, or one of `!429`, `!500`, `!400`,
    `!hang`, `!cut`, `!badjson`, `!nojson`, `!closed`, `!cutstream`, `!tools`, `!nochoices`.
    """

    def __init__(self, otherwise: Behaviour = "hello") -> None:
        self.otherwise = otherwise
        self.plan: deque[Behaviour] = deque()
        self.requests: list[dict[str, Any]] = []
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self._ready.wait(10)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def __enter__(self) -> ScriptedUpstream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connection, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = head.split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:] if ": " in line)}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        body = json.loads(raw) if raw else {}
        self.requests.append({"method": method, "path": path, "headers": headers, "body": body, "raw": raw})
        if path.endswith("/models"):
            writer.write(_http(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]}))
            return True
        behaviour = self.plan.popleft() if self.plan else self.otherwise
        text = behaviour(body) if callable(behaviour) else behaviour
        return await self._behave(writer, text, body, chat="chat" in path)

    async def _behave(self, writer: asyncio.StreamWriter, text: str, body: Any, chat: bool) -> bool:
        if text == "!429":
            writer.write(_http(429, _error("slow down"), "retry-after: 0\r\n"))
        elif text == "!500":
            writer.write(_http(500, _error("broken")))
        elif text == "!400":
            writer.write(_http(400, _error("no such parameter")))
        elif text == "!hang":
            await asyncio.sleep(3600)
        elif text == "!closed":
            return False
        elif text == "!cut":
            writer.write(
                b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{"id"'
            )
            await writer.drain()
            return False
        elif text == "!badjson":
            writer.write(_raw(200, b'{"choices": [', "application/json"))
        elif text == "!nojson":
            writer.write(_raw(200, b"<html>proxy says no</html>", "text/html"))
        elif text == "!nochoices":
            writer.write(_http(200, {"id": "x", "object": "chat.completion"}))
        elif text == "!cutstream":
            writer.write(_STREAM + _chunk(_event({"content": "def"})) + _chunk(b'data: {"id": "half'))
            await writer.drain()
            return False
        elif body.get("stream"):
            pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
            events = [_event({"role": "assistant", "content": ""}), *(_event({"content": p}) for p in pieces)]
            events += [_event({}, "stop"), b"data: [DONE]\n\n"]
            writer.write(_STREAM + b"".join(_chunk(event) for event in events) + b"0\r\n\r\n")
        else:
            writer.write(_http(200, completion(text, body, chat)))
        await writer.drain()
        return True


def completion(text: str, body: dict[str, Any], chat: bool = True) -> dict[str, Any]:
    n = body.get("n") or 1
    if text == "!tools":
        call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    elif chat:
        choices = [
            {"index": i, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            for i in range(n)
        ]
    else:
        choices = [{"index": i, "text": text, "finish_reason": "stop"} for i in range(n)]
    return {
        "id": "cmpl-1",
        "object": "chat.completion" if chat else "text_completion",
        "created": 1,
        "model": body.get("model"),
        "system_fingerprint": "fp",
        "choices": choices,
        "usage": {"prompt_tokens": 5, "completion_tokens": 7 * n, "total_tokens": 5 + 7 * n},
    }


_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "scripted", "param": None, "code": "scripted"}}


def _http(status: int, body: Any, more: str = "") -> bytes:
    return _raw(status, json.dumps(body).encode(), "application/json", more)


def _raw(status: int, data: bytes, kind: str, more: str = "") -> bytes:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nx-upstream: yes\r\n{more}"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(data) + data
