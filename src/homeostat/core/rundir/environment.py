"""What a run ran on: versions, devices, the state of the source tree. Nothing here imports torch."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from homeostat import __version__


def package_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str | int | None]:
    """The `env` part of a run record. CUDA facts are filled in only if torch is already loaded."""
    return {
        "homeostat": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": package_version("torch"),
        "transformers": package_version("transformers"),
        **cuda(),
    }


def cuda() -> dict[str, str | None]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return {"cuda": None, "gpu_name": None}
    return {"cuda": torch.version.cuda, "gpu_name": torch.cuda.get_device_name()}


def git_state() -> dict[str, str | bool | None]:
    """Commit and cleanliness of the source tree this program runs from; null when it is not a checkout."""
    root = Path(__file__).parents[4]
    if not (root / ".git").exists():
        return {"commit": None, "dirty": None}
    commit = _git(root, "rev-parse", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit or None, "dirty": None if status is None else bool(status)}


def _git(root: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
