"""The guard: fingerprints of a KV cache as it is written, and exact recomputation of what changed.

Hands out `Guard`, `Damage`, `save_cache` and `load_cache`, imported when first used: engines take
`guard.fingerprint`, which needs nothing but torch. May use cache.
"""

from typing import TYPE_CHECKING

from homeostat.core.lazy import lazily

if TYPE_CHECKING:
    from cachemedicpp.guard.disk import load_cache, save_cache
    from cachemedicpp.guard.guard import Guard
    from cachemedicpp.guard.ledger import Damage

__all__ = ["Damage", "Guard", "load_cache", "save_cache"]

__getattr__ = lazily(
    __name__,
    {
        "Damage": "cachemedicpp.guard.ledger",
        "Guard": "cachemedicpp.guard.guard",
        "load_cache": "cachemedicpp.guard.disk",
        "save_cache": "cachemedicpp.guard.disk",
    },
)
