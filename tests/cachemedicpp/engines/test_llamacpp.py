"""A slot of llama.cpp is restored only if it is what this server saved under this name."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cachemedicpp.engines.environment import post
from cachemedicpp.engines.llamacpp import CheckedCache, SlotProxy
from homeostat.core.errors import UserError


class Server(http.server.ThreadingHTTPServer):
    """What the proxy sees of a llama-server: it writes and reads slots without looking at them."""

    daemon_threads = True

    def __init__(self, folder: Path, model: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.folder, self.content, self.restored = folder, b"tokens and numbers", 0
        self.props: dict[str, Any] = {"model_path": str(model), "build_info": "b1"}
        self.adapters: list[dict[str, Any]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Answers(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._say(self.server.props if self.path == "/props" else self.server.adapters)

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("action=save"):
            (self.server.folder / given["filename"]).write_bytes(self.server.content)
        if self.path.endswith("action=restore"):
            self.server.restored += 1
        self._say({"path": self.path, "given": given, "key": self.headers.get("Authorization")})

    def _say(self, what: Any) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(what).encode())

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "slots").mkdir()
    (tmp_path / "model.gguf").write_bytes(b"weights")
    made = Server(tmp_path / "slots", tmp_path / "model.gguf")
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def slots(server: Server) -> Iterator[str]:
    proxy = SlotProxy(f"http://127.0.0.1:{server.server_address[1]}", server.folder, 0)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{proxy.server_address[1]}"
    proxy.shutdown()
    proxy.server_close()


def act(url: str, action: str, name: str = "a.bin") -> dict[str, Any]:
    return post(f"{url}/slots/0?action={action}", {"filename": name})


def test_a_slot_is_restored_as_it_was_saved_and_all_else_is_passed_on(server: Server, slots: str) -> None:
    assert act(slots, "save")["given"] == {"filename": "a.bin"}
    assert "status" not in act(slots, "restore") and server.restored == 1
    assert post(f"{slots}/completion", {"prompt": "a"})["path"] == "/completion"


def test_any_flipped_bit_is_refused_before_the_server_reads_it(server: Server, slots: str) -> None:
    act(slots, "save")
    for name in ("a.bin", "a.bin.seal"):
        good = (server.folder / name).read_bytes()
        for place in range(len(good)):
            harmed = bytearray(good)
            harmed[place] ^= 1 << place % 8
            (server.folder / name).write_bytes(harmed)
            assert act(slots, "restore")["status"] == 400
        (server.folder / name).write_bytes(good)
    assert server.restored == 0
    assert "status" not in act(slots, "restore")


@pytest.mark.parametrize("change", ["model", "build", "context", "adapter"])
def test_a_slot_of_another_model_build_context_or_adapter_is_refused(
    server: Server, slots: str, change: str
) -> None:
    act(slots, "save")
    if change == "model":
        Path(server.props["model_path"]).write_bytes(b"other weights")
    elif change == "build":
        server.props["build_info"] = "b2"
    elif change == "context":
        server.props["default_generation_settings"] = {"n_ctx": 512}
    else:
        server.adapters = [{"id": 0, "path": "poet.gguf", "scale": 0.5}]
    assert "another model" in act(slots, "restore")["error"]["message"]


def test_what_was_not_saved_here_or_not_to_its_end_is_refused(server: Server, slots: str) -> None:
    (server.folder / "b.bin").write_bytes(b"saved without the guard")
    act(slots, "save")
    act(slots, "save", "c.bin")
    server.content = b"a longer conversation"
    (server.folder / "c.bin").write_bytes(server.content)  # overwritten, and killed before its end
    (server.folder / "a.bin").replace(server.folder / "d.bin")
    (server.folder / "e.bin").write_bytes(b"")
    said = {name: act(slots, "restore", name)["error"]["message"] for name in ("b.bin", "c.bin", "a.bin")}
    assert "without a fingerprint" in said["b.bin"] and "not what was stored" in said["c.bin"]
    assert "cannot be read" in said["a.bin"]
    for name in ("d.bin", "e.bin", "../model.gguf", "", "a.bin.seal", "."):
        assert act(slots, "restore", name)["status"] == 400
    assert server.restored == 0


def test_wrong_addresses_and_folders_are_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        SlotProxy("http://127.0.0.1:1", tmp_path / "none", 0)
    with pytest.raises(UserError, match="must be like http"):
        SlotProxy("localhost", tmp_path, 0)


def state(tokens: list[int]) -> Any:
    """What llama-cpp-python keeps of a context."""
    return SimpleNamespace(
        input_ids=np.array([*tokens, 0, 0]),
        n_tokens=len(tokens),
        scores=np.ones((2, 3), np.single),
        llama_state=bytes(range(40)),
        llama_state_size=40,
    )


class Inner(dict[tuple[int, ...], Any]):
    cache_size = 40


def test_damaged_and_foreign_states_of_llama_cpp_python_are_misses(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    inner = Inner()
    cache = CheckedCache(inner, str(tmp_path / "one"))
    cache[1, 2, 3] = state([1, 2, 3])
    assert cache[1, 2, 3].n_tokens == 3 and (1, 2, 3) in cache and cache.cache_size == 40
    for other in (
        CheckedCache(inner, str(tmp_path / "two")),
        CheckedCache(inner, str(tmp_path / "one"), "q8"),
    ):
        with pytest.raises(KeyError, match="another model"):
            other[1, 2, 3]
    inner[1, 2] = state([1, 2])
    with pytest.raises(KeyError, match="without a fingerprint"):
        cache[1, 2]
    for field, value in (("llama_state", bytes(40)), ("input_ids", np.array([1, 2, 4])), ("n_tokens", 2)):
        cache[1, 2, 3] = state([1, 2, 3])
        setattr(inner[1, 2, 3], field, value)
        with pytest.raises(KeyError, match="not what was stored"):
            cache[1, 2, 3]
    assert cache.events.counts.refused == 4
