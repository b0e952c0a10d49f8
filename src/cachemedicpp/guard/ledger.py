"""What a guard remembers of one cache: tokens, positions, a fingerprint of every block as it was written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.guard.fingerprint import Weights, add, digest, weights
from cachemedicpp.state import KVState

BLOCK = 32


@dataclass(frozen=True, order=True)
class Damage:
    """A block of one sequence whose stored bits are not those that were written."""

    row: int
    layer: int
    block: int
    tensor: str  # "K", "V" or "KV"


@dataclass(frozen=True)
class Ledger:
    """Fingerprints `[L, 2, B, n]` (keys, values) of the first `length` positions, and what made them."""

    ids: Tensor  # [B, T]
    mask: Tensor  # [B, T] bool: real tokens
    positions: Tensor  # [B, T]
    sums: Tensor  # [L, 2, B, n] int64
    sizes: Tensor  # [L, 2, B, n] float64: Σ x², to tell a good recomputation from another
    block: int = BLOCK
    seal: int = field(default=0)

    @property
    def length(self) -> int:
        return int(self.ids.shape[1])

    @property
    def rows(self) -> int:
        return int(self.ids.shape[0])

    @property
    def intact(self) -> bool:
        """Whether the ledger itself is as it was written."""
        return self.seal == _seal(self)

    @classmethod
    def empty(cls, state: KVState, block: int) -> Ledger:
        none = torch.zeros(state.batch, 0, dtype=torch.long)
        shape = (len(state), 2, state.batch, 0)
        ledger = cls(
            none, none.bool(), none, torch.zeros(shape, dtype=torch.int64), torch.zeros(shape).double(), block
        )
        return ledger.sealed()

    def sealed(self) -> Ledger:
        return replace(self, seal=_seal(self))

    def extend(self, state: KVState, ids: Tensor, mask: Tensor, positions: Tensor) -> Ledger:
        """This ledger with the positions that the cache has grown by, from tokens `[B, n]`."""
        start, end = self.length, self.length + ids.shape[1]
        sums, sizes = [], []
        weight = _weights(state, self.block, start, end)
        for layer, kv in enumerate(state):
            for kind, x in enumerate(kv):
                new = x[:, :, start:end]
                shares = digest(new, weight)
                sums.append(add(self.sums[layer, kind].to(x.device), shares, start, self.block).cpu())
                squares = new.float().square().sum((1, 3)).double().cpu()  # [B, n]
                sizes.append(_add_sizes(self.sizes[layer, kind], squares, start, self.block))
        shape = (len(state), 2, self.rows, -1)
        return replace(
            self,
            ids=torch.cat((self.ids, ids.cpu()), 1),
            mask=torch.cat((self.mask, mask.cpu().bool()), 1),
            positions=torch.cat((self.positions, positions.cpu()), 1),
            sums=torch.stack(sums).view(shape),
            sizes=torch.stack(sizes).view(shape),
        ).sealed()

    def compare(self, state: KVState) -> list[Damage]:
        """Blocks of `state` whose bits differ from what was written, in order."""
        weight = _weights(state, self.block, 0, self.length)
        wrong: dict[tuple[int, int, int], str] = {}
        for layer, kv in enumerate(state):
            for kind, x in enumerate(kv):
                shares = digest(x[:, :, : self.length], weight)
                now = add(self.sums.new_zeros(self.rows, 0).to(x.device), shares, 0, self.block)
                for row, block in (now.cpu() != self.sums[layer, kind]).nonzero().tolist():
                    wrong[row, layer, block] = wrong.get((row, layer, block), "") + "KV"[kind]
        return sorted(Damage(*where, tensor) for where, tensor in wrong.items())

    def crop(self, state: KVState, length: int) -> Ledger:
        """The ledger of the first `length` positions; a block that is cut is fingerprinted anew."""
        whole = length // self.block
        kept = replace(
            self,
            ids=self.ids[:, : whole * self.block],
            mask=self.mask[:, : whole * self.block],
            positions=self.positions[:, : whole * self.block],
            sums=self.sums[..., :whole],
            sizes=self.sizes[..., :whole],
        )
        cut = slice(whole * self.block, length)
        return kept.extend(state, self.ids[:, cut], self.mask[:, cut], self.positions[:, cut])

    def select(self, rows: Tensor) -> Ledger:
        """The ledger of a batch reordered, repeated or thinned to these rows."""
        rows = rows.cpu()
        return replace(
            self,
            ids=self.ids[rows],
            mask=self.mask[rows],
            positions=self.positions[rows],
            sums=self.sums[:, :, rows],
            sizes=self.sizes[:, :, rows],
        ).sealed()

    def tensors(self) -> dict[str, Tensor]:
        names = ("ids", "mask", "positions", "sums", "sizes")
        return {name: getattr(self, name).contiguous() for name in names}


def block_squares(x: Tensor, block: int) -> Tensor:
    """Σ x² of each block of `x` `[B, H, T, d]`: `[B, n]`."""
    squares = x.float().square().sum((1, 3)).double().cpu()
    return _add_sizes(torch.zeros(len(x), 0).double(), squares, 0, block)


def _weights(state: KVState, block: int, start: int, end: int) -> Weights:
    """Weights of positions `start … end - 1`."""
    K = state[0].K
    return weights(K, block).at(torch.arange(start, end, device=K.device) % block)


def _add_sizes(sizes: Tensor, squares: Tensor, start: int, block: int) -> Tensor:
    end = start + squares.shape[1]
    grown = torch.zeros(squares.shape[0], -(-end // block), dtype=torch.float64)
    grown[:, : sizes.shape[1]] = sizes
    return grown.index_add_(1, torch.arange(start, end) // block, squares)


def _seal(ledger: Any) -> int:
    """A checksum of the ledger's own numbers: a guard does not heal by a ledger that was itself damaged."""
    total = 0
    for number, x in enumerate(ledger.tensors().values()):
        plain = x.view(torch.int64) if x.dtype == torch.float64 else x.long()
        odd = 2 * torch.arange(plain.numel()) + 1
        total += (number + 1) * int((plain.flatten() * odd).sum())
    return total % 2**63
