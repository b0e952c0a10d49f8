"""Which blocks of a cache are of their tokens, and what those that are not should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cachemedicpp.cache.state import KV, KVState
from cachemedicpp.repair.base import layout
from cachemedicpp.repair.gaussian import exact, sinks, tails
from cachemedicpp.repair.gaussian.field import Field
from cachemedicpp.repair.gaussian.impute import sweep
from cachemedicpp.repair.gaussian.prior import Prior, Scores, features
from cachemedicpp.repair.gaussian.statistics import Statistics
from cachemedicpp.repair.gaussian.tokens import Tokens, blocks_of, gather, table
from homeostat.core.errors import UserError
from homeostat.core.records import Record

_PASSES = 3  # of imputation, down and up the layers; it then moves by less than 1 %


@dataclass(frozen=True)
class Judged:
    """One sequence's ordinary tokens and the scores of its blocks. A cache with a sliding window is judged
    from the first position `first` that every layer stores."""

    tokens: Tokens
    features: Tensor  # [N, P]
    evidence: Tensor  # [N, L, G]: nats per dimension
    scores: Scores
    block: Tensor  # [T']: number of each position's block; -1 for padding and what cannot be judged
    first: int

    def span(self, block: int) -> tuple[int, int]:
        """First and last position of a block, counted in what is stored."""
        at = (self.block == block).nonzero().flatten() + self.first
        return int(at[0]), int(at[-1])


def check_ids(input_ids: Tensor, state: KVState, vocabulary: int) -> Tensor:
    """The tokens `[B, T]` of a cache, or one line about why they cannot be."""
    ids = torch.as_tensor(input_ids)
    if ids.dim() == 1:
        ids = ids.unsqueeze(0)
    if ids.is_floating_point() or ids.shape != (state.batch, state.length):
        raise UserError(
            f"input_ids has shape {list(ids.shape)}; the cache holds {state.batch} × {state.length} "
            "positions: give the token of every stored position"
        )
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary:
        raise UserError(
            f"input_ids holds tokens from {int(ids.min())} to {int(ids.max())}; the model knows "
            f"{vocabulary}: use its own tokenizer"
        )
    return ids.to(state[0].K.device)


@torch.no_grad()
def judge(
    stats: Statistics,
    embedding: Tensor,
    state: KVState,
    ids: Tensor,
    attention_mask: Tensor | None = None,
) -> list[Judged]:
    """Every sequence of a cache against its tokens `[B, T]`."""
    real, positions = layout(state.length, state.batch, attention_mask, ids.device)
    found = []
    for row in range(state.batch):
        one = slice(row, row + 1)
        x = features(embedding, ids[one], real[one])[:, state.first :]
        recent = [
            KV(*(y[one, :, state.first - state.start(layer) :] for y in kv)) for layer, kv in enumerate(state)
        ]
        places = positions[one, state.first :]
        found.append(_judge(stats, x, recent, real[one, state.first :], places, state.first))
    return found


def _judge(
    stats: Statistics,
    x: Tensor,
    layers: Sequence[KV],
    real: Tensor,
    positions: Tensor,
    first: int,
) -> Judged:
    stored = gather(layers)  # [1, T, L, G, d]
    stored = stored.masked_fill(exact.absurd(stored, stats.scale.unsqueeze(-1)), 0.0)
    known = real & stats.known(positions)
    ordinary = known & ~sinks.is_sink(stored, stats)
    number, count = blocks_of(known, (positions - positions[:, :1]).clamp(min=0))
    tokens = table(stored, ordinary, positions, (number, count), stats, torch.zeros_like(stats.mean))
    given = x[ordinary]
    assert stats.prior is not None  # noqa: S101
    prior = stats.prior
    evidence = prior.evidence(given, tokens.x)
    scores = prior.scores(evidence, tokens.block, count)
    return Judged(tokens, given, evidence, scores, number[0].masked_fill(~known[0], -1), first)


def replace_foreign(
    field: Field, state: KVState, judged: list[Judged], alpha: float | None
) -> tuple[KVState, list[Record]]:
    """`state` with what is not of its tokens replaced by its posterior mean, and a record of each such block.

    A share `alpha` of clean blocks may be replaced; by default as few as the text of calibration allows.
    """
    prior = field.stats.prior
    assert prior is not None  # noqa: S101
    limits = prior.limits(alpha or tails.least_rate(int(prior.blocks)))
    changed: dict[int, KV] = {}
    records: list[Record] = []
    for row, one in enumerate(judged):
        foreign = one.scores.foreign(limits)  # [blocks, L, G]
        if not bool(foreign.any()):
            continue
        where, fresh = restore(field, prior, one, foreign)
        hit = foreign[one.block[where]]  # [n, L, G]
        where = where + one.first
        for layer in foreign.any(-1).any(0).nonzero().flatten().tolist():
            kv = changed.setdefault(layer, KV(*(x.clone() for x in state[layer])))
            at = where - state.start(layer)
            for x, new, here in zip(kv, fresh[:, layer].chunk(2, 1), hit[:, layer].chunk(2, 1), strict=True):
                old = x[row, :, at].transpose(0, 1)  # [n, H, d]
                x[row, :, at] = torch.where(here.unsqueeze(-1), new.to(x.dtype), old).transpose(0, 1)
        for block in foreign.flatten(1).any(-1).nonzero().flatten().tolist():
            first, last = one.span(block)
            share = float(foreign[block].float().mean())
            records.append({"row": row, "first": first, "last": last, "heads": round(share, 4)})
    return state.replace(changed), records


def restore(field: Field, prior: Prior, judged: Judged, foreign: Tensor) -> tuple[Tensor, Tensor]:
    """The posterior mean of head vectors that are not of their tokens, `foreign` `[blocks, L, G]`, given the
    tokens and the other head vectors: the tokens' columns `[n]` and numbers as stored, `[n, L, G, d]`."""
    tokens = judged.tokens
    rows = foreign.flatten(1).any(-1)[tokens.block].nonzero().squeeze(1)
    part = tokens.take(rows)
    mean = prior.predict(judged.features[rows])
    lost = foreign[part.block].unsqueeze(-1).expand_as(part.x).contiguous()
    part.x = (part.x - mean).masked_fill(lost, 0.0)
    layers = range(field.stats.layers)
    if not bool(lost.all()):  # else the tokens are all that tells
        for number in range(_PASSES):
            sweep(field, part, lost, reversed(layers) if number % 2 else layers)
    return part.column, part.stored(part.x + mean) * field.stats.scale.unsqueeze(-1)
