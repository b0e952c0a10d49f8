"""State: corrupt a transformer's KV cache on purpose, repair it inside attention, and report the drift.

from cachemedicpp import CorruptionFamily, Guard, KVState, heuristic, load_repair, medic

Rooms, in the order in which data passes through them: cache → corruption → guard → repair → auditing →
tasks → train → eval → stability → engines → plots → runs → sweep. A room uses only rooms before it.
"""

from typing import TYPE_CHECKING

from homeostat.core.lazy import lazily

if TYPE_CHECKING:
    from cachemedicpp.auditing import audit as audit
    from cachemedicpp.cache.rotary import Rotary as Rotary
    from cachemedicpp.cache.state import KVState as KVState
    from cachemedicpp.corruption import CorruptionFamily as CorruptionFamily
    from cachemedicpp.corruption import sequence_keys as sequence_keys
    from cachemedicpp.guard.guard import Guard as Guard
    from cachemedicpp.repair.attach import medic as medic
    from cachemedicpp.repair.base import Repair as Repair
    from cachemedicpp.repair.base import load_repair as load_repair
    from cachemedicpp.repair.gaussian.store import calibrate as calibrate
    from cachemedicpp.repair.heuristics import heuristic as heuristic
    from cachemedicpp.runs.results import CacheRun as CacheRun
    from cachemedicpp.runs.results import read_run as read_run
    from cachemedicpp.tasks.config import MedicConfig as MedicConfig

_WHERE = {
    "CacheRun": "cachemedicpp.runs.results",
    "CorruptionFamily": "cachemedicpp.corruption",
    "Guard": "cachemedicpp.guard.guard",
    "KVState": "cachemedicpp.cache.state",
    "MedicConfig": "cachemedicpp.tasks.config",
    "Repair": "cachemedicpp.repair.base",
    "Rotary": "cachemedicpp.cache.rotary",
    "audit": "cachemedicpp.auditing",
    "calibrate": "cachemedicpp.repair.gaussian.store",
    "heuristic": "cachemedicpp.repair.heuristics",
    "load_repair": "cachemedicpp.repair.base",
    "medic": "cachemedicpp.repair.attach",
    "read_run": "cachemedicpp.runs.results",
    "sequence_keys": "cachemedicpp.corruption",
}
__all__ = [*_WHERE]
__getattr__ = lazily(__name__, _WHERE)
