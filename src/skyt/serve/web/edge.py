"""What every request goes through on its way in and out: host, sender, body; request id, log line, errors."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skyt.serve.auth import host_of
from skyt.serve.database.keys import Key
from skyt.serve.protocol.codec import BadJsonError, read_json, write_json
from skyt.serve.protocol.errors import ApiError
from skyt.serve.service import Service
from skyt.serve.telemetry import log
from skyt.serve.tracing import named, span


class Edge:
    """Outermost: the Host header, a request id, security headers, errors, one log line, counters, a span."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.monotonic(), 0
        request, request_id = Request(scope), f"req_{secrets.token_hex(12)}"
        fields: dict[str, Any] = {}
        scope.setdefault("state", {}).update(request_id=request_id, began=began, fields=fields)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                more = [(b"x-request-id", request_id.encode()), (b"x-content-type-options", b"nosniff")]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        with span(request.method, "SERVER", request.headers) as current:
            try:
                self._check_host(request)
                await self._app(scope, receive, sending)
            except BaseException as error:
                refusal = self._refusal(error, request_id)
                if refusal is None or status:  # an answer that has begun cannot become another
                    raise
                await refusal(scope, receive, sending)
            finally:
                route = getattr(scope.get("route"), "path", "none")
                told = {
                    "http.request.method": request.method,
                    "http.route": route,
                    "http.response.status_code": status,
                    "skyt.request_id": request_id,
                }
                current.note({**told, **named(fields)}, f"{request.method} {route}")
                self._service.telemetry.requests.labels(route, str(status)).inc()
                log(
                    "request",
                    request_id=request_id,
                    method=request.method,
                    route=route,
                    status=status,
                    ms=round((time.monotonic() - began) * 1e3, 2),
                    **fields,
                )

    def _check_host(self, request: Request) -> None:
        hosts = request.headers.getlist("host")
        host = host_of(hosts[0]) if len(hosts) == 1 else None
        if host is None:
            raise ApiError(400, "exactly one Host header is needed, a name and a port", code="bad_host")
        if not self._service.knows_host(host):
            raise ApiError(421, "this Host is not served here; see `allowed_hosts`", code="wrong_host")

    def _refusal(self, error: BaseException, request_id: str) -> Response | None:
        """Known errors as the protocol's error bodies; a bug as a 500 with its traceback in the log only."""
        match error:
            case ApiError():
                refusal = error
            case ClientDisconnect():
                return Response(status_code=499)
            case asyncio.CancelledError() if self._service.is_stopping:
                stopping = "the service is stopping, and this request took too long to be answered before"
                refusal = ApiError(503, stopping, type="server_error", code="stopping")
            case RecursionError():
                refusal = ApiError(400, "the request body is nested too deeply", code="invalid_json")
            case Exception():
                log("bug", logging.ERROR, request_id=request_id)
                logging.getLogger("skyt.serve").error("unexpected error", exc_info=error)
                refusal = ApiError(500, "an error in the service; its log says more", type="server_error")
            case _:
                return None
        return json_response(refusal.status, refusal.body, refusal.headers)


async def admit(request: Request, service: Service) -> Key:
    """The key of a request that may act, if it may ask once more in this minute."""
    check_sender(request, service)
    return await service.guard.admit(request.headers)


def check_sender(request: Request, service: Service) -> None:
    """Refuse what a page of another site can make a browser send to a route that changes anything.

    A browser names the page's origin, and asks first before it sends JSON or an API key elsewhere. A form
    or a text needs no such question: only JSON is accepted, and files only with an `Authorization` header.
    """
    if request.method in ("GET", "HEAD"):
        return
    origins = request.headers.getlist("origin")
    own = {f"{scheme}://{request.headers['host'].lower()}" for scheme in ("http", "https")}
    for origin in origins:
        if origin.lower() not in own and origin not in service.config.allowed_origins:
            message = f"requests from pages of {origin[:200]!r} are refused; see `allowed_origins`"
            raise ApiError(403, message, type="permission_error", code="foreign_origin")
    accepted = {"application/json"}
    if "authorization" in request.headers:
        accepted.add("multipart/form-data")
    types = request.headers.getlist("content-type")
    kinds = {kind.partition(";")[0].strip().lower() for kind in types}
    empty = request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers
    if len(types) > 1 or not kinds <= accepted or not (kinds or empty):
        raise ApiError(415, "send `Content-Type: application/json`", code="unsupported_media_type")


async def read_body(request: Request, service: Service, most: int) -> bytes:
    """The body, of at most so many bytes and within `limits.body_timeout_s`."""
    close = {"connection": "close"}
    too_large = ApiError(413, f"the body is over {most} bytes", code="body_too_large", headers=close)
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(service.config.limits.body_timeout_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise ApiError(408, "the body did not arrive in time", code="slow_body", headers=close) from None
    return bytes(body)


def parsed(raw: bytes) -> dict[str, Any]:
    """The JSON object of a body."""
    try:
        body = read_json(raw)
    except BadJsonError as error:
        raise ApiError(400, f"the body is not JSON: {error}", code="invalid_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, "the body must be a JSON object", code="invalid_json")
    return body


def json_response(status: int, body: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(write_json(body), status, {"content-type": "application/json", **(headers or {})})
