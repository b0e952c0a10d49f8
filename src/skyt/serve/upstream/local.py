"""A transformers model inside the service: one request at a time, behind a bounded queue.

Sampling is that of `homeostat code run`, a random stream for each choice.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from skyt.generators.local import GumbelSampling, continued, prompt_ids
from skyt.serve.config import LocalUpstream
from skyt.serve.protocol import answers
from skyt.serve.protocol.codec import BadJsonError, read_json, write_json
from skyt.serve.protocol.errors import ApiError, busy, upstream_error
from skyt.serve.upstream.endpoint import Answer, Call, Stream
from skyt.serve.upstream.gate import Gate

_PATHS = ("/chat/completions", "/completions")
_JSON = [("content-type", "application/json")]


@dataclass(frozen=True)
class Wish:
    """What a request asks of the model."""

    chat: bool
    prompt: str | list[dict[str, str]]
    n: int
    temperature: float
    top_p: float
    max_new_tokens: int
    seeds: list[int]
    stop: list[str]
    include_usage: bool


class LocalUpstreamModel:
    """The model behind the same seam as an endpoint."""

    def __init__(
        self,
        config: LocalUpstream,
        model: Any,
        tokenizer: Any,
        observe: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.name = f"local:{config.model.name}"
        self.default_model: str | None = config.model.name
        self._config, self._model, self._tokenizer, self._observe = config, model, tokenizer, observe
        self._gate = Gate(1, config.max_waiting)
        self._thread = ThreadPoolExecutor(1, "model", initializer=_limit_threads, initargs=(config.threads,))

    @classmethod
    def load(
        cls, config: LocalUpstream, observe: Callable[[str], None] = lambda _: None
    ) -> LocalUpstreamModel:
        return cls(config, *config.model.load(), observe)

    async def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def models(self, headers: Mapping[str, str], call: Call) -> list[dict[str, Any]]:
        return [{"id": self.default_model, "object": "model", "created": 0, "owned_by": "local"}]

    async def forward(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, call: Call
    ) -> Answer:
        return Answer(
            200, _JSON, write_json(await self.complete(path, headers, _read(method, path, body), call))
        )

    async def complete(
        self, path: str, headers: Mapping[str, str], body: Mapping[str, Any], call: Call
    ) -> dict[str, Any]:
        wish = self._wish(path, body)
        async with self._gate.entered():
            return await self._timed(wish, call)

    async def stream(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, call: Call
    ) -> Stream | Answer:
        """Token by token for one choice; several choices are made together and sent one after another."""
        wish = self._wish(path, _read(method, path, body))
        kind = [("content-type", "text/event-stream; charset=utf-8")]
        if wish.n > 1:
            async with self._gate.entered():
                whole = await self._timed(wish, call)
            return Stream(200, kind, _each(answers.events(whole, wish.chat, wish.include_usage)))
        if self._gate.full:
            raise busy("the model has as many requests waiting as it can hold")
        return Stream(200, kind, self._tokens(wish, call))

    async def _timed(self, wish: Wish, call: Call) -> dict[str, Any]:
        began = time.monotonic()
        call.attempts += 1
        stop = threading.Event()
        work = asyncio.get_running_loop().run_in_executor(self._thread, self._run, wish, stop, None)
        try:
            async with asyncio.timeout(max(0.0, call.left)):
                result = await asyncio.shield(work)
        except TimeoutError:
            self._observe("deadline")
            raise upstream_error("the model did not finish in time", 504) from None
        finally:
            stop.set()
            await asyncio.wait([work])
            call.upstream_s += time.monotonic() - began
        self._observe("200")
        return result

    async def _tokens(self, wish: Wish, call: Call) -> AsyncIterator[bytes]:
        loop, arrived = asyncio.get_running_loop(), asyncio.Queue[str | None]()
        stop = threading.Event()

        def emit(text: str | None) -> None:
            loop.call_soon_threadsafe(arrived.put_nowait, text)

        async with self._gate.entered():
            work = loop.run_in_executor(self._thread, self._run, wish, stop, emit)
            work.add_done_callback(lambda _: arrived.put_nowait(None))
            head = _head(wish.chat, self.default_model)
            try:
                async with asyncio.timeout(max(0.0, call.left)):
                    if wish.chat:
                        yield _event(head, {"delta": {"role": "assistant", "content": ""}}, None, wish)
                    while (text := await arrived.get()) is not None:
                        part = {"delta": {"content": text}} if wish.chat else {"text": text}
                        if text:
                            yield _event(head, part, None, wish)
                    whole = await work
                self._observe("200")
                end: dict[str, Any] = {"delta": {}} if wish.chat else {"text": ""}
                yield _event(head, end, whole["choices"][0]["finish_reason"], wish)
                if wish.include_usage:
                    yield b"data: " + write_json({**head, "choices": [], "usage": whole["usage"]}) + b"\n\n"
                yield answers.DONE
            finally:  # also when the client went away: the model stops at the next token
                stop.set()
                await asyncio.wait([work])

    def _run(self, wish: Wish, stop: threading.Event, emit: Callable[[str], None] | None) -> dict[str, Any]:
        from skyt.generators.watch import Watch

        ids = self._ids(wish)  # [1, T]
        streamer = None if emit is None else _streamer(self._tokenizer, emit, wish.stop)
        extra = {"stop_strings": wish.stop, "tokenizer": self._tokenizer} if wish.stop else {}
        noise, limit = GumbelSampling(wish.seeds, wish.temperature, wish.top_p), wish.max_new_tokens
        watch = Watch(ids.shape[1], limit, frozenset(), lambda _row, _tokens: None, stop=stop)
        made = continued(
            self._model, self._tokenizer.pad_token_id, ids, noise, limit, watch, streamer=streamer, **extra
        )  # [n, new]
        return self._whole(wish, ids.shape[1], made.tolist())

    def _whole(self, wish: Wish, asked: int, made: list[list[int]]) -> dict[str, Any]:
        from skyt.generators.watch import ends_of

        ends = ends_of(self._model)
        choices, spent = [], 0
        for index, row in enumerate(made):
            length = next((at for at, token in enumerate(row) if token in ends), len(row))
            text = self._tokenizer.decode(row[:length], skip_special_tokens=True)
            cut = _cut(text, wish.stop)
            finish = "stop" if length < len(row) or cut != text else "length"
            part = {"message": {"role": "assistant", "content": cut}} if wish.chat else {"text": cut}
            choices.append({"index": index, **part, "logprobs": None, "finish_reason": finish})
            spent += min(length + 1, len(row))
        usage = {"prompt_tokens": asked, "completion_tokens": spent, "total_tokens": asked + spent}
        head = _head(wish.chat, self.default_model)
        head["object"] = "chat.completion" if wish.chat else "text_completion"
        return {**head, "choices": choices, "usage": usage}

    def _ids(self, wish: Wish) -> Any:
        ids, longest = prompt_ids(self._model, self._tokenizer, wish.prompt)
        if not ids.shape[1] or (longest is not None and ids.shape[1] + wish.max_new_tokens > longest):
            raise ApiError(
                400,
                f"the prompt has {ids.shape[1]} tokens and max_tokens is {wish.max_new_tokens}: the model "
                f"has {longest} positions",
                code="context_length_exceeded",
            )
        return ids

    def _wish(self, path: str, body: Mapping[str, Any]) -> Wish:
        if path not in _PATHS:
            raise ApiError(404, "the local model has no such endpoint", code="not_found")
        model = body.get("model")
        if model != self.default_model:
            raise ApiError(404, f"no model {str(model)[:80]!r} here", code="model_not_found", param="model")
        for name in ("tools", "functions", "logprobs", "response_format", "suffix", "echo"):
            if body.get(name):
                raise ApiError(400, f"the local model does not support {name}", param=name)
        chat = path == "/chat/completions"
        n = _number(body, "n", int, 1, 1, 32)
        seed = _number(body, "seed", int, None, -(2**63), 2**63 - 1)
        first = secrets.randbits(62) if seed is None else int(seed) % 2**62
        options = body.get("stream_options")
        limit = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
        return Wish(
            chat=chat,
            prompt=_messages(body.get("messages")) if chat else _prompt(body.get("prompt")),
            n=int(n),
            temperature=float(_number(body, "temperature", float, 1.0, 0.0, 10.0)),
            top_p=float(_number(body, "top_p", float, 1.0, 1e-6, 1.0)),
            max_new_tokens=int(_number(body, limit, int, self._config.max_new_tokens, 1, 1 << 20)),
            seeds=[first + at for at in range(int(n))],
            stop=_stop(body.get("stop")),
            include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        )


def _limit_threads(threads: int | None) -> None:
    """In the model's own thread: torch keeps the number for each thread that calls it."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def _streamer(tokenizer: Any, emit: Callable[[str], None], stop: list[str]) -> Any:
    from transformers import TextStreamer

    class Streamer(TextStreamer):
        """Hands text over as it becomes final; holds back what could be the beginning of a stop sequence."""

        seen, sent = "", 0

        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
            self.seen += text
            final = _cut(self.seen, stop)
            held = 0 if stream_end or final != self.seen else max((len(word) for word in stop), default=1) - 1
            until = max(self.sent, len(final) - held)
            emit(final[self.sent : until])
            self.sent = until

    return Streamer(tokenizer, skip_prompt=True, skip_special_tokens=True)


