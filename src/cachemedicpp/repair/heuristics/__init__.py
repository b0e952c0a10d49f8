"""Repairs without learning: the baselines that a trained operator has to beat.

By default a heuristic is blind: it knows which layers are protected and nothing about what was damaged, like
the operators. Given the true mask it has oracle knowledge; figures must say which of the two they show.
"""

from collections.abc import Sequence

from cachemedicpp.repair.base import Repair
from cachemedicpp.repair.heuristics.clipping_renorm import ClippingRenorm
from cachemedicpp.repair.heuristics.masking_dropout import MaskingDropout
from cachemedicpp.repair.heuristics.reset_clear import ResetClear
from cachemedicpp.repair.heuristics.smoothing import Smoothing
from homeostat.core.errors import UserError, nearest

HEURISTICS: dict[str, type[Repair]] = {
    cls.name: cls for cls in (ResetClear, Smoothing, MaskingDropout, ClippingRenorm)
}


def register(cls: type[Repair]) -> type[Repair]:
    """Evaluate a repair of your own beside the others, under its `name`; made as `cls(layers)`."""
    HEURISTICS[cls.name] = cls
    return cls


def heuristic(name: str, layers: Sequence[int]) -> Repair:
    """A heuristic by name, at its default settings, for these layers."""
    if name not in HEURISTICS:
        raise UserError(f"unknown heuristic {name!r}; {nearest(name, HEURISTICS)}")
    return HEURISTICS[name](tuple(layers))  # type: ignore[call-arg]


__all__ = [
    "HEURISTICS",
    "ClippingRenorm",
    "MaskingDropout",
    "ResetClear",
    "Smoothing",
    "heuristic",
    "register",
]
