"""A cache as a table: one row per real token of a sequence, with its head vectors in every layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cachemedicpp.cache.rotation import Turn, still
from cachemedicpp.cache.state import KV
from cachemedicpp.repair.gaussian.prior import BLOCK
from cachemedicpp.repair.gaussian.statistics import Statistics


@dataclass
class Tokens:
    """Rows of one class (ordinary or sink). `x` is un-rotated, scaled and centred: `[N, L, G, d]`."""

    x: Tensor
    row: Tensor  # [N] sequence
    position: Tensor  # [N] counted from the sequence's first real token
    column: Tensor  # [N] index in the stored cache
    block: Tensor  # [N] number of the (sequence, block of positions), 0 … blocks - 1
    blocks: int
    turns: Sequence[Turn]  # one per layer (layers with equal angles share it)
    flat: Turn  # values do not turn

    def __len__(self) -> int:
        return len(self.row)

    @property
    def keys(self) -> int:
        """How many of the G head vectors are keys."""
        return self.x.shape[2] // 2

    def turn(self, layer: int, group: int) -> Turn:
        return self.turns[layer] if group < self.keys else self.flat

    def take(self, index: Tensor) -> Tokens:
        """Some of the tokens, copied; blocks keep their numbers."""
        turned = {id(turn): turn.rows(index) for turn in self.turns}
        return Tokens(
            self.x[index],
            self.row[index],
            self.position[index],
            self.column[index],
            self.block[index],
            self.blocks,
            [turned[id(turn)] for turn in self.turns],
            self.flat,
        )

    def stored(self, x: Tensor) -> Tensor:
        """`x` `[N, L, G, d]` with keys turned back into the coordinates they are stored in."""
        out = x.clone()
        for layer, turn in enumerate(self.turns):
            out[:, layer, : self.keys] = turn.turn(x[:, layer, : self.keys])
        return out

    def block_median(self, q: Tensor) -> Tensor:
        """Median of `q` `[N, …]` over each block, `[blocks, …]`, leaving NaN out; NaN if nothing is left."""
        return by_block(q, self.block, self.blocks, median)

    def block_max(self, q: Tensor) -> Tensor:
        """The largest of `q` `[N, …]` in each block, `[blocks, …]`; NaN where it has no tokens."""
        return by_block(q, self.block, self.blocks, lambda rows: rows.amax(0))

    def block_mean(self, q: Tensor) -> Tensor:
        """Mean of `q` `[N, …]` over the tokens of each block, `[blocks, …]`."""
        total = q.new_zeros(self.blocks, *q.shape[1:]).index_add_(0, self.block, q.float())
        size = torch.bincount(self.block, minlength=self.blocks).clamp(min=1)
        return total / size.view(-1, *[1] * (q.dim() - 1))


def by_block(q: Tensor, block: Tensor, blocks: int, summary: Callable[[Tensor], Tensor]) -> Tensor:
    """A `summary` of the rows of `q` `[N, …]` in each block, `[blocks, …]`; NaN where there are none."""
    out = q.new_full((blocks, *q.shape[1:]), torch.nan)
    order = torch.argsort(block, stable=True)
    for number, rows in enumerate(torch.split(order, torch.bincount(block, minlength=blocks).tolist())):
        if len(rows):
            out[number] = summary(q[rows])
    return out


def median(rows: Tensor) -> Tensor:
    return rows.nanmedian(0).values


def gather(state: Sequence[KV]) -> Tensor:
    """Everything stored, `[B, T, L, G, d]` in float32, keys as they are stored."""
    layers = [torch.cat((K, V), dim=1).permute(0, 2, 1, 3).float() for K, V in state]
    return torch.stack(layers, dim=2)


def blocks_of(real: Tensor, positions: Tensor) -> tuple[Tensor, int]:
    """Block numbers `[B, T]` and how many there are; a short last block joins the one before it."""
    length = real.sum(-1, keepdim=True)  # [B, 1]
    last = (length // BLOCK - 1).clamp(min=0)
    per_row = int(last.max()) + 1
    number = torch.minimum(positions // BLOCK, last)
    return number + torch.arange(len(real), device=real.device).unsqueeze(1) * per_row, len(real) * per_row


def table(
    stored: Tensor,
    chosen: Tensor,
    positions: Tensor,
    blocks: tuple[Tensor, int],
    stats: Statistics,
    mean: Tensor,
) -> Tokens:
    """The chosen positions `[B, T]` of `stored`, un-rotated, scaled, and centred on `mean` `[L, G, d]`."""
    row, column = chosen.nonzero(as_tuple=True)
    where = positions[row, column]
    x = stored[row, column] / stats.scale.unsqueeze(-1)
    turns: list[Turn] = []
    for layer in range(stats.layers):
        same = layer > 0 and torch.equal(stats.theta[layer], stats.theta[layer - 1])
        turns.append(turns[-1] if same else stats.pairs.at(where, layer))
        keys = slice(0, stats.groups // 2)
        x[:, layer, keys] = turns[-1].back(x[:, layer, keys])
    flat = still(stats.head_dim)
    number, count = blocks
    return Tokens(x - mean, row, where, column, number[row, column], count, turns, flat)