def _cut(text: str, stop: list[str]) -> str:
    places = [at for word in stop if (at := text.find(word)) >= 0]
    return text[: min(places)] if places else text


def _head(chat: bool, model: str | None) -> dict[str, Any]:
    kind = "chat.completion.chunk" if chat else "text_completion"
    identity = ("chatcmpl-" if chat else "cmpl-") + secrets.token_hex(12)
    return {"id": identity, "object": kind, "created": int(time.time()), "model": model}


def _event(head: dict[str, Any], part: dict[str, Any], finish: str | None, wish: Wish) -> bytes:
    usage = {"usage": None} if wish.include_usage else {}
    choice = {"index": 0, **part, "logprobs": None, "finish_reason": finish}
    return b"data: " + write_json({**head, "choices": [choice], **usage}) + b"\n\n"


async def _each(events: Any) -> AsyncIterator[bytes]:
    for event in events:
        yield event


def _read(method: str, path: str, body: bytes) -> dict[str, Any]:
    if method != "POST" or path not in _PATHS:
        raise ApiError(404, "the local model has no such endpoint", code="not_found")
    try:
        return dict(read_json(body))
    except (BadJsonError, TypeError, ValueError) as error:
        raise ApiError(400, f"the body is not a JSON object: {error}", code="invalid_json") from None


