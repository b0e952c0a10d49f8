"""Output: anchor a prompt to one canon, measure every generation's distance to it, and repair towards it.

Names are imported when they are first used, so `import skyt` costs nothing. Rooms, in the order in which data
passes through them: text → contracts → generators → sandbox → oracle → canon → repair → records → metrics →
runs → serve, middleware. A room uses only rooms before it.
"""

from typing import TYPE_CHECKING

from homeostat.core.lazy import lazily

if TYPE_CHECKING:
    from skyt.canon import CanonImmutabilityError
    from skyt.middleware import Anchored, NotCompliantError, Wrapped, wrap
    from skyt.runs.results import CodeRun, read_run, run
    from skyt.text.distance import Distance, Measured, register

__all__ = [
    "Anchored",
    "CanonImmutabilityError",
    "CodeRun",
    "Distance",
    "Measured",
    "NotCompliantError",
    "Wrapped",
    "read_run",
    "register",
    "run",
    "wrap",
]

__getattr__ = lazily(
    __name__,
    {
        "CanonImmutabilityError": "skyt.canon",
        **dict.fromkeys(("Anchored", "NotCompliantError", "Wrapped", "wrap"), "skyt.middleware"),
        **dict.fromkeys(("CodeRun", "read_run", "run"), "skyt.runs.results"),
        **dict.fromkeys(("Distance", "Measured", "register"), "skyt.text.distance"),
    },
)
