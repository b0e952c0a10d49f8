"""Any endpoint that speaks the OpenAI chat-completions protocol, asked politely and persistently.

What may pass (429, 408, 5xx, time-outs, broken connections, truncated or malformed answers) is tried again
with exponential back-off and jitter, or after the time the server asks for. What will not pass (another 4xx)
is reported at once.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import random
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pydantic import Field

from homeostat.core.errors import UserError
from skyt.generators.base import Failure, GenerationError, Output, Request, Source
from skyt.generators.retry import asked_again, may_pass, retry_after

if TYPE_CHECKING:
    import httpx

_PATIENCE_S = 10.0  # for the first answer


class OpenAIGenerator(Source):
    """Any endpoint that speaks the OpenAI chat-completions protocol."""

    kind: Literal["openai"]
    name: str = Field(min_length=1, description="the model's name at the endpoint")
    base_url: str = Field("https://api.openai.com/v1", pattern=r"^https?://")
    api_key_env: str | None = Field("OPENAI_API_KEY", description="variable that holds the key; null: none")
    max_new_tokens: int = Field(1024, ge=1)
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    concurrency: int = Field(8, ge=1)
    timeout_s: float = Field(60.0, gt=0)
    retries: int = Field(6, ge=0, description="further attempts after the first")
    backoff_s: float = Field(0.5, gt=0, description="first wait; doubles each time, with jitter")
    send_seed: bool = Field(True, description="some servers reject the `seed` field")

    def make(self) -> Endpoint:
        return Endpoint(self)

    def check(self, reachable: bool = True) -> None:
        endpoint = Endpoint(self)
        if reachable:
            endpoint.check()


class _PassingError(Exception):
    """An attempt that failed in a way that may pass; `after` is how long the server asked to wait."""

    def __init__(self, reason: str, after: float = 0.0) -> None:
        super().__init__(reason)
        self.after = after


class Endpoint:
    """A model behind an HTTP endpoint."""

    def __init__(self, config: OpenAIGenerator, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._config = config
        self.name = config.name
        self._transport = transport
        self._headers = {}
        if config.api_key_env is not None:
            key = os.environ.get(config.api_key_env, "")
            if key:
                self._headers["Authorization"] = f"Bearer {key}"
            elif not _on_this_machine(config.base_url):
                raise UserError(
                    f"the environment variable {config.api_key_env} is not set: put the endpoint's key "
                    f"there, or give --set generator.api_key_env=null for a server that needs none"
                )

    def check(self) -> None:
        """Refuse an endpoint that is not there or does not take the key, before anything is asked of it."""
        import httpx

        url = self._config.base_url.rstrip("/")
        try:
            answer = httpx.get(f"{url}/models", headers=self._headers, timeout=_PATIENCE_S)
        except httpx.ReadTimeout:
            return  # it is there, and busy
        except httpx.HTTPError as error:
            said = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise UserError(
                f"no answer from {url} ({said}): is the server running, and the address right?"
            ) from None
        if answer.status_code == 401:
            name = self._config.api_key_env
            hint = (
                f"put another into {name}" if name else "name its variable with --set generator.api_key_env=…"
            )
            raise UserError(f"{url} does not accept the key (HTTP 401): {hint}")

    async def generate(self, requests: Sequence[Request]) -> AsyncGenerator[Output | Failure, None]:
        import httpx

        limit = asyncio.Semaphore(self._config.concurrency)
        async with httpx.AsyncClient(
            base_url=self._config.base_url.rstrip("/") + "/",
            headers=self._headers,
            timeout=self._config.timeout_s,
            transport=self._transport,
        ) as client:

            async def answer(request: Request) -> Output | Failure:
                async with limit:
                    return await self._answer(client, request)

            tasks = [asyncio.create_task(answer(request)) for request in requests]
            try:
                for done in asyncio.as_completed(tasks):
                    yield await done
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, client: httpx.AsyncClient, request: Request) -> Output | Failure:
        async def attempt() -> str | _PassingError:
            try:
                return await self._ask(client, request)
            except _PassingError as error:
                return error

        try:
            answer = await asked_again(
                attempt,
                lambda answer: answer.after if isinstance(answer, _PassingError) else None,
                retries=self._config.retries,
                backoff_s=self._config.backoff_s,
                jitter=random.Random(request.seed),
            )
        except GenerationError as error:
            return Failure(request, str(error))
        if isinstance(answer, str):
            return Output(request, answer)
        return Failure(request, f"gave up after {self._config.retries + 1} attempts: {answer}")

    async def _ask(self, client: httpx.AsyncClient, request: Request) -> str:
        import httpx

        body: dict[str, object] = {
            "model": self.name,
            "messages": [{"role": "user", "content": request.prompt}],
            "temperature": request.temperature,
            "max_tokens": self._config.max_new_tokens,
            "n": 1,
        }
        if self._config.top_p < 1.0:
            body["top_p"] = self._config.top_p
        if self._config.send_seed:
            body["seed"] = request.seed
        try:
            response = await client.post("chat/completions", json=body)
        except httpx.TimeoutException:
            raise _PassingError(f"no answer within {self._config.timeout_s:g} s") from None
        except httpx.TransportError as error:
            raise _PassingError(f"{type(error).__name__}: {error}") from None
        if may_pass(response.status_code):
            asked = retry_after(response.headers.get("retry-after"))
            raise _PassingError(f"HTTP {response.status_code}", asked)
        if response.status_code != 200:
            raise GenerationError(f"HTTP {response.status_code}: {_shown(response)}")
        return _content(response)


def _on_this_machine(url: str) -> bool:
    """Whether the address is a loopback one: a server here needs no key unless it says so."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _content(response: httpx.Response) -> str:
    try:
        answer = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise _PassingError(f"the answer is not JSON: {_shown(response)}") from None
    try:
        content = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise _PassingError(f"the answer has no choices[0].message.content: {_shown(response)}") from None
    if not isinstance(content, str):
        raise _PassingError(f"choices[0].message.content is {content!r:.60}, not text")
    return content


def _shown(response: httpx.Response) -> str:
    text = " ".join(response.text.split())
    return text if len(text) <= 200 else text[:197] + "..."
