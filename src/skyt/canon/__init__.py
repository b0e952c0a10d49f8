"""The canon of a prompt: fixed once, never changed, valid for its contract and its versions.

Hands out the canon's record, the folder store, and the history of what people did with canons. May use text,
contracts and everything before it; whether a canon is compliant is decided in `skyt.runs.canons`.
"""

from skyt.canon.history import Event
from skyt.canon.record import (
    Canon,
    CanonImmutabilityError,
    CanonRefusedError,
    CanonVersionError,
    Versions,
    check_integrity,
    contract_differences,
    shortened,
)
from skyt.canon.store import CanonStore, Shelf, read_canon

__all__ = [
    "Canon",
    "CanonImmutabilityError",
    "CanonRefusedError",
    "CanonStore",
    "CanonVersionError",
    "Event",
    "Shelf",
    "Versions",
    "check_integrity",
    "contract_differences",
    "read_canon",
    "shortened",
]
