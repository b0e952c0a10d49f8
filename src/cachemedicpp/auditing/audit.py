"""Given a cache and its tokens: what in it cannot belong to these tokens, whoever wrote it.

A checksum says that these are the bytes that were written. An audit says that these are the numbers of this
text, so it sees what passes every checksum: blocks of another text, stale pages, shifted positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Cache

from cachemedicpp.auditing import witness
from cachemedicpp.cache.state import KVState, readable
from cachemedicpp.repair.base import layout
from cachemedicpp.repair.gaussian import tails
from cachemedicpp.repair.gaussian.operator import GaussianRepair
from cachemedicpp.repair.gaussian.provenance import check_ids
from cachemedicpp.repair.gaussian.tokens import blocks_of, gather
from homeostat.core.errors import UserError
from homeostat.core.records import Record


@dataclass(frozen=True)
class Audit:
    """Head vectors that are not of their tokens, block by block; `G` of them in a layer, keys first."""

    found: Tensor  # [B, blocks, L, G]
    score: Tensor  # [B, blocks, L]: beyond 1 a layer is found
    known: Tensor  # [B, blocks]: could be judged
    spans: list[list[tuple[int, int]]]  # first and last position of each block of each sequence
    alpha: float  # share of clean blocks that are found in error; 0: recomputed, not estimated

    @property
    def sound(self) -> bool:
        return not bool(self.found.any())

    def findings(self) -> list[Record]:
        """One for each block with something foreign in it."""
        told = []
        for row, block in self.found.flatten(2).any(-1).nonzero().tolist():
            first, last = self.spans[row][block]
            here = self.found[row, block]
            told.append(
                {
                    "row": row,
                    "first": first,
                    "last": last,
                    "layers": here.any(-1).nonzero().flatten().tolist(),
                    "heads": int(here.sum()),
                    "share": round(float(here.float().mean()), 4),
                    "score": round(float(self.score[row, block].max()), 3),
                }
            )
        return told

    def as_record(self) -> Record:
        judged = int(self.known.sum())
        real = sum(map(len, self.spans))
        return {"alpha": self.alpha, "blocks": real, "judged": judged, "findings": self.findings()}

    def __str__(self) -> str:
        rate = f"at {self.alpha:g} false alarms per block" if self.alpha else "recomputed by the model"
        findings = self.findings()
        lines = [f"{int(self.known.sum())} blocks judged, {len(findings)} not of their tokens ({rate})"]
        for one in findings:
            layers = _ranges(one["layers"])
            lines.append(
                f"  sequence {one['row']}, positions {one['first']}–{one['last']}: layers {layers} "
                f"({one['share']:.0%} of the heads, score {one['score']:g})"
            )
        return "\n".join(lines)

    def draw(self, path: str | Path, row: int = 0) -> list[Path]:
        """A picture of a sequence, positions × layers."""
        from cachemedicpp.auditing.picture import draw

        return draw(self, Path(path), row)


@torch.no_grad()
def audit(
    judge: Any,
    cache: Cache,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    *,
    alpha: float | None = None,
) -> Audit:
    """Judge `cache` by the tokens of all its positions, `input_ids` `[B, T]`.

    `judge` is a calibrated operator, which compares all numbers with what its statistics expect of the
    tokens, or the model, which recomputes one token in each block. `alpha` is for an operator: the share of
    clean blocks that may be found in error; by default the least that its calibration supports.
    """
    state = readable(cache)
    if isinstance(judge, GaussianRepair):
        return _by_statistics(judge, cache, state, input_ids, attention_mask, alpha)
    if not hasattr(judge, "base_model"):
        raise UserError(f"a {type(judge).__name__} cannot audit: give a model, or an operator G")
    if alpha is not None:
        raise UserError("alpha is for an operator: what a model recomputes, it does not estimate")
    return _by_model(judge, state, input_ids, attention_mask)


def _by_statistics(
    operator: GaussianRepair,
    cache: Cache,
    state: KVState,
    ids: Tensor,
    mask: Tensor | None,
    alpha: float | None,
) -> Audit:
    judged = operator.judge(cache, ids, mask)
    prior = operator.stats.prior
    assert prior is not None  # noqa: S101
    alpha = alpha or tails.least_rate(int(prior.blocks))
    limits = prior.limits(alpha)
    found = [one.scores.foreign(limits) for one in judged]
    head, layer, block = limits
    score = [
        torch.stack(
            (
                one.scores.head.amax(-1) / head,
                one.scores.layer / layer,
                (one.scores.block / block).unsqueeze(-1).expand_as(one.scores.layer),
            )
        ).amax(0)
        for one in judged
    ]
    spans = [[one.span(k) for k in range(int(one.block.max()) + 1)] for one in judged]
    known = [~one.scores.block.isnan() for one in judged]
    return Audit(_padded(found), _padded(score), _padded(known), spans, alpha)


def _by_model(model: Any, state: KVState, input_ids: Tensor, mask: Tensor | None) -> Audit:
    ids = check_ids(input_ids, state, int(model.config.get_text_config().vocab_size))
    witness.check_whole(model, state)
    real, numbers = layout(state.length, state.batch, mask, ids.device)
    block = blocks_of(real, numbers)[0]
    block = block - block[:, :1]
    spans = []
    for row in range(state.batch):
        at = [(real[row] & (block[row] == k)).nonzero().flatten() for k in range(int(block[row].max()) + 1)]
        spans.append([(int(x[0]), int(x[-1])) for x in at])
    most = max(map(len, spans))
    places = torch.tensor([[last for _, last in s] + [s[-1][1]] * (most - len(s)) for s in spans])
    places = places.to(ids.device)
    apart, spread = witness.distances(model, state, ids, real, places)  # [B, blocks, L, G], [L, G]
    score = apart / spread / witness.FOREIGN
    number = {(row, *span): k for row, row_spans in enumerate(spans) for k, span in enumerate(row_spans)}
    suspects = [one for one, k in number.items() if bool((score[one[0], k] > 1).any())]
    stored = gather(list(state)) if suspects else score
    for one, fresh in witness.in_order(model, state, ids, mask, suspects):
        off = (stored[one[0], one[1] : one[2] + 1] - fresh).square().sum(-1).nan_to_num(torch.inf)
        score[one[0], number[one]] = off.amax(0) / spread / witness.FOREIGN
    known = torch.tensor([[k < len(s) for k in range(most)] for s in spans], device=ids.device)
    found = (score > 1) & known[..., None, None]
    return Audit(found, score.amax(-1), known, spans, 0.0)


def _padded(parts: list[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)


def _ranges(numbers: list[int]) -> str:
    """`0–3, 7` for 0, 1, 2, 3 and 7."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)
