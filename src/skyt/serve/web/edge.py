"""What every request goes through on its way in and out: host, sender, request id, log line, errors."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skyt.serve.auth import host_of
from skyt.serve.protocol.codec import write_json
from skyt.serve.protocol.errors import ApiError
from skyt.serve.service import Service
from skyt.serve.telemetry import log
from skyt.serve.tracing import named, span

Handler = Callable[[Request], Awaitable[Response]]


class Holding(Response):
    """A response that keeps its place in the queue until its last byte is sent."""

    def __init__(self, response: Response, held: AsyncExitStack) -> None:
        self._response, self._held = response, held
        self.status_code, self.background = response.status_code, None
        self.raw_headers = response.raw_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held:
            self._response.raw_headers = self.raw_headers
            await self._response(scope, receive, send)


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
    given = request.headers.getlist("content-type")
    kinds = {kind.partition(";")[0].strip().lower() for kind in given}
    empty = request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers
    if len(given) > 1 or not kinds <= accepted or not (kinds or empty):
        raise ApiError(415, "send `Content-Type: application/json`", code="unsupported_media_type")


async def read_body(request: Request, service: Service, most: int) -> bytes:
    """The body, of at most so many bytes and within `limits.body_timeout_s`."""
    too_large = ApiError(
        413, f"the body is over {most} bytes", code="body_too_large", headers={"connection": "close"}
    )
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
        raise ApiError(
            408, "the body did not arrive in time", code="slow_body", headers={"connection": "close"}
        ) from None
    return bytes(body)


class Observed:
    """Outermost: the Host header, a request id, security headers, one log line, counters."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0
        request_id = f"req_{secrets.token_hex(12)}"
        fields: dict[str, Any] = {}
        scope.setdefault("state", {}).update(request_id=request_id, began=began, fields=fields)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        timed = span(scope["method"], "SERVER", headers)
        try:
            with timed as current:
                try:
                    await self._check_host(scope, receive, sending)
                finally:
                    route = getattr(scope.get("route"), "path", "none")
                    attributes = {
                        "http.request.method": scope["method"],
                        "http.route": route,
                        "http.response.status_code": status,
                        "skyt.request_id": request_id,
                    }
                    current.note({**attributes, **named(fields)}, f"{scope['method']} {route}")
        finally:
            self._service.telemetry.requests.labels(route, str(status)).inc()
            log(
                "request",
                request_id=request_id,
                method=scope["method"],
                route=route,
                status=status,
                ms=round((time.monotonic() - began) * 1e3, 2),
                **fields,
            )

    async def _check_host(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        host = host_of(given[0]) if len(given) == 1 else None
        if host is not None and self._service.knows_host(host):
            await self._app(scope, receive, send)
            return
        error = ApiError(421, "this Host is not served here; see `allowed_hosts`", code="wrong_host")
        if host is None:
            error = ApiError(400, "exactly one Host header is needed, a name and a port", code="bad_host")
        await json_response(error.status, error.body)(scope, receive, send)


def answering(service: Service, handler: Handler) -> Handler:
    """Errors we know as the protocol's error bodies; a bug as a 500 with its traceback in the log only."""

    async def answer(request: Request) -> Response:
        try:
            check_sender(request, service)
            return await handler(request)
        except ApiError as error:
            return _refused(error)
        except ClientDisconnect:
            return Response(status_code=499)
        except asyncio.CancelledError:
            if not service.is_stopping:
                raise
            stopping = "the service is stopping, and this request took too long to be answered before"
            return _refused(ApiError(503, stopping, type="server_error", code="stopping"))
        except RecursionError:
            return _refused(ApiError(400, "the request body is nested too deeply", code="invalid_json"))
        except Exception:
            log("bug", logging.ERROR, request_id=request.state.request_id)
            logging.getLogger("skyt.serve").exception("unexpected error")
            return _refused(ApiError(500, "an error in the service; its log says more", type="server_error"))

    return answer


def _refused(error: ApiError) -> Response:
    return json_response(error.status, error.body, error.headers)


def json_response(status: int, body: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(write_json(body), status, {"content-type": "application/json", **(headers or {})})
