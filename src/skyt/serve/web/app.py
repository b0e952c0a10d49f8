"""The HTTP application: routes, and what every request goes through (host, key, limits, log line)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

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
from skyt.serve.web import pages
from skyt.serve.web.canon_pages import CanonPages
from skyt.serve.web.edge import Holding, Observed, answering, json_response, read_body

_HEALTH_S = 3.0  # a database that takes longer is unavailable
_NOT_FORWARDED = frozenset({"authorization", "cookie"})
Handler = Callable[[Request], Awaitable[Response]]


def create_app(service: Service) -> ASGIApp:
    endpoints, canons = Endpoints(service), CanonPages(service)

    def route(path: str, handler: Handler, *methods: str) -> Route:
        return Route(path, answering(service, handler), methods=list(methods) or ["GET"])

    passed_on = ("GET", "POST", "PUT", "PATCH", "DELETE")
    app = Starlette(
        routes=[
            route("/v1/chat/completions", endpoints.chat, "POST"),
            route("/v1/completions", endpoints.completions, "POST"),
            route("/v1/models", endpoints.models),
            route(f"/v1/models/{ALIAS}{{name:path}}", endpoints.model),
            route("/v1/{path:path}", endpoints.anything_else, *passed_on),
            route("/healthz", endpoints.health),
            route("/metrics", endpoints.metrics),
            *(route(path, handler) for path, handler in pages.routes(service).items()),
            *(route(path, handler) for path, handler in canons.routes().items()),
            *(route(path, handler, "POST") for path, handler in canons.actions().items()),
        ],
    )
    return Observed(app, service)


class Endpoints:
    """The protocol's endpoints."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._config = service.config

    async def chat(self, request: Request) -> Response:
        return await self._complete(request, "/chat/completions")

    async def completions(self, request: Request) -> Response:
        return await self._complete(request, "/completions")

    async def _complete(self, request: Request, path: str) -> Response:
        key = await self._service.guard.admit(request.headers)
        raw = await read_body(request, self._service, self._config.limits.max_body_bytes)
        body = _parsed(raw)
        if self._config.log_prompts:
            log("request body", request_id=request.state.request_id, body=body)
        match = self._service.matcher.match(request.headers, body)
        if match is None:
            require_unrestricted(key)
            return await self._pass(request, path, raw, streaming=body.get("stream") is True)
        require(key, match.contract.id)
        headers = self._headers(request, anchored=True)
        began = request.state.began
        default = self._service.upstream.default_model
        request_id = request.state.request_id
        asked = ask(self._config, default, match, path, body, headers, key, request_id, began)
        async with self._service.gate.entered():
            anchored = await self._service.anchor.answer(asked)
        status, answer, more = anchored["status"], anchored["body"], anchored["headers"]
        told = answer["skyt"]
        about = {
            name: told[name] for name in ("contract", "outcome", "normalization_version", "oracle_version")
        }
        self._timed(request, "anchored", asked.call, **about, **told["usage"])
        more["x-skyt-overhead-ms"] = f"{_overhead_ms(request, asked.call):.2f}"
        if self._config.log_prompts:
            log("answer", request_id=request.state.request_id, body=answer)
        if status == 200 and body.get("stream") is True:
            options = body.get("stream_options")
            usage = isinstance(options, dict) and options.get("include_usage") is True
            events = b"".join(answers.events(answer, asked.chat, usage))
            return Response(events, 200, {**more, "content-type": "text/event-stream; charset=utf-8"})
        return json_response(status, answer, more)

    async def models(self, request: Request) -> Response:
        """The upstream's models, and an alias for each contract the key is for."""
        key = await self._service.guard.admit(request.headers)
        call = self._call()
        found: list[dict[str, Any]] = []
        if key.unrestricted:
            async with self._service.gate.entered():
                found = await self._service.upstream.models(self._headers(request), call)
        aliases = [_alias(name) for name in sorted(self._service.matcher.contracts) if key.allows(name)]
        self._timed(request, "pass", call)
        return json_response(200, {"object": "list", "data": [*found, *aliases]})

    async def model(self, request: Request) -> Response:
        """One alias: ours to answer, since the upstream does not know it."""
        key = await self._service.guard.admit(request.headers)
        contract = self._service.matcher.named(request.path_params["name"], "model")
        require(key, contract.id)
        return json_response(200, _alias(contract.id))

    async def anything_else(self, request: Request) -> Response:
        """Any other part of the API goes to the upstream as it is."""
        require_unrestricted(await self._service.guard.admit(request.headers))
        path = request.scope["raw_path"].decode("ascii", "replace").removeprefix("/v1")
        lowered = path.lower().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/")
        # An escaped escape: nobody knows how often the upstream decodes.
        if (
            "%25" in lowered
            or not path.isascii()
            or ".." in lowered
            or "\\" in lowered
            or any(ord(c) < 33 for c in path)
        ):
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
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._service.gate.entered())
            if not streaming:
                answer = await upstream.forward(method, path, headers, raw, call)
                self._timed(request, "pass", call)
                return _as_it_is(answer)
            found = await upstream.stream(method, path, headers, raw, call)
            self._timed(request, "pass", call)
            if isinstance(found, Answer):
                return _as_it_is(found)
            response = StreamingResponse(relay(found.chunks, request.state.request_id), found.status)
            response.raw_headers = _raw(found.headers)
            return Holding(response, held.pop_all())
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
        kept = {name: value for name, value in request.headers.items() if name not in dropped}
        if anchored:
            kept = {k: v for k, v in kept.items() if not k.startswith("x-skyt-")}
        return kept

    def _timed(self, request: Request, kind: str, call: Call, **fields: Any) -> None:
        total = time.monotonic() - request.state.began
        self._service.telemetry.timed(kind, total, call.upstream_s)
        request.state.fields.update(
            upstream_ms=round(call.upstream_s * 1e3, 2), attempts=call.attempts, **fields
        )


def _alias(name: str) -> dict[str, Any]:
    """A contract as the protocol describes a model."""
    return {"id": f"{ALIAS}{name}", "object": "model", "created": 0, "owned_by": "skyt"}


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        body = read_json(raw)
    except BadJsonError as error:
        raise ApiError(400, f"the body is not JSON: {error}", code="invalid_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, "the body must be a JSON object", code="invalid_json")
    return body


def _as_it_is(answer: Answer) -> Response:
    response = Response(answer.body, answer.status)
    response.raw_headers = [*_raw(answer.headers), (b"content-length", str(len(answer.body)).encode())]
    return response


def _raw(headers: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers
    ]


def _overhead_ms(request: Request, call: Call) -> float:
    return float(time.monotonic() - request.state.began - call.upstream_s) * 1e3
