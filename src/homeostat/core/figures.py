"""One look for every figure: legible in print, safe for colour-blind readers, the same bytes every time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from homeostat.core import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can distinguish; black is for the undisturbed reference.
PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C564B", "#7F7F7F",
    "#6A3D9A",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
SEQUENTIAL = "viridis"
DIVERGING = "RdBu_r"

_STYLE: Any = {
    "figure.dpi": 110,
    "savefig.dpi": 220,
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,
}


@contextmanager
def style() -> Iterator[None]:
    """Draw inside this block: the house style, and a backend that needs no screen."""
    import matplotlib

    matplotlib.use("Agg", force=False)
    from matplotlib import pyplot

    with matplotlib.rc_context(_STYLE):
        try:
            yield
        finally:
            pyplot.close("all")


def save(figure: Figure, path: Path) -> list[Path]:
    """Write `path` (PNG) and the same figure as PDF beside it; both atomically, without dates inside."""
    written = []
    for target in (path.with_suffix(".png"), path.with_suffix(".pdf")):
        dates = {"CreationDate": None} if target.suffix == ".pdf" else {"Software": None}
        with atomic.replacing(target) as aside:
            figure.savefig(aside, format=target.suffix[1:], metadata=dates)
        written.append(target)
    return written
