"""The guard: fingerprints of a KV cache as it is written, and exact recomputation of what changed."""

from cachemedicpp.guard.disk import load_cache, save_cache
from cachemedicpp.guard.guard import Guard
from cachemedicpp.guard.ledger import Damage

__all__ = ["Damage", "Guard", "load_cache", "save_cache"]
