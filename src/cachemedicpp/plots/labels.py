"""How defences are named and drawn: the same order, name and colour in every figure and table."""

from __future__ import annotations

from typing import Any

from homeostat.core.figures import MARKERS, PALETTE
from homeostat.report.names import heuristics, label

# Black for no defence; the others keep their colour whichever of them a run has.
_LOOK = {
    "baseline": 6,
    "heuristics": 4,
    "cachemedic": 0,
    "lambda_contr_0": 5,
    "none": 6,
    "best_heuristic": 4,
    "A": 0,
    "B": 5,
    "C": 3,
    "D": 7,
    "G": 2,
    "guard": 1,
    "G+guard": 7,
    "G_without": 7,
}
_LETTERS = "EFHKMNPQRSTUVWXYZ"  # of heuristics, all grey: no operator's, and none that a bar would hide
ORACLE_SUFFIX = ":oracle"
__all__ = ["ORACLE_SUFFIX", "headline", "label", "look"]


def look(defence: str) -> dict[str, Any]:
    """Colour and marker of a curve: a repair's own, or grey with a letter that depends on the name alone."""
    if defence in _LOOK:
        return {"color": PALETTE[_LOOK[defence]], "marker": MARKERS[_LOOK[defence]]}
    single = heuristics()
    place = single.index(defence) if defence in single else -1
    return {"color": PALETTE[8], "marker": f"$\\mathsf{{{_LETTERS[place]}}}$"}


def headline(defences: list[str]) -> list[str]:
    """The defences a figure shows, in order: none, the best heuristic, then every operator and guard."""
    order = [name for name in _LOOK if name in defences]
    single = heuristics()
    rest = [d for d in defences if d not in _LOOK and d not in single and not d.endswith(ORACLE_SUFFIX)]
    return order + rest
