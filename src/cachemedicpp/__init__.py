"""State: corrupt a transformer's KV cache on purpose, repair it inside attention, and report the drift.

from cachemedicpp import CorruptionFamily, Guard, KVState, heuristic, load_repair, medic
"""

from importlib import import_module
from typing import Any

# Names are looked up when they are first used: importing this package must not import torch.
_PUBLIC = {
    "CorruptionFamily": "cachemedicpp.corruption",
    "Guard": "cachemedicpp.guard",
    "KVState": "cachemedicpp.state",
    "MedicConfig": "cachemedicpp.config",
    "Repair": "cachemedicpp.repair",
    "Rotary": "cachemedicpp.rotary",
    "heuristic": "cachemedicpp.heuristics",
    "load_repair": "cachemedicpp.repair",
    "medic": "cachemedicpp.attach",
    "sequence_keys": "cachemedicpp.corruption",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'cachemedicpp' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
