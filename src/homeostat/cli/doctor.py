"""`homeostat doctor`: does this machine have what the program needs, and what else could it use?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from homeostat import __version__
from homeostat.core import models, threads
from homeostat.core.errors import UserError
from homeostat.core.rundir import environment

State = Literal["ok", "absent", "broken"]


@dataclass(frozen=True)
class Check:
    """One line of the table. `broken` means something needed does not work; `absent` is optional."""

    name: str
    state: State
    detail: str


def examine() -> list[Check]:
    """Every check, in the order people read them. A check that crashes is itself a finding."""
    probes: dict[str, Callable[[], Iterator[Check]]] = {
        "packages": _packages,
        "device": _device,
        "default model": _default_model,
        "disk": _disk,
        "sandbox": _sandbox,
        "ray": _ray,
        "engine": _engine,
        "network": _network,
    }
    checks: list[Check] = []
    for name, probe in probes.items():
        try:
            checks.extend(probe())
        except Exception as error:
            checks.append(Check(name, "broken", f"{type(error).__name__}: {error}"))
    return checks


def _packages() -> Iterator[Check]:
    yield Check("homeostat", "ok", __version__)
    yield Check("python", "ok", str(environment.versions()["python"]))
    for package in ("torch", "transformers"):
        version = environment.package_version(package)
        state: State = "ok" if version else "broken"
        yield Check(package, state, version or f"not installed: pip install {package}")


def _device() -> Iterator[Check]:
    import torch

    other = "" if threads.VARIABLE in os.environ else "not "
    cores = f"this process may use {threads.cores()} of {os.cpu_count()} cores"
    yield Check("threads", "ok", f"{torch.get_num_threads()}: {cores}, {threads.VARIABLE} is {other}set")
    if torch.cuda.is_available():
        yield Check("device", "ok", f"cuda: {torch.cuda.get_device_name()}")
    else:
        yield Check("device", "ok", "cpu (no CUDA device)")


def _default_model() -> Iterator[Check]:
    default = models.known(models.DEFAULT_MODEL)
    where = models.ready(default)
    fetch = f"not here: homeostat models fetch {default.name} ({default.download / 1e6:.0f} MB)"
    yield Check("default model", "ok" if where else "broken", f"{default.name}, {where}" if where else fetch)


def _disk() -> Iterator[Check]:
    folder = models.cache_dir()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free / 2**30
    writable = os.access(existing, os.W_OK)
    state: State = "ok" if writable and free > 1 else "broken"
    problem = "" if writable else ", not writable: set HOMEOSTAT_CACHE"
    yield Check("cache directory", state, f"{folder}, {free:.0f} GiB free{problem}")


def _sandbox() -> Iterator[Check]:
    from skyt.sandbox import capability

    found = capability()
    if found.contained:
        yield Check("sandbox", "ok", f"{found.method}: model output runs contained")
    else:
        missing = ", ".join(found.missing)
        yield Check("sandbox", "broken", f"cannot contain model output here (missing: {missing})")


def _ray() -> Iterator[Check]:
    version = environment.package_version("ray")
    hint = "not installed; optional: pip install 'homeostat-llm[ray]'"
    yield Check("ray", "ok" if version else "absent", version or hint)


def _engine() -> Iterator[Check]:
    from cachemedicpp.engines.environment import engine_python, versions

    try:
        python = engine_python()
    except UserError as error:
        yield Check("serving engine", "absent", f"optional: {error}")
        return
    found = versions(python)
    missing = [name for name in ("vllm", "homeostat") if not found[name]]
    if missing:
        yield Check(
            "serving engine", "absent", f"{python} has no {' and no '.join(missing)}: make setup-engines"
        )
    else:
        also = f", LMCache {found['lmcache']}" if found["lmcache"] else ""
        yield Check("serving engine", "ok", f"vLLM {found['vllm']}{also}, at {python}")


def _network() -> Iterator[Check]:
    if models.offline():
        yield Check("model hub", "absent", "HF_HUB_OFFLINE is set: local models only")
    elif models.hub_reachable():
        yield Check("model hub", "ok", "reachable")
    else:
        yield Check("model hub", "absent", "not reachable: local models only")
