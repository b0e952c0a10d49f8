"""The viewer's HTTP server: this machine only, reading only, and only below the runs folder."""

from __future__ import annotations

import errno
import http.client
import json
import sys
import webbrowser
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from homeostat import __version__
from homeostat.core.errors import UserError
from homeostat.report.build import build
from homeostat.report.page import asset, content_policy, render, script
from homeostat.report.sections.samples import sample_data
from homeostat.viewer.compare import compare
from homeostat.viewer.files import read_inside
from homeostat.viewer.runs import Runs, fingerprint

HOST = "127.0.0.1"
_MOST_COMPARED = 8
_HTML = "text/html; charset=utf-8"
_JSON = "application/json"


class Viewer(ThreadingHTTPServer):
    """Serves the runs below `root` on localhost. Port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, root: Path, port: int = 0) -> None:
        self.runs = Runs(root)
        try:
            super().__init__((HOST, port), _Handler)
        except OverflowError:
            raise UserError(f"--port {port}: a port lies between 0 and 65535") from None
        except OSError as error:
            raise _cannot_listen(port, error) from error
        self.names = {f"{name}:{self.port}" for name in ("localhost", HOST, "[::1]")}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader who leaves in the middle of an answer is no error; everything else is."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"


class _Handler(BaseHTTPRequestHandler):
    server: Viewer
    server_version = f"homeostat/{__version__}"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        # A page elsewhere can point its name at this machine (DNS rebinding); its requests carry that name.
        if self.headers.get("Host", "") not in self.server.names:
            self._send(HTTPStatus.FORBIDDEN, b"this server answers to localhost only", "text/plain")
            return
        address = urlsplit(self.path)
        try:
            if address.path.startswith("/files/"):
                body, kind = read_inside(self.server.runs.root, address.path.removeprefix("/files/"))
                self._send(HTTPStatus.OK, body, kind)
                return
            answer = self._ROUTES.get(address.path)
            if answer is None:
                raise LookupError(address.path)
            answer(self, parse_qs(address.query, keep_blank_values=True))
        except (LookupError, UnicodeDecodeError, UserError):
            self._send(HTTPStatus.NOT_FOUND, b"not found", "text/plain")

    do_HEAD = do_GET  # noqa: N815

    def _page(self, query: dict[str, list[str]]) -> None:
        style = asset("report.css") + asset("viewer.css", "homeostat.viewer")
        code = script(boot="viewer.js", package="homeostat.viewer")
        page = render(
            "homeostat runs", {"root": self.server.runs.root.name}, {}, style=style, code=code, connect=True
        )
        self._send(HTTPStatus.OK, page.encode("utf-8"), _HTML, content_policy(style, code, connect=True))

    def _runs(self, query: dict[str, list[str]]) -> None:
        self._json({"root": str(self.server.runs.root), "runs": self.server.runs.summaries()})

    def _run(self, query: dict[str, list[str]]) -> None:
        """The data of one run's page; only its version where the reader already has that."""
        path = self._one(query)
        version = fingerprint(path)
        if query.get("have") == [version]:
            self._json({"version": version})
            return
        report = build(path, samples=False, inside=self.server.runs.root)
        self._json({"version": version, "path": self.server.runs.name(path), "data": report.data})

    def _samples(self, query: dict[str, list[str]]) -> None:
        self._json(sample_data(self.server.runs.files(self._one(query))))

    def _report(self, query: dict[str, list[str]]) -> None:
        report = build(self._one(query), inside=self.server.runs.root)
        page = render(report.title, report.data, report.parts)
        policy = content_policy(asset("report.css"), script())
        self._send(HTTPStatus.OK, page.encode("utf-8"), _HTML, policy)

    def _compare(self, query: dict[str, list[str]]) -> None:
        runs = self.server.runs
        paths = [runs.locate(name) for name in query.get("path", [])[:_MOST_COMPARED]]
        if not paths:
            raise LookupError("no runs named")
        reports = [build(path, samples=False, inside=runs.root) for path in paths]
        names = [runs.name(path) for path in paths]
        self._json({"data": compare(names, [runs.files(path) for path in paths], reports)})

    def _one(self, query: dict[str, list[str]]) -> Path:
        return self.server.runs.locate(query.get("path", [""])[0])

    def _about(self, query: dict[str, list[str]]) -> None:
        self._json({"homeostat": __version__, "root": str(self.server.runs.root)})

    _ROUTES: ClassVar[dict[str, Callable[[_Handler, dict[str, list[str]]], None]]] = {
        "/": _page,
        "/report": _report,
        "/api/about": _about,
        "/api/runs": _runs,
        "/api/run": _run,
        "/api/samples": _samples,
        "/api/compare": _compare,
    }

    def _json(self, value: Any) -> None:
        body = json.dumps(value, ensure_ascii=True, allow_nan=False).encode("ascii")
        self._send(HTTPStatus.OK, body, _JSON)

    def _send(self, status: HTTPStatus, body: bytes, kind: str, policy: str = "default-src 'none'") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", f"{policy}; frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quiet: the terminal shows the address and nothing else."""


def serve(runs_dir: str | Path, *, port: int, open_browser: bool = False) -> None:
    """Serve until interrupted."""
    with Viewer(Path(runs_dir), port) as viewer:
        print(f"runs in {viewer.runs.root} at {viewer.url} (this machine only; Ctrl-C ends)", flush=True)
        if open_browser:
            webbrowser.open(viewer.url)
        try:
            viewer.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            print("ended")


def _cannot_listen(port: int, error: OSError) -> UserError:
    if error.errno != errno.EADDRINUSE:
        return UserError(f"cannot listen on port {port}: {error.strerror or error}")
    other = _who_is_there(port)
    advice = "choose another --port, or --port 0 for a free one"
    if other is None:
        return UserError(f"port {port} is taken by another program: {advice}")
    return UserError(
        f"homeostat view already serves {other} at http://{HOST}:{port}/: open that, or {advice}"
    )


def _who_is_there(port: int) -> str | None:
    """The folder another viewer on this port serves, or None where it is no viewer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", "/api/about")
        answer = json.loads(connection.getresponse().read(10_000))
        return str(answer["root"]) if "homeostat" in answer else None
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        return None
    finally:
        connection.close()
