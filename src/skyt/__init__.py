"""Output: anchor a prompt to one canon, measure every generation's distance to it, and repair towards it.

Names are imported when they are first used, so that `import skyt` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyt.canon import CanonImmutabilityError
    from skyt.distance import Distance, Measured, register
    from skyt.middleware import Anchored, Wrapped, wrap
    from skyt.normalise import normalise
    from skyt.signature import signature

_WHERE = {
    "Anchored": "skyt.middleware",
    "CanonImmutabilityError": "skyt.canon",
    "Distance": "skyt.distance",
    "Measured": "skyt.distance",
    "Wrapped": "skyt.middleware",
    "normalise": "skyt.normalise",
    "register": "skyt.distance",
    "signature": "skyt.signature",
    "wrap": "skyt.middleware",
}

__all__ = [
    "Anchored",
    "CanonImmutabilityError",
    "Distance",
    "Measured",
    "Wrapped",
    "normalise",
    "register",
    "signature",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'skyt' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
