"""The upstream: any OpenAI-compatible endpoint, asked again with jitter where that can help.

An attempt that fails before a byte of its answer went to the client (429, 5xx, refused or cut connection,
silence, unreadable JSON) is tried again within the deadline; the last failure is passed on as it is.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import aiohttp
from yarl import URL

from homeostat.core.errors import UserError
from skyt.generators.retry import asked_again, may_pass, retry_after
from skyt.serve.config import HttpUpstream
from skyt.serve.protocol.codec import BadJsonError, read_json, write_json
from skyt.serve.protocol.errors import ApiError, upstream_error
from skyt.serve.tracing import pass_on, span

_HOP_BY_HOP = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "upgrade",
    "transfer-encoding", "content-length", "content-encoding", "accept-encoding", "host", "cookie", "expect",
    "server", "date",
})  # fmt: skip


@dataclass
class Call:
    """One request to be answered: its deadline, and how long the upstream had it."""

    deadline: float  # on time.monotonic()
    upstream_s: float = 0.0
    attempts: int = 0

    @property
    def left(self) -> float:
        return self.deadline - time.monotonic()


@dataclass(frozen=True)
class Answer:
    """A whole answer of the upstream."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    completion: dict[str, Any] = field(default_factory=dict)  # the body's JSON, where it had to be read


@dataclass(frozen=True)
class Stream:
    """An answer that is still arriving."""

    status: int
    headers: list[tuple[str, str]]
    chunks: AsyncIterator[bytes] = field(compare=False)


T = TypeVar("T", Answer, "Stream | Answer")


class Upstream(Protocol):
    """What answers requests: an endpoint, or a model in this process."""

    name: str
    default_model: str | None

    async def forward(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, call: Call
    ) -> Answer: ...

    async def stream(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, call: Call
    ) -> Stream | Answer: ...

    async def complete(
        self, path: str, headers: Mapping[str, str], body: Mapping[str, Any], call: Call
    ) -> dict[str, Any]: ...

    async def models(self, headers: Mapping[str, str], call: Call) -> list[dict[str, Any]]: ...

    async def close(self) -> None: ...


