"""The HTTP application: its routes, and the protocol's endpoints."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from skyt.serve.anchoring.asking import ask
from skyt.serve.anchoring.matching import ALIAS
from skyt.serve.auth import require, require_unrestricted
from skyt.serve.protocol import answers
from skyt.serve.protocol.codec import BadJsonError, read_json
from skyt.serve.protocol.errors import ApiError
from skyt.serve.service import Service
from skyt.serve.telemetry import log
from skyt.serve.upstream.endpoint import Answer, Call
from skyt.serve.upstream.relay import relay
from skyt.serve.web import canon_pages, pages
from skyt.serve.web.edge import Edge, admit, json_response, parsed, read_body

_HEALTH_S = 3.0  # a database that takes longer is unavailable
_NOT_FORWARDED = frozenset({"authorization", "cookie"})


def create_app(service: Service) -> ASGIApp:
    endpoints = Endpoints(service)
    passed_on = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    return Edge(
        Router(
            [
                Route("/v1/chat/completions", endpoints.complete, methods=["POST"]),
                Route("/v1/completions", endpoints.complete, methods=["POST"]),
                Route("/v1/models", endpoints.models),
                Route(f"/v1/models/{ALIAS}{{name:path}}", endpoints.model),
                Route("/v1/{path:path}", endpoints.anything_else, methods=passed_on),
                Route("/healthz", endpoints.health),
                Route("/metrics", endpoints.metrics),
                *pages.routes(service),
                *canon_pages.routes(service),
            ]
        ),
        service,
    )


class Endpoints:
    """The protocol's endpoints."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._config = service.config

    async def complete(self, request: Request) -> Response:
        """Chat or completion: anchored where a contract matches, else passed on."""
        key = await admit(request, self._service)
        path = request.url.path.removeprefix("/v1")
        raw = await read_body(request, self._service, self._config.limits.max_body_bytes)
        body = parsed(raw)
        if self._config.log_prompts:
            log("request body", request_id=request.state.request_id, body=body)
        match = self._service.matcher.match(request.headers, body)
        if match is None:
            require_unrestricted(key)
            return await self._pass(request, path, raw, streaming=body.get("stream") is True)
        require(key, match.contract.id)
        headers = self._headers(request, anchored=True)
        asked = ask(
            self._config,
            self._service.upstream.default_model,
            match,
            path,
            body,
            headers,
            key,
            request.state.request_id,
            request.state.began,
        )
        async with self._service.gate.entered():
            answer = await self._service.anchor.answer(asked)
        told = answer["body"]["skyt"]
        about = {
            name: told[name] for name in ("contract", "outcome", "normalization_version", "oracle_version")
        }
        self._timed(request, "anchored", asked.call, **about, **told["usage"])
        if self._config.log_prompts:
            log("answer", request_id=request.state.request_id, body=answer["body"])
        overhead_s = time.monotonic() - request.state.began - asked.call.upstream_s
        headers = {**answer["headers"], "x-skyt-overhead-ms": f"{overhead_s * 1e3:.2f}"}
        if answer["status"] == 200 and body.get("stream") is True:
            events = b"".join(answers.events(answer["body"], asked.chat, answers.wants_usage(body)))
            return Response(events, 200, {**headers, "content-type": "text/event-stream; charset=utf-8"})
        return json_response(answer["status"], answer["body"], headers)

    async def models(self, request: Request) -> Response:
        """The upstream's models, and an alias for each contract the key is for."""
        key = await admit(request, self._service)
        call = self._call()
        models: list[dict[str, Any]] = []
        if key.unrestricted:
            async with self._service.gate.entered():
                models = await self._service.upstream.models(self._headers(request), call)
        aliases = [_alias(name) for name in sorted(self._service.matcher.contracts) if key.allows(name)]
        self._timed(request, "pass", call)
        return json_response(200, {"object": "list", "data": [*models, *aliases]})

    async def model(self, request: Request) -> Response:
        """One alias: ours to answer, since the upstream does not know it."""
        key = await admit(request, self._service)
        contract = self._service.matcher.named(request.path_params["name"], "model")
        require(key, contract.id)
        return json_response(200, _alias(contract.id))

    async def anything_else(self, request: Request) -> Response:
        """Any other part of the API goes to the upstream as it is."""
        require_unrestricted(await admit(request, self._service))
        path = request.scope["raw_path"].decode("ascii", "replace").removeprefix("/v1")
        lowered = path.lower().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/")
        # An escaped escape: nobody knows how often the upstream decodes.
        dangerous = any(part in lowered for part in ("%25", "..", "\\"))
        if dangerous or not path.isascii() or any(ord(c) < 33 for c in path):
            raise ApiError(404, "no such path", code="not_found")
        query = request.scope["query_string"].decode("ascii", "replace")
        raw = await read_body(request, self._service, self._config.limits.max_body_bytes)
        self._refuse_anchoring(request, path, raw)
        return await self._pass(request, path + (f"?{query}" if query else ""), raw, streaming=False)

    def _refuse_anchoring(self, request: Request, path: str, raw: bytes) -> None:
        """A contract that is named where nothing is anchored would seem to be kept."""
        try:
            body = read_json(raw)
        except BadJsonError:
            body = None
        asked = dict(body) if isinstance(body, dict) else {}
        if path.strip("/") == "responses" and "input" in asked:
            asked["prompt" if isinstance(asked["input"], str) else "messages"] = asked["input"]
        match = self._service.matcher.match(request.headers, asked)
        if match is not None:
            raise ApiError(
                400,
                f"contract {match.contract.id!r} is anchored at /v1/chat/completions and /v1/completions, "
                f"not at /v1{path[:80]}",
                code="not_anchored_here",
            )

    async def _pass(self, request: Request, path: str, raw: bytes, *, streaming: bool) -> Response:
        call, headers = self._call(), self._headers(request)
        upstream, method = self._service.upstream, request.method
        async with AsyncExitStack() as place:
            await place.enter_async_context(self._service.gate.entered())
            if streaming:
                answer = await upstream.stream(method, path, headers, raw, call)
            else:
                answer = await upstream.forward(method, path, headers, raw, call)
            self._timed(request, "pass", call)
            if isinstance(answer, Answer):
                response = Response(answer.body, answer.status)
                response.raw_headers = [*_raw(answer.headers), (b"content-length", b"%d" % len(answer.body))]
                return response
            chunks = relay(answer.chunks, request.state.request_id)
            return Relayed(chunks, answer.status, answer.headers, place.pop_all())
        raise AssertionError("the block returns")

    async def health(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(_HEALTH_S):
                await self._service.ping()
        except Exception as error:  # whatever is wrong with the database, the answer is 503
            return json_response(503, {"status": "database unavailable", "error": type(error).__name__})
        return json_response(200, {"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        require_unrestricted(await self._service.guard.check(request.headers))
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Response(self._service.telemetry.exposition(), 200, {"content-type": kind})

    def _call(self) -> Call:
        return Call(time.monotonic() + self._config.limits.request_timeout_s)

    def _headers(self, request: Request, anchored: bool = False) -> dict[str, str]:
        """The client's headers for the upstream. Our own keys never leave this process."""
        dropped = _NOT_FORWARDED if self._service.guard.guarded else {"cookie"}
        headers = {name: value for name, value in request.headers.items() if name not in dropped}
        return {k: v for k, v in headers.items() if not (anchored and k.startswith("x-skyt-"))}

    def _timed(self, request: Request, kind: str, call: Call, **fields: Any) -> None:
        total = time.monotonic() - request.state.began
        self._service.telemetry.timed(kind, total, call.upstream_s)
        request.state.fields.update(
            upstream_ms=round(call.upstream_s * 1e3, 2), attempts=call.attempts, **fields
        )


class Relayed(StreamingResponse):
    """The upstream's stream; it keeps its place in the queue until its last byte is sent."""

    def __init__(
        self, chunks: Any, status: int, headers: list[tuple[str, str]], place: AsyncExitStack
    ) -> None:
        super().__init__(chunks, status)
        self.raw_headers, self._place = _raw(headers), place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._place:
            await super().__call__(scope, receive, send)


def _alias(name: str) -> dict[str, Any]:
    """A contract as the protocol describes a model."""
    return {"id": f"{ALIAS}{name}", "object": "model", "created": 0, "owned_by": "skyt"}


def _raw(headers: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers
    ]
