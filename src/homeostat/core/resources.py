"""Files that come with the program: configs, contracts, schemas, offline data.

In a checkout they stand at the top of the repository; in an installed wheel they are package data. A path
given by the user always wins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from homeostat.core.errors import UserError, nearest

_PACKAGED = Path(__file__).parents[1] / "_resources"
_CHECKOUT = Path(__file__).parents[3]


@cache
def resource_root() -> Path:
    """The folder that holds `configs/`, `contracts/`, `schemas/` and `data/offline/`."""
    for root in (_PACKAGED, _CHECKOUT):
        if (root / "schemas").is_dir():
            return root
    raise UserError(
        f"homeostat's own files are missing (looked in {_PACKAGED} and {_CHECKOUT}): reinstall it"
    )


def resource(relative: str) -> Path:
    """A file that comes with the program, e.g. `resource("schemas/config.schema.json")`."""
    path = resource_root() / relative
    if not path.exists():
        raise UserError(f"no such resource: {relative} (looked in {resource_root()})")
    return path


def shipped(kind: str) -> list[str]:
    """The names of the YAML files of a kind that come with the program: `configs`, `contracts`."""
    folder = resource_root() / kind
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def find(path: str | Path, kind: str = "", fits: Callable[[Path], bool] = lambda path: True) -> Path:
    """The user's file (or, without a `kind`, folder) if it exists, else the one that comes with the program.

    `configs/smoke.yaml` therefore works from any directory, and so does `smoke` or `smoke.yaml` with
    `kind="configs"`. Only names that `fits` are suggested for one that is not found.
    """
    given = Path(path)
    if given.exists():
        return given
    root = resource_root()
    candidates = [root / given]
    if kind:
        candidates += [root / kind / given, root / kind / f"{given}.yaml"]
    for candidate in candidates:
        if not given.is_absolute() and (candidate.is_file() or (not kind and candidate.is_dir())):
            return candidate
    names = [name for name in shipped(kind) if fits(root / kind / f"{name}.yaml")] if kind else []
    hint = f"; {nearest(str(given.with_suffix('')), names)}" if names else ""
    raise UserError(f"no such file: {path}{hint}")
