"""How defences are drawn: the same order, name and colour in every figure and table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homeostat.core.errors import UserError
from homeostat.core.figures import MARKERS, PALETTE
from homeostat.report.names import ORACLE, colours, heuristics, label

__all__ = ["ORACLE", "headline", "label", "look", "main_defence"]


def look(defence: str) -> dict[str, Any]:
    """Colour and marker of a curve: a repair's own, or a small grey dot."""
    if (colour := colours().get(defence)) is not None:
        return {"color": PALETTE[colour], "marker": MARKERS[colour]}
    return {"color": PALETTE[8], "marker": "o", "markersize": 4}


def headline(defences: list[str]) -> list[str]:
    """The defences a figure shows, in order: none, the best heuristic, then every operator and guard."""
    coloured, single = colours(), heuristics()
    rest = [d for d in defences if d not in coloured and d not in single and not d.endswith(ORACLE)]
    return [name for name in coloured if name in defences] + rest


def main_defence(family: str, available: Mapping[str, Any]) -> str:
    """The run's own repair: the configured family, or what there is where none is configured."""
    for name in (family, "G", "best_heuristic", "guard"):
        if name in available and name != "none":
            return name
    raise UserError("this run evaluated no defence: name one in eval.defences")
