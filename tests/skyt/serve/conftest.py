"""A service on a real port, in front of an upstream that does as it is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the `serve` extra is not installed")
pytest.importorskip("starlette", reason="the `serve` extra is not installed")

from tests.support.scripted import ScriptedUpstream

from skyt.contracts.contract import Contract, load_contracts
from skyt.serve.config import ServeConfig
from skyt.serve.service import Service
from skyt.serve.web.server import listen, make_server


@pytest.fixture(scope="session")
def contracts() -> dict[str, Contract]:
    every = load_contracts()
    return {name: every[name] for name in ("gcd", "is_prime")}


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream() as scripted:
        yield scripted


@contextmanager
def running(service: Service) -> Iterator[str]:
    """Serve in a thread; yields the base URL and shuts down in order."""
    listening = listen(service.config)
    server = make_server(service)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
        assert not thread.is_alive()


def settings(scripted: ScriptedUpstream, folder: Path, **more: Any) -> ServeConfig:
    base = {
        "port": 0,
        "database": str(folder / "skyt.sqlite"),
        "judges": 1,
        "snapshot_s": 0.2,
        "canons_from": "anyone",
        "upstream": {
            "kind": "http",
            "base_url": scripted.base_url,
            "model": "scripted",
            "backoff_s": 0.01,
            "retries": 2,
            "attempt_timeout_s": 0.5,
        },
    }
    return ServeConfig.model_validate({**base, **more})


@pytest.fixture(scope="module")
def start(
    upstream: ScriptedUpstream, contracts: dict[str, Contract], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Any]:
    """`with start(policy={...}) as (url, service):` a service of its own."""

    @contextmanager
    def begin(**more: Any) -> Iterator[tuple[str, Service]]:
        folder = tmp_path_factory.mktemp("serve")
        service = Service(settings(upstream, folder, **more), contracts)
        with running(service) as url:
            yield url, service

    return begin
