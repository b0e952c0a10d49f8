"""Repairs without learning: the baselines that a trained operator has to beat, one file each.

By default a heuristic is blind: it knows which layers are protected and which positions the protocol's time
mask lets damage reach, and nothing about what was drawn. Given the true mask it has oracle knowledge;
figures must say which of the two they show. The calibrated ones also know what is usual in each channel
(`Levels`), from text that is not evaluated.
"""

from collections.abc import Sequence

from cachemedicpp.corruption.config import AxesConfig
from cachemedicpp.repair.base import Repair
from cachemedicpp.repair.heuristics.clamp import Clamp
from cachemedicpp.repair.heuristics.clipping_renorm import ClippingRenorm
from cachemedicpp.repair.heuristics.forget import Forget
from cachemedicpp.repair.heuristics.forget_calibrated import ForgetSink, LimitsForget
from cachemedicpp.repair.heuristics.levels import Levels, measure_levels
from cachemedicpp.repair.heuristics.limits import LimitsClamp, LimitsMean, LimitsZero
from cachemedicpp.repair.heuristics.masking_dropout import MaskingDropout
from cachemedicpp.repair.heuristics.renorm_calibrated import RenormCalibrated
from cachemedicpp.repair.heuristics.reset_clear import ResetClear
from cachemedicpp.repair.heuristics.robust_smoothing import RobustSmoothing
from cachemedicpp.repair.heuristics.smoothing import Smoothing
from homeostat.core.errors import UserError, nearest

_TIMED = (ResetClear, Forget)  # told the protocol's time mask
_CALIBRATED = (LimitsClamp, LimitsZero, LimitsMean, RenormCalibrated, ForgetSink, LimitsForget)  # `Levels`
HEURISTICS: dict[str, type[Repair]] = {
    cls.name: cls
    for cls in (ResetClear, Smoothing, MaskingDropout, ClippingRenorm, Forget, Clamp, RobustSmoothing)
}
CALIBRATED: dict[str, type[Repair]] = {cls.name: cls for cls in _CALIBRATED}


def register(cls: type[Repair]) -> type[Repair]:
    """Evaluate a repair of your own beside the others, under its `name`; made as `cls(layers)`."""
    HEURISTICS[cls.name] = cls
    return cls


def heuristic(
    name: str, layers: Sequence[int], levels: Levels | None = None, axes: AxesConfig | None = None
) -> Repair:
    """A heuristic by name, at its default settings, for these layers.

    `levels` are what the calibrated ones need. `axes` tell `reset_clear` and the ways to forget where in
    time damage can be; without them everything that is stored counts.
    """
    if name in CALIBRATED:
        if levels is None:
            raise UserError(
                f"heuristic {name!r} needs calibrated levels: pass levels=measure_levels(model, windows)"
            )
        if issubclass(CALIBRATED[name], ForgetSink):
            return CALIBRATED[name](tuple(layers), axes, levels=levels)  # type: ignore[call-arg]
        return CALIBRATED[name](tuple(layers), levels)  # type: ignore[call-arg]
    if name not in HEURISTICS:
        raise UserError(f"unknown heuristic {name!r}; {nearest(name, [*HEURISTICS, *CALIBRATED])}")
    if HEURISTICS[name] in _TIMED:
        return HEURISTICS[name](tuple(layers), axes)  # type: ignore[call-arg]
    return HEURISTICS[name](tuple(layers))  # type: ignore[call-arg]


__all__ = [
    "CALIBRATED",
    "HEURISTICS",
    "Clamp",
    "ClippingRenorm",
    "Forget",
    "ForgetSink",
    "Levels",
    "LimitsClamp",
    "LimitsForget",
    "LimitsMean",
    "LimitsZero",
    "MaskingDropout",
    "RenormCalibrated",
    "ResetClear",
    "RobustSmoothing",
    "Smoothing",
    "heuristic",
    "measure_levels",
    "register",
]
