"""What operator G did to a cache, head by head."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.repair.base import RepairReport
from cachemedicpp.repair.gaussian.screen import Screened


@dataclass
class Report:
    """Counts and names over all sequences of a batch; rows are sequences."""

    kv_heads: int
    first: int = 0  # the first position that was looked at
    older: int = 0  # positions that a sliding window dropped from some layers: not judged
    lost: int = 0  # zeros, non-finite and absurd elements, imputed
    outliers: int = 0  # found by their residuals, imputed
    vectors: int = 0  # of which nothing was kept, imputed from the others
    sinks: int = 0
    gone: int = 0  # positions with too little left to impute them from: as they were, non-finite elements 0
    beyond: int = 0  # positions that calibration never saw, left alone
    noisy: list[dict[str, Any]] = field(default_factory=list)
    misfits: list[dict[str, Any]] = field(default_factory=list)
    blocks: list[dict[str, Any]] = field(default_factory=list)
    relative_change: dict[str, float] = field(default_factory=dict)

    def add_noise(self, level: Tensor, start: int) -> None:
        """Noise levels `[rows, blocks, L, G]`."""
        for row, layer, group in (level > 0).any(1).nonzero().tolist():
            seen = level[row, :, layer, group]
            self.noisy.append(
                self._head(start + row, layer, group)
                | {"level": round(float(seen.max()), 4), "blocks": (seen > 0).nonzero().flatten().tolist()}
            )

    def add_misfits(self, misfit: Tensor, alignment: Tensor, start: int) -> None:
        """Heads that no longer fit, `[rows, blocks, L, G]`, and how far each block still does."""
        for row, layer, group in misfit.any(1).nonzero().tolist():
            where = misfit[row, :, layer, group]
            slope = alignment[row, :, layer, group][where]
            self.misfits.append(
                self._head(start + row, layer, group)
                | {"fit": round(float(slope.mean()), 3), "blocks": where.nonzero().flatten().tolist()}
            )

    def add_blocks(
        self, seen: Screened, where: Tensor, changed: Tensor, forgotten: Tensor, at: tuple[int, int]
    ) -> None:
        """What was decided about each block of a sequence, and the share of its elements that changed.

        `changed` `[n, L, G, d]` is of the positions `where` `[n]`, `forgotten` lists the blocks that were
        given up, `at` says which sequence it is and where the piece begins. Positions that calibration never
        saw (`real`, not `known`) cannot be judged.
        """
        share = torch.zeros(len(seen.real), device=where.device)
        share[where] = changed.float().mean((-1, -2, -3))
        given_up = set(forgotten.tolist())
        for block in range(len(seen.active)):
            here = seen.known & (seen.block == block)
            repaired = "repaired" if bool(share[here].any()) else "left alone"
            self._block(here, share, "forgotten" if block in given_up else repaired, at)
        self._block(seen.real & ~seen.known, share, "cannot judge", at)

    def _block(self, here: Tensor, share: Tensor, decision: str, at: tuple[int, int]) -> None:
        places = here.nonzero().flatten()
        if len(places):
            self.blocks.append(
                {
                    "row": at[0],
                    "first": self.first + at[1] + int(places[0]),
                    "last": self.first + at[1] + int(places[-1]),
                    "decision": decision,
                    "changed": round(float(share[here].mean()), 6),
                }
            )

    def as_record(self) -> RepairReport:
        return RepairReport(
            repair="G",
            relative_change=self.relative_change,
            imputed={"lost": self.lost, "outliers": self.outliers, "vectors": self.vectors},
            sinks=self.sinks,
            gone=self.gone,
            beyond_calibration=self.beyond,
            noisy=self.noisy,
            misfits=self.misfits,
            older_than_window=self.older,
            blocks=self.blocks,
        )

    def _head(self, row: int, layer: int, group: int) -> dict[str, Any]:
        kind, head = ("K", group) if group < self.kv_heads else ("V", group - self.kv_heads)
        return {"row": row, "layer": layer, "tensor": kind, "head": head}
