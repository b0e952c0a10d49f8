"""The picture of an audit: how far each layer of each block is from what its tokens say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from homeostat.core.figures import PALETTE, SEQUENTIAL, save, style

if TYPE_CHECKING:
    from cachemedicpp.auditing.audit import Audit


def draw(audit: Audit, path: Path, row: int = 0) -> list[Path]:
    """One sequence, positions × layers; what is not of its tokens is framed."""
    with style():
        from matplotlib import pyplot
        from matplotlib.patches import Rectangle

        spans = audit.spans[row]
        score = audit.score[row, : len(spans)].clamp(0, 2).nan_to_num(0).T.cpu()  # [L, blocks]
        figure, axes = pyplot.subplots(figsize=(8.0, 3.6))
        edges = [first for first, _ in spans] + [spans[-1][1] + 1]
        levels = [layer - 0.5 for layer in range(len(score) + 1)]
        mesh = axes.pcolormesh(edges, levels, score.numpy(), cmap=SEQUENTIAL, vmin=0, vmax=2)
        for block, layer in audit.found[row, : len(spans)].any(-1).nonzero().tolist():
            width = edges[block + 1] - edges[block]
            frame = Rectangle((edges[block], layer - 0.5), width, 1, fill=False, ec=PALETTE[1], lw=0.8)
            axes.add_patch(frame)
        axes.set(xlabel="position", ylabel="layer")
        axes.grid(False)
        figure.colorbar(mesh, label="score; framed: not of its tokens", extend="max")
        return save(figure, path)
