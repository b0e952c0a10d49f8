"""Drawn calls kept in the cache directory: drawing takes longer than judging a program on the result.

The key is everything that the calls depend on: the contract, the seed, their number, the version of
hypothesis, and Python's own, whose tables of Unicode regular expressions use.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from homeostat.core import atomic
from homeostat.core.models import cache_dir

if TYPE_CHECKING:
    from skyt.contracts.contract import Contract
    from skyt.contracts.domain import Call

DRAWING_VERSION = 3  # increase this when the strategies change
_MEMORY: dict[str, list[Call]] = {}
_MOST = 256


@cache
def drawn_with() -> str:
    """The versions that decide what is drawn, for the record: `hypothesis 6.170.15, strategies 1`."""
    return f"hypothesis {metadata.version('hypothesis')}, strategies {DRAWING_VERSION}"


def cached(contract: Contract, what: str, n: int, seed: int, draw: Callable[[], list[Call]]) -> list[Call]:
    """The calls in memory, else those on disk, else drawn now. Files that cannot be read or written are
    passed over: they only save time."""
    from skyt.contracts.domain import Call

    key = [contract.hash, what, n, seed, drawn_with(), sys.version_info[:2]]
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()
    if name in _MEMORY:
        return _MEMORY[name]
    path = cache_dir() / "inputs" / f"{name}.json"
    calls: list[Call] | None = None
    try:
        raw: Any = json.loads(path.read_text(encoding="utf-8"))
        calls = [Call.from_json(item) for item in raw["calls"]]
    except (OSError, ValueError, KeyError, TypeError):
        calls = draw()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_json(path, {"contract": contract.id, "calls": [call.to_json() for call in calls]})
        except OSError:
            pass
    if len(_MEMORY) >= _MOST:
        _MEMORY.clear()
    return _MEMORY.setdefault(name, calls)