class HttpUpstreamClient:
    """An endpoint over HTTP."""

    def __init__(self, config: HttpUpstream, observe: Callable[[str], None] = lambda outcome: None) -> None:
        self.name = config.base_url
        self.default_model = config.model
        self._config = config
        self._observe = observe
        self._base = config.base_url.rstrip("/")
        self._key = _key(config.api_key_env)
        self._jitter = random.Random()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def forward(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, call: Call
    ) -> Answer:
        """The whole answer, whatever its status."""
        return await self._retry(lambda: self._whole(method, path, headers, body), call)

    async def stream(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, call: Call
    ) -> Stream | Answer:
        """The answer as it arrives; an error answer is read whole first, so that it can be retried."""

        async def attempt() -> Stream | Answer:
            response = await self._send(method, path, headers, body)
            if response.status < 400 and response.content_type == "text/event-stream":
                return Stream(response.status, passed_on(response.headers), _chunks(response))
            async with response:
                return Answer(response.status, passed_on(response.headers), await self._read(response))

        return await self._retry(attempt, call)

    async def complete(
        self, path: str, headers: Mapping[str, str], body: Mapping[str, Any], call: Call
    ) -> dict[str, Any]:
        """The answer's JSON. An error of the upstream is raised with its own status and body."""
        data = write_json(body)

        async def attempt() -> Answer:
            answer = await self._whole("POST", path, headers, data)
            return answer if answer.status >= 400 else replace(answer, completion=_completion(answer.body))

        answer = await self._retry(attempt, call)
        if answer.status >= 400:
            raise _error(answer)
        return answer.completion

    async def models(self, headers: Mapping[str, str], call: Call) -> list[dict[str, Any]]:
        answer = await self.forward("GET", "/models", headers, b"", call)
        if answer.status >= 400:
            raise _error(answer)
        try:
            listed = read_json(answer.body)
        except BadJsonError as error:
            raise upstream_error(f"the upstream's list of models is not JSON ({error})") from None
        data = listed.get("data") if isinstance(listed, dict) else None
        return [model for model in data if isinstance(model, dict)] if isinstance(data, list) else []

    async def _whole(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        async with await self._send(method, path, headers, body) as response:
            return Answer(response.status, passed_on(response.headers), await self._read(response))

    async def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> aiohttp.ClientResponse:
        sent = {name: value for name, value in headers.items() if name not in _HOP_BY_HOP}
        sent["accept-encoding"] = "identity"
        if self._key is not None:
            sent["authorization"] = f"Bearer {self._key}"
        pass_on(sent)
        if self._session is None:
            self._session = self._open()
        url = URL(self._base + path, encoded=True)
        return await self._session.request(
            method, url, headers=sent, data=body or None, allow_redirects=False
        )

    def _open(self) -> aiohttp.ClientSession:
        """A pool of connections. aiohttp, because httpx's pool costs milliseconds at 64 connections."""
        config = self._config
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=config.max_connections, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=config.connect_timeout_s, sock_read=config.attempt_timeout_s
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
        )

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        parts, size = [], 0
        async for part in response.content.iter_any():
            size += len(part)
            if size > self._config.max_answer_bytes:
                raise upstream_error(f"the upstream's answer is over {self._config.max_answer_bytes} bytes")
            parts.append(part)
        return b"".join(parts)

    async def _retry(self, attempt: Callable[[], Awaitable[T]], call: Call) -> T:
        """Run `attempt` until it gives something final, the attempts are used up or time is."""
        result = await asked_again(
            lambda: self._try(attempt, call),
            _wished_pause,
            retries=self._config.retries,
            backoff_s=self._config.backoff_s,
            jitter=self._jitter,
            left=lambda: call.left,
        )
        if isinstance(result, ApiError):
            raise result
        return result

    async def _try(self, attempt: Callable[[], Awaitable[T]], call: Call) -> T | ApiError:
        """One attempt within the request's time; a failure that another attempt may mend is returned."""
        began, outcome = time.monotonic(), None
        call.attempts += 1
        with span("upstream", "CLIENT") as current:
            try:
                async with asyncio.timeout(max(0.0, call.left)):
                    result = await attempt()
                outcome = str(result.status)
                current.note({"http.response.status_code": result.status})
                return result
            except aiohttp.ServerTimeoutError:
                outcome = "timeout"
                return upstream_error("the upstream did not answer in time", 504)
            except TimeoutError:
                outcome = "deadline"
                return upstream_error("the upstream did not answer in time", 504)
            except aiohttp.ClientError as error:
                outcome = "connection"
                return upstream_error(f"the upstream's connection failed ({type(error).__name__})")
            except _UnreadableError as error:
                outcome = "unreadable"
                return upstream_error(str(error))
            finally:
                call.upstream_s += time.monotonic() - began
                if outcome is not None:
                    self._observe(outcome)


class _UnreadableError(Exception):
    """An answer with a good status that cannot be read."""


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async with response:
        async for part in response.content.iter_any():
            yield part


def _completion(body: bytes) -> dict[str, Any]:
    try:
        completion = read_json(body)
    except BadJsonError as error:
        raise _UnreadableError(f"the upstream's answer is not JSON ({error})") from None
    if not isinstance(completion, dict) or not isinstance(completion.get("choices"), list):
        raise _UnreadableError("the upstream's answer has no list of choices")
    return completion


def passed_on(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Headers of an answer that mean something to the client too."""
    lowered = ((name.lower(), value) for name, value in headers.items())
    return [(name, value) for name, value in lowered if name not in _HOP_BY_HOP and name != "set-cookie"]


def _error(answer: Answer) -> ApiError:
    """The upstream's own error, with its status and, where it is JSON, its body."""
    error = ApiError(answer.status, "the upstream refused the request", type="upstream_error")
    try:
        body = read_json(answer.body)
    except BadJsonError:
        body = None
    if isinstance(body, dict) and "error" in body:
        error.body = body
    error.headers = {name: value for name, value in answer.headers if name == "retry-after"}
    return error


def _wished_pause(result: Stream | Answer | ApiError) -> float | None:
    """The seconds that the upstream asks to wait before another attempt; None where that is of no use."""
    if isinstance(result, ApiError):
        return 0.0
    return retry_after(dict(result.headers).get("retry-after")) if may_pass(result.status) else None


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise UserError(f"upstream.api_key_env: the environment variable {variable} is not set")
    return key
