"""Running the application: uvicorn, with limits on headers, and a shutdown that answers and ends in time."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from homeostat.core.errors import UserError
from skyt.serve.config import Limits, ServeConfig
from skyt.serve.service import Service
from skyt.serve.telemetry import log, log_to_stderr
from skyt.serve.web.app import create_app


def serve(service: Service) -> None:
    """Serve until SIGTERM or SIGINT; accepted requests are answered first."""
    config = service.config
    log_to_stderr()
    listening = listen(config)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    server = make_server(service)

    def ready() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)  # uvicorn raises it again when all is done
        print(f"skyt serves http://{shown}:{port}/v1 from {service.upstream.name}", flush=True)

    server.ready = ready
    try:
        server.run(sockets=[listening])
    finally:
        listening.close()
    if not server.started:
        raise UserError("the service could not start: see the log above")


class Server(uvicorn.Server):
    """uvicorn's, with an end to the shutdown: requests first, but never longer than `limits.shutdown_s`."""

    service: Service
    loop: asyncio.AbstractEventLoop
    ready: Callable[[], None] = staticmethod(lambda: None)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        try:
            await self.service.start()
            self.ready()
            await super().serve(sockets)
        finally:
            await self.service.stop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:
            self.loop.call_soon_threadsafe(self.service.stopping)
            limit = self.service.config.limits.shutdown_s
            last = threading.Timer(limit - 0.25, _end_at_once)
            last.daemon = True
            last.start()
        super().handle_exit(sig, frame)


def _end_at_once() -> None:
    """Whatever still runs is let go. What was answered is on record; the judges die with this process."""
    log("stopped by force", logging.WARNING)
    os._exit(1)


def make_server(service: Service) -> Server:
    limits = service.config.limits
    server = Server(
        uvicorn.Config(
            create_app(service),
            http=bounded(limits),
            loop="uvloop" if _has_uvloop() else "asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            limit_concurrency=limits.max_connections,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=max(1, round(0.7 * limits.shutdown_s)),
            backlog=2048,
        )
    )
    server.service = service
    return server


def bounded(limits: Limits) -> type[asyncio.Protocol]:
    """uvicorn's protocol with what it lacks: a time and a size for the headers of a request."""

    class Bounded(HttpToolsProtocol):
        _patience: asyncio.TimerHandle | None = None
        _header_bytes = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            if self._patience is None and (self.cycle is None or self.cycle.response_complete):
                self._wait()
            super().data_received(data)

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            if self._header_bytes == len(url) and url[:1] not in (b"/", b"*"):
                self._refuse(b"400 Bad Request")  # a whole address: its host would not be the one we check
                raise ValueError("not a path")
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value))
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._header_bytes = 0
            self._stop_waiting()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _count(self, size: int) -> None:
            self._header_bytes += size
            if self._header_bytes > limits.max_header_bytes:
                self._refuse(b"431 Request Header Fields Too Large")
                raise ValueError("headers too large")  # ends the parse; uvicorn closes the connection

        def _wait(self) -> None:
            self._patience = self.loop.call_later(limits.header_timeout_s, self._too_slow)

        def _stop_waiting(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

        def _too_slow(self) -> None:
            self._patience = None
            self._refuse(b"408 Request Timeout")

        def _refuse(self, status: bytes) -> None:
            if not self.transport.is_closing():
                self.transport.write(
                    b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                )
                self.transport.close()

        def send_400_response(self, msg: str) -> None:
            if not self.transport.is_closing():
                super().send_400_response(msg)

    return Bounded


def listen(config: ServeConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((config.host, config.port))
        listening.listen(2048)  # from here on clients wait instead of being refused
    except OSError as error:
        listening.close()
        raise UserError(
            f"cannot listen on {config.host}:{config.port}: {error.strerror or error}; choose another --port"
        ) from None
    return listening


def _has_uvloop() -> bool:
    try:
        import uvloop  # noqa: F401
    except ImportError:
        return False
    return True