def _number(body: Mapping[str, Any], name: str, kind: type, default: Any, low: float, high: float) -> Any:
    value = body.get(name)
    if value is None:
        return default
    allowed = int if kind is int else int | float
    if isinstance(value, bool) or not isinstance(value, allowed) or not low <= value <= high:
        raise ApiError(400, f"{name} must be a number from {low} to {high}", param=name)
    return value


def _messages(messages: Any) -> list[dict[str, str]]:
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "messages must be a list of at least one message", param="messages")
    return [_message(message) for message in messages]


def _message(message: Any) -> dict[str, str]:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        content = "".join(map(str, parts)) if all(isinstance(part, str) for part in parts) else None
    role = message.get("role") if isinstance(message, dict) else None
    if role == "developer":
        role = "system"
    if role not in ("system", "user", "assistant") or not isinstance(content, str):
        raise ApiError(400, "a message has a role (system, user, assistant) and text", param="messages")
    return {"role": role, "content": content.encode("utf-8", "replace").decode("utf-8")}


def _prompt(prompt: Any) -> str:
    if not isinstance(prompt, str) or not prompt:
        raise ApiError(400, "prompt must be a text that is not empty", param="prompt")
    return prompt.encode("utf-8", "replace").decode("utf-8")


def _stop(stop: Any) -> list[str]:
    words = [stop] if isinstance(stop, str) else stop
    if words is None:
        return []
    if not isinstance(words, list) or len(words) > 4 or not all(isinstance(w, str) and w for w in words):
        raise ApiError(400, "stop must be a text or up to four of them", param="stop")
    return list(words)
