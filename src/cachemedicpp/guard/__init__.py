"""The guard: fingerprints of a KV cache as it is written, and exact recomputation of what changed.

Hands out `Guard`, `Damage`, `save_cache` and `load_cache`, imported when first used: engines take
`guard.fingerprint`, which needs nothing but torch. May use cache.
"""

from typing import TYPE_CHECKING

from homeostat.core.lazy import lazily

if TYPE_CHECKING:
    from cachemedicpp.guard.disk import load_cache as load_cache
    from cachemedicpp.guard.disk import save_cache as save_cache
    from cachemedicpp.guard.guard import Guard as Guard
    from cachemedicpp.guard.ledger import Damage as Damage

_WHERE = {
    "Damage": "cachemedicpp.guard.ledger",
    "Guard": "cachemedicpp.guard.guard",
    "load_cache": "cachemedicpp.guard.disk",
    "save_cache": "cachemedicpp.guard.disk",
}
__all__ = [*_WHERE]
__getattr__ = lazily(__name__, _WHERE)
