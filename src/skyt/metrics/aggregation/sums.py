"""Counts and exact sums of distances by cell, with every rule about a row checked on the way."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skyt import records
from skyt.metrics.aggregation.rows import (
    COMPLIANT,
    PROMPT,
    RUN,
    SIG,
    STAGE,
    Block,
    D,
    Runs,
    version_columns,
    wrong_version,
)
from skyt.metrics.aggregation.signatures import SignatureCounts
from skyt.metrics.formulas import BOOTSTRAP_LIMIT, Array, limbs

_SIGNATURE = re.compile(r"[0-9a-f]{64}")
_BOOL = {"true": True, "false": False}


class Sums:
    """Counts and exact sums by cell."""

    def __init__(self, folder: Path, runs: Runs, tau: float, canons: dict[str, str | None]) -> None:
        self._runs, self._tau = runs, tau
        files = {"pre": folder / records.PRE, "post": folder / records.POST}
        self._versions = {stage: version_columns(path) for stage, path in files.items()}
        self._canons = [canons.get(cell.prompt_id) for cell in runs.cells]
        size = max(1, len(runs.cells))
        self.counts = np.zeros((size, 8), dtype=np.int64)
        self.sums = np.zeros((size, 5, 3), dtype=np.int64)  # of d_pre, d_post and three squares, in limbs
        self.pairs: list[list[tuple[float, float]]] = [[] for _ in range(size)]

    def add(self, block: Block, counts: SignatureCounts) -> None:
        cells = self._cells(block)
        pre, post = self._distances(block, "pre"), self._distances(block, "post")
        self._check_canon(block, "pre", cells, pre)
        self._check_canon(block, "post", cells, post)
        risen = np.flatnonzero(post > pre)
        if risen.size:
            at = int(risen[0])
            raise block.error(
                "post", at, f"d = {post[at]} is above d = {pre[at]} before repair: repair is monotone"
            )
        compliant = [self._compliance(block, stage) for stage in ("pre", "post")]
        group = np.array(cells, dtype=np.int64)
        truths = (
            np.ones(len(cells), dtype=bool),
            pre == 0.0,
            post == 0.0,
            (pre > 0.0) & (post == 0.0),
            pre <= self._tau,
            post <= self._tau,
            *compliant,
        )
        size = len(self.counts)
        for column, truth in enumerate(truths):
            self.counts[:, column] += np.bincount(group[truth], minlength=size)
        for column, values in enumerate((pre, post, pre**2, post**2, (post - pre) ** 2)):
            for limb, part in enumerate(limbs(values)):
                self.sums[:, column, limb] += np.bincount(group, part, size).astype(np.int64)
        self._keep_pairs(cells, pre, post)
        counts.add(cells, block.pre[SIG], block.pre[D])

    def _cells(self, block: Block) -> list[int]:
        index = self._runs.index
        for stage, columns in (("pre", block.pre), ("post", block.post)):
            named = self._versions[stage]
            compared = [columns[at] for at in (RUN, PROMPT, *named.values())]
            for key in set(zip(*compared, strict=True)):
                run_id, prompt_id, *versions = key
                at = index.get(run_id)
                if at is not None and self._runs.cells[at].prompt_id == prompt_id:
                    problem = wrong_version(list(named), versions, self._runs.versions[prompt_id])
                else:
                    problem = "runs.csv has no such run" if at is None else "its run has another prompt"
                if problem is not None:
                    where = next(i for i, other in enumerate(zip(*compared, strict=True)) if other == key)
                    raise block.error(stage, where, problem)
            if set(columns[STAGE]) != {stage}:
                where = next(i for i, value in enumerate(columns[STAGE]) if value != stage)
                raise block.error(
                    stage, where, f"stage = {columns[STAGE][where]!r}, which must be {stage!r} here"
                )
        return [index[run_id] for run_id in block.pre[RUN]]

    @staticmethod
    def _distances(block: Block, stage: str) -> Array:
        texts = (block.pre if stage == "pre" else block.post)[D]
        try:
            values = np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
        except ValueError:
            where = next(i for i, text in enumerate(texts) if not _is_number(text))
            raise block.error(stage, where, f"d = {texts[where]!r} is not a number") from None
        outside = np.flatnonzero(~((values >= 0.0) & (values <= 1.0)))
        if outside.size:
            raise block.error(stage, int(outside[0]), f"d = {texts[outside[0]]} is outside [0, 1]")
        return values

    def _check_canon(self, block: Block, stage: str, cells: list[int], d: Array) -> None:
        """d = 0 exactly for the canon's signature; d = 1 everywhere while there is no canon."""
        signatures = (block.pre if stage == "pre" else block.post)[SIG]
        if not all(map(_SIGNATURE.fullmatch, set(signatures))):
            where = next(i for i, text in enumerate(signatures) if not _SIGNATURE.fullmatch(text))
            raise block.error(stage, where, f"signature {signatures[where]!r} is not 64 hexadecimal digits")
        canon = list(map(self._canons.__getitem__, cells))
        same = np.fromiter(
            (a == b for a, b in zip(signatures, canon, strict=True)), dtype=bool, count=len(cells)
        )
        wrong = np.flatnonzero(same != (d == 0.0))
        if wrong.size:
            at = int(wrong[0])
            problem = "has the canon's signature" if same[at] else "is not the canon"
            if canon[at] is None:
                problem = "without a canon it is 1.0 by definition"
            raise block.error(stage, at, f"d = {d[at]}, but {problem}")
        if None in canon:
            missing = np.fromiter((c is None for c in canon), dtype=bool, count=len(cells))
            wrong = np.flatnonzero(missing & (d != 1.0))
            if wrong.size:
                at = int(wrong[0])
                raise block.error(
                    stage, at, f"d = {d[at]}, but there is no canon, so it is 1.0 by definition"
                )

    @staticmethod
    def _compliance(block: Block, stage: str) -> NDArray[np.bool_]:
        texts = (block.pre if stage == "pre" else block.post)[COMPLIANT]
        try:
            return np.fromiter(map(_BOOL.__getitem__, texts), dtype=bool, count=len(texts))
        except KeyError:
            where = next(i for i, text in enumerate(texts) if text not in _BOOL)
            raise block.error(stage, where, f"compliant = {texts[where]!r}, not true or false") from None

    def _keep_pairs(self, cells: list[int], pre: Array, post: Array) -> None:
        """Distances themselves, for the bootstrap, of cells that are small enough for it."""
        open_cells = [cell for cell in set(cells) if len(self.pairs[cell]) <= BOOTSTRAP_LIMIT]
        if not open_cells:
            return
        wanted = set(open_cells)
        for cell, a, b in zip(cells, pre.tolist(), post.tolist(), strict=True):
            if cell in wanted:
                kept = self.pairs[cell]
                kept.append((a, b))
                if len(kept) > BOOTSTRAP_LIMIT:
                    wanted.discard(cell)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
