"""Repairs without learning: the baselines that a trained operator has to beat, one file each.

By default a heuristic is blind: it knows which layers are protected and which positions the protocol's time
mask lets damage reach, and nothing about what was drawn. Given the true mask it has oracle knowledge;
figures must say which of the two they show. The calibrated ones also know what is usual in each channel
(`Levels`), from text that is not evaluated.
"""

from collections.abc import Sequence

from cachemedicpp.corruption.masks import AxesConfig
from cachemedicpp.repair.base import Repair
from cachemedicpp.repair.heuristics.levels import Levels, measure_levels
from cachemedicpp.repair.registry import DEFENCES, register
from homeostat.core.errors import UserError

__all__ = ["Levels", "heuristic", "heuristics", "measure_levels", "register"]


def heuristics(calibrated: bool = True) -> list[str]:
    """The heuristics by name; those that need levels only if asked for."""
    kinds = [kind for _, kind in DEFENCES.items() if kind.role == "heuristic"]
    return [kind.name for kind in kinds if calibrated or "levels" not in kind.takes]


def heuristic(
    name: str, layers: Sequence[int], levels: Levels | None = None, axes: AxesConfig | None = None
) -> Repair:
    """A heuristic by name, at its default settings, for these layers.

    `levels` are what the calibrated ones need. `axes` tell `reset_clear` and the ways to forget where in
    time damage can be; without them everything that is stored counts.
    """
    kind = DEFENCES[name]
    if kind.repair is None:
        raise UserError(f"{name!r} is no heuristic: choose one of {', '.join(heuristics())}")
    if "levels" in kind.takes and levels is None:
        raise UserError(
            f"heuristic {name!r} needs calibrated levels: pass levels=measure_levels(model, windows)"
        )
    known = {"axes": axes, "levels": levels}
    made: Repair = kind.repair(layers=tuple(layers), **{n: known[n] for n in kind.takes})  # type: ignore[call-arg]
    return made
