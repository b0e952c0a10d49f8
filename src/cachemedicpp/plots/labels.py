"""How defences are named and drawn: the same order, name and colour in every figure and table."""

from __future__ import annotations

from typing import Any

from homeostat.core.figures import MARKERS, PALETTE

# black for no defence; the others keep their colour whichever of them a run has
_LOOK = {
    "baseline": ("no defence", 6),
    "heuristics": ("best heuristic", 4),
    "cachemedic": ("CacheMedic++", 0),
    "lambda_contr_0": ("CacheMedic++, λ_contr = 0", 5),
    "none": ("no defence", 6),
    "best_heuristic": ("best heuristic", 4),
    "A": ("A low-rank", 0),
    "B": ("B shrinkage", 5),
    "C": ("C shared", 3),
    "G": ("G calibrated", 2),
    "guard": ("guard", 1),
    "G+guard": ("G + guard", 7),
    "G_without": ("G without its detectors", 7),
}
_SINGLES = {
    "reset_clear": "reset",
    "smoothing": "smoothing",
    "masking_dropout": "random masking",
    "clipping_renorm": "clipping",
    "forget": "forgetting",
    "clamp": "clamp",
    "robust_smoothing": "robust smoothing",
    "limits_clamp": "limits, clamped",
    "limits_zero": "limits, to zero",
    "limits_mean": "limits, to the mean",
    "renorm_calibrated": "calibrated clipping",
}
ORACLE_SUFFIX = ":oracle"


def label(defence: str) -> str:
    """The name in a legend or a table."""
    if defence.endswith(ORACLE_SUFFIX):
        return f"{label(defence.removesuffix(ORACLE_SUFFIX))} (oracle mask)"
    if defence in _LOOK:
        return _LOOK[defence][0]
    return _SINGLES.get(defence, defence.replace("_", " "))


def look(defence: str) -> dict[str, Any]:
    """Colour and marker of a curve."""
    if defence in _LOOK:
        place = _LOOK[defence][1]
        return {"color": PALETTE[place], "marker": MARKERS[place]}
    marker = MARKERS[list(_SINGLES).index(defence) % len(MARKERS)] if defence in _SINGLES else MARKERS[-1]
    return {"color": PALETTE[8], "marker": marker}


def headline(defences: list[str]) -> list[str]:
    """The defences a figure shows, in order: none, the best heuristic, then every operator and guard."""
    order = [name for name in _LOOK if name in defences]
    rest = [d for d in defences if d not in _LOOK and d not in _SINGLES and not d.endswith(ORACLE_SUFFIX)]
    return order + rest
