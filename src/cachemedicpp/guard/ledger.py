"""What a guard remembers of one cache: tokens, positions, a fingerprint of every block as it was written."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from cachemedicpp.cache.state import KVState
from cachemedicpp.guard.sums import Sums
from homeostat.core.errors import UserError

BLOCK = 32


@dataclass(frozen=True, order=True)
class Damage:
    """A block of one sequence whose stored bits are not those that were written."""

    row: int
    layer: int
    block: int
    tensor: str  # "K", "V" or "KV"

    @property
    def kinds(self) -> list[int]:
        """0 for keys, 1 for values."""
        return ["KV".index(name) for name in self.tensor]


@dataclass(frozen=True, repr=False)
class Ledger:
    """Fingerprints of the first `length` positions, and what made them."""

    ids: Tensor  # [B, T]
    mask: Tensor  # [B, T] bool: real tokens
    positions: Tensor  # [B, T]
    sums: Sums  # of layers that store every position
    windows: Sums  # of layers with a sliding window
    seal: int = field(default=0)

    def __repr__(self) -> str:
        return f"{self.rows} × {self.length} positions, {self.count} fingerprints"

    @property
    def length(self) -> int:
        return int(self.ids.shape[1])

    @property
    def rows(self) -> int:
        return int(self.ids.shape[0])

    @property
    def layers(self) -> int:
        return len(self.sums.sums) + len(self.windows.sums)

    @property
    def block(self) -> int:
        return self.sums.block

    @property
    def count(self) -> int:
        """How many fingerprints there are."""
        return self.sums.sums.numel() + self.windows.sums.numel()

    @property
    def intact(self) -> bool:
        """Whether the ledger itself is as it was written."""
        return self.seal == _seal(self)

    @classmethod
    def empty(cls, state: KVState, block: int) -> Ledger:
        none = torch.zeros(state.batch, 0, dtype=torch.long)
        whole, windows = (Sums.empty(state, block, window) for window in (False, True))
        return cls(none, none.bool(), none, whole, windows).sealed()

    def sealed(self) -> Ledger:
        return replace(self, seal=_seal(self))

    def extend(self, state: KVState, ids: Tensor, mask: Tensor, positions: Tensor) -> Ledger:
        """This ledger with the positions that the cache has grown by, from tokens `[B, n]`."""
        start, end = self.length, self.length + ids.shape[1]
        return replace(
            self.told(ids, mask, positions),
            sums=self.sums.extend(state, start, end, mask.bool()),
            windows=self.windows.extend(state, start, end, mask.bool()),
        ).sealed()

    def told(self, ids: Tensor, mask: Tensor, positions: Tensor) -> Ledger:
        """This ledger with more tokens and no fingerprints of them (and so not sealed)."""
        return replace(
            self,
            ids=torch.cat((self.ids, ids.cpu()), 1),
            mask=torch.cat((self.mask, mask.cpu().bool()), 1),
            positions=torch.cat((self.positions, positions.cpu()), 1),
        )

    def check(self, state: KVState, grown: bool = True) -> None:
        """Refuse a cache that cannot be the one that was fingerprinted; it may have `grown` since."""
        shapes = [x.shape for kv in state for x in kv]
        same = len(state) == self.layers and all(len(s) == 4 and s[:1] == (self.rows,) for s in shapes)
        ends = {state.start(layer) + x.shape[2] for layer, kv in enumerate(state) for x in kv}
        lengths = ends if same else set()
        if len(lengths) != 1 or min(lengths) < self.length or (not grown and max(lengths) > self.length):
            here = f"{len(state)} layers" + "".join(f", {list(s)}" for s in dict.fromkeys(shapes))
            raise UserError(
                f"this cache ({here}) is not the one that was fingerprinted ({self.layers} layers, "
                f"{self.rows} × {self.length} positions)"
            )

    def compare(self, state: KVState) -> list[Damage]:
        """Blocks of `state` whose bits differ from what was written, in order."""
        wrong: dict[tuple[int, int, int], set[str]] = defaultdict(set)
        for sums in (self.sums, self.windows):
            for row, layer, block, kind in sums.changed(state, self.length):
                wrong[row, layer, block].add("KV"[kind])
        return sorted(Damage(*where, "".join(sorted(tensors))) for where, tensors in wrong.items())

    def renewed(self, state: KVState, damages: list[Damage]) -> Ledger:
        """This ledger with new fingerprints of the healed blocks, and only of those."""
        ledger = replace(self, sums=self.sums.copy(), windows=self.windows.copy())
        for damage in damages:
            span, offset = self.span(damage, state), state.start(damage.layer)
            row = slice(damage.row, damage.row + 1)
            real = self.mask[row, span.start : span.stop]
            for kind in damage.kinds:
                x = state[damage.layer][kind][row, :, span.start - offset : span.stop - offset]
                ledger._of(damage.layer).renew(damage.layer, kind, damage.row, span, x, real)
        return ledger.sealed()

    def span(self, damage: Damage, state: KVState) -> range:
        """The positions of a damaged block that its layer still stores."""
        first = damage.block * self.block
        return range(max(first, state.start(damage.layer)), min(first + self.block, self.length))

    def sketch(self, damage: Damage, kind: int, span: range) -> Tensor:
        """What was written to the stored positions `span` of a damaged block, `[WIDTH]`."""
        return self._of(damage.layer).sketch(damage.layer, kind, damage.row, span)

    def crop(self, state: KVState, length: int) -> Ledger:
        """The ledger of the first `length` positions; a block that is cut gets a new fingerprint."""
        whole = length // self.block * self.block
        kept = replace(
            self,
            ids=self.ids[:, :whole],
            mask=self.mask[:, :whole],
            positions=self.positions[:, :whole],
            sums=self.sums.crop(whole),
            windows=self.windows.crop(whole),
        )
        cut = slice(whole, length)
        return kept.extend(state, self.ids[:, cut], self.mask[:, cut], self.positions[:, cut])

    def select(self, rows: Tensor) -> Ledger:
        """The ledger of a batch reordered, repeated or thinned to these rows."""
        rows = rows.cpu()
        return replace(
            self,
            ids=self.ids[rows],
            mask=self.mask[rows],
            positions=self.positions[rows],
            sums=self.sums.select(rows),
            windows=self.windows.select(rows),
        ).sealed()

    def tensors(self) -> dict[str, Tensor]:
        own = {name: getattr(self, name).contiguous() for name in ("ids", "mask", "positions")}
        windows = self.windows.tensors() if self.windows.layers else {}
        return own | self.sums.tensors() | windows

    def _of(self, layer: int) -> Sums:
        return self.windows if layer in self.windows.layers else self.sums


def _seal(ledger: Ledger) -> int:
    """A checksum of the ledger's own numbers: a guard does not heal by a ledger that was itself damaged."""
    total = hashlib.blake2b(str(ledger.block).encode(), digest_size=8)
    for name, x in ledger.tensors().items():
        total.update(f"{name} {x.dtype} {list(x.shape)}".encode())
        total.update(x.numpy().tobytes())
    return int.from_bytes(total.digest())
