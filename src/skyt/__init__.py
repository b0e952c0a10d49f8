"""Output: anchor a prompt to one canon, measure every generation's distance to it, and repair towards it.

Names are imported when they are first used, so `import skyt` costs nothing. A name that is also a module's
(`skyt.text.signature`, `skyt.text.normalise`) cannot be among them: the module would take its place.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyt.canon import CanonImmutabilityError
    from skyt.middleware import Anchored, Wrapped, wrap
    from skyt.text.distance import Distance, Measured, register

_WHERE = {
    "Anchored": "skyt.middleware",
    "CanonImmutabilityError": "skyt.canon",
    "Distance": "skyt.text.distance",
    "Measured": "skyt.text.distance",
    "Wrapped": "skyt.middleware",
    "register": "skyt.text.distance",
    "wrap": "skyt.middleware",
}

__all__ = [
    "Anchored",
    "CanonImmutabilityError",
    "Distance",
    "Measured",
    "Wrapped",
    "register",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'skyt' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
