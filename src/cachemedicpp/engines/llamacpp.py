"""llama.cpp restores whatever a slot file holds: its headers are checked, its keys and values are not.

`SlotProxy` stands in front of llama-server. When a slot is saved, it writes a fingerprint beside the file,
bound to the file's name, the model's weights, the server's build, context and adapters; the file begins with
its tokens, so they are bound too. A slot that does not fit is refused before the server reads it, and the
next prompt is evaluated anew.

`CheckedCache` does the same for llama-cpp-python: `llama.set_cache(CheckedCache(LlamaRAMCache(), model))`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cachemedicpp.engines.events import Events
from cachemedicpp.engines.frame import Bytes, DamagedError, check, seal
from cachemedicpp.engines.keys import model_identity
from homeostat.core.errors import UserError

SUFFIX = ".seal"
_PROPS = ("build_info", "total_slots", "model_ftype")  # of the server's /props, beside model and context
_HOP = {"connection", "transfer-encoding", "keep-alive", "host", "content-length", "te", "upgrade"}


class SlotFolder:
    """Slot files with a fingerprint beside each."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder; give what llama-server has as --slot-save-path")
        self.folder = folder

    def begin(self, name: str) -> None:
        """A slot is about to be written: its old fingerprint no longer counts."""
        self._seal(name).unlink(missing_ok=True)

    def saved(self, name: str, facts: Mapping[str, Any]) -> None:
        with _content(self.folder / name) as content:
            header = seal(name, facts, content)
        aside = self._seal(name).with_suffix(f".{os.getpid()}.tmp")
        aside.write_bytes(header)
        aside.replace(self._seal(name))

    def check(self, name: str, facts: Mapping[str, Any] | None) -> None:
        """Raise `DamagedError` unless the file is what was saved under this name and these facts."""
        try:
            header = self._seal(name).read_bytes()
        except FileNotFoundError:
            raise DamagedError("it was saved without a fingerprint, or not to its end") from None
        with _content(self.folder / name) as content:
            check(name, facts, header, content)

    def _seal(self, name: str) -> Path:
        if Path(name).name != name or name.endswith(SUFFIX):
            raise DamagedError("a slot is a file in the folder, and not a fingerprint")
        return self.folder / f"{name}{SUFFIX}"


@contextlib.contextmanager
def _content(path: Path) -> Iterator[Bytes]:
    try:
        with path.open("rb") as file:
            if not path.stat().st_size:
                raise DamagedError("it is empty")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                yield mapped
    except OSError as error:
        raise DamagedError(f"it cannot be read: {error.strerror}") from None


class SlotProxy(ThreadingHTTPServer):
    """Passes everything on to a llama-server, and checks slots on their way. Listens on localhost only."""

    daemon_threads = True

    def __init__(self, server: str, folder: Path, port: int, context: str = "", model_id: str = "") -> None:
        address = urlsplit(server)
        if address.scheme != "http" or not address.hostname:
            raise UserError(f"server {server!r}: must be like http://127.0.0.1:8080")
        self.upstream = (address.hostname, address.port or 80)
        self.slots = SlotFolder(folder)
        self.events = Events()
        self.busy = threading.Lock()  # one slot is saved or restored at a time
        self._given = {"context": context, "model": model_id}
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise UserError(f"port {port}: {error.strerror}; choose another with --port") from None

    def facts(self) -> dict[str, Any]:
        """What slots of this server are, beside their tokens; asked each time, because adapters change."""
        props = self.ask("/props")
        about = {name: props.get(name) for name in _PROPS}
        size = props.get("default_generation_settings", {}).get("n_ctx")
        adapters = [{**one, "path": one.get("path")} for one in self.ask("/lora-adapters")]
        model = _identity(str(props.get("model_path", "")), self._given["model"])
        return {**about, "n_ctx": size, "lora": adapters, "context": self._given["context"], "model": model}

    def ask(self, path: str) -> Any:
        connection = http.client.HTTPConnection(*self.upstream, timeout=60)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


def _identity(model: str, given: str) -> str:
    state = Path(model).stat() if not given and Path(model).is_file() else None
    return _hashed(model, given, state and (state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=8)
def _hashed(model: str, given: str, _state: Any) -> str:
    return model_identity(model, given)


class _Handler(BaseHTTPRequestHandler):
    server: SlotProxy

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        action = parse_qs(url.query).get("action", [""])[0] if url.path.startswith("/slots/") else ""
        try:
            if action in ("save", "restore"):
                with self.server.busy:
                    self._slot(action, body)
            else:
                self._forward(body)
        except (OSError, http.client.HTTPException) as error:
            self._refuse(502, f"llama-server does not answer: {error}")

    def _slot(self, action: str, body: bytes) -> None:
        slots, name = self.server.slots, ""
        try:
            given = json.loads(body or b"{}")
            name = str(given.get("filename", "")) if isinstance(given, dict) else ""
            facts = self.server.facts()
            if action == "restore":
                slots.check(name, facts)
                self._forward(body)
            else:
                slots.begin(name)
                self._forward(body, lambda: slots.saved(name, facts))
        except (DamagedError, UserError, ValueError) as error:
            self.server.events.counts.refused += 1
            self.server.events.say("refused", slot=name, why=str(error))
            self._refuse(400, f"slot {name!r} refused: {error}")

    def _forward(self, body: bytes, done: Callable[[], None] | None = None) -> None:
        """The server's answer, passed on as it comes; `done` is called before a good one."""
        connection = http.client.HTTPConnection(*self.server.upstream)
        try:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP}
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            if done is not None and answer.status == 200:
                done()
            self.send_response(answer.status)
            for key, value in answer.getheaders():
                if key.lower() not in _HOP:
                    self.send_header(key, value)
            self.end_headers()  # HTTP/1.0: the end of the connection is the end of the answer
            while piece := answer.read1(65536):
                self.wfile.write(piece)
                self.wfile.flush()
        finally:
            connection.close()

    def _refuse(self, status: int, why: str) -> None:
        body = json.dumps({"error": {"code": status, "message": why, "type": "invalid_request_error"}})
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        return


for _method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"):
    setattr(_Handler, f"do_{_method}", _Handler._any)


class CheckedCache:
    """A cache of llama-cpp-python whose damaged or foreign states are misses; `inner` is any of its own."""

    def __init__(self, inner: Any, model: str, context: str = "", events: Events | None = None) -> None:
        self.inner = inner
        self.events = events or Events()
        self._facts = {"model": model_identity(model), "context": context}

    @property
    def cache_size(self) -> int:
        return int(self.inner.cache_size)

    def __contains__(self, key: Sequence[int]) -> bool:
        return key in self.inner

    def __setitem__(self, key: Sequence[int], state: Any) -> None:
        state.seal = seal(_tokens(state), self._facts, _numbers(state))
        self.inner[key] = state

    def __getitem__(self, key: Sequence[int]) -> Any:
        """A `KeyError` is a miss: llama-cpp-python then evaluates the prompt."""
        state = self.inner[key]
        try:
            check(_tokens(state), self._facts, getattr(state, "seal", b""), _numbers(state))
        except DamagedError as error:
            self.events.counts.refused += 1
            self.events.say("refused", tokens=int(state.n_tokens), why=str(error))
            raise KeyError(f"the stored state was refused: {error}") from None
        return state


def _tokens(state: Any) -> str:
    return ",".join(str(int(token)) for token in state.input_ids[: state.n_tokens])


def _numbers(state: Any) -> bytes:
    return b"".join((bytes(state.llama_state[: state.llama_state_size]), state.scores.tobytes()))
