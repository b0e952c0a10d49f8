"""What a guard remembers of one cache: tokens, positions, a fingerprint of every block as it was written."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from cachemedicpp.cache.state import KVState
from cachemedicpp.guard import sketch
from cachemedicpp.guard.fingerprint import Weights, add, digest, weights
from cachemedicpp.guard.windows import Windows
from homeostat.core.errors import UserError

BLOCK = 32


@dataclass(frozen=True, order=True)
class Damage:
    """A block of one sequence whose stored bits are not those that were written."""

    row: int
    layer: int
    block: int
    tensor: str  # "K", "V" or "KV"


@dataclass(frozen=True, repr=False)
class Ledger:
    """Fingerprints `[L, 2, B, n]` (keys, values) of the first `length` positions, and what made them."""

    ids: Tensor  # [B, T]
    mask: Tensor  # [B, T] bool: real tokens
    positions: Tensor  # [B, T]
    sums: Tensor  # [L, 2, B, n] int64
    sketches: Tensor  # [L, 2, B, n, WIDTH] float64: to tell a good recomputation from another
    windows: Windows  # fingerprints of layers with a sliding window, whose sums here are 0
    block: int = BLOCK
    seal: int = field(default=0)

    def __repr__(self) -> str:
        return f"{self.rows} × {self.length} positions, {self.sums.numel()} fingerprints"

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
        sums = torch.zeros(shape, dtype=torch.int64)
        sketches = torch.zeros(*shape, sketch.WIDTH, dtype=torch.float64)
        return cls(none, none.bool(), none, sums, sketches, Windows.empty(state), block).sealed()

    def sealed(self) -> Ledger:
        return replace(self, seal=_seal(self))

    def extend(self, state: KVState, ids: Tensor, mask: Tensor, positions: Tensor) -> Ledger:
        """This ledger with the positions that the cache has grown by, from tokens `[B, n]`."""
        start, end = self.length, self.length + ids.shape[1]
        sums, sketches = [], []
        weight, places = _weights(state, self.block, start, end), torch.arange(start, end) % self.block
        windowed = self.windows.layers.tolist()
        for layer, kv in enumerate(state):
            for kind, x in enumerate(kv):
                if layer in windowed:
                    shares = torch.zeros(self.rows, end - start, dtype=torch.int64, device=x.device)
                    drawn = torch.zeros(self.rows, end - start, sketch.WIDTH, dtype=torch.float64)
                else:
                    new = x[:, :, start:end]
                    shares = digest(new, weight)
                    drawn = sketch.shares(new, mask.bool(), places, self.block)
                sums.append(add(self.sums[layer, kind].to(x.device), shares, start, self.block).cpu())
                sketches.append(sketch.add(self.sketches[layer, kind], drawn, start, self.block))
        shape = (len(state), 2, self.rows, -1)
        return replace(
            self.told(ids, mask, positions),
            sums=torch.stack(sums).view(shape),
            sketches=torch.stack(sketches).view(*shape, sketch.WIDTH),
            windows=self.windows.extend(state, end - start, mask, self.block),
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
        layers = self.sums.shape[0]
        shapes = [x.shape for kv in state for x in kv]
        same = len(state) == layers and all(len(s) == 4 and s[:1] == (self.rows,) for s in shapes)
        ends = {state.start(layer) + x.shape[2] for layer, kv in enumerate(state) for x in kv}
        lengths = ends if same else set()
        if len(lengths) != 1 or min(lengths) < self.length or (not grown and max(lengths) > self.length):
            here = f"{len(state)} layers" + "".join(f", {list(s)}" for s in dict.fromkeys(shapes))
            raise UserError(
                f"this cache ({here}) is not the one that was fingerprinted ({layers} layers, {self.rows} × "
                f"{self.length} positions)"
            )

    def compare(self, state: KVState) -> list[Damage]:
        """Blocks of `state` whose bits differ from what was written, in order."""
        weight = _weights(state, self.block, 0, self.length)
        wrong: dict[tuple[int, int, int], str] = {}
        for row, layer, block, kind in self.windows.wrong(state, self.block):
            told = wrong.get((row, layer, block), "")
            wrong[row, layer, block] = told if "KV"[kind] in told else told + "KV"[kind]
        windowed = self.windows.layers.tolist()
        for layer in (layer for layer in range(len(state)) if layer not in windowed):
            for kind, x in enumerate(state[layer]):
                shares = digest(x[:, :, : self.length], weight)
                now = add(self.sums.new_zeros(self.rows, 0).to(x.device), shares, 0, self.block)
                for row, block in (now.cpu() != self.sums[layer, kind]).nonzero().tolist():
                    wrong[row, layer, block] = wrong.get((row, layer, block), "") + "KV"[kind]
        return sorted(Damage(*where, tensor) for where, tensor in wrong.items())

    def renewed(self, state: KVState, damages: list[Damage]) -> Ledger:
        """This ledger with new fingerprints of the healed blocks, and only of those."""
        sums, sketches = self.sums.clone(), self.sketches.clone()
        whole = weights(state[0].K, self.block)
        windows, windowed = self.windows, self.windows.layers.tolist()
        for damage in damages:
            span, offset = self.span(damage, state), state.start(damage.layer)
            here = slice(span.start, span.stop)
            places = torch.arange(span.start, span.stop) % self.block
            row = slice(damage.row, damage.row + 1)
            for kind in (k for k in (0, 1) if "KV"[k] in damage.tensor):
                x = state[damage.layer][kind][row, :, span.start - offset : span.stop - offset]
                real = self.mask[row, here]
                if damage.layer in windowed:
                    windows = windows.renewed(x, damage.row, damage.layer, kind, span, real, self.block)
                    continue
                where = (damage.layer, kind, damage.row, damage.block)
                sums[where] = digest(x, whole.at(places.to(x.device))).sum().cpu()
                sketches[where] = sketch.shares(x, real, places, self.block).sum(1)[0]
        return replace(self, sums=sums, sketches=sketches, windows=windows).sealed()

    def span(self, damage: Damage, state: KVState) -> range:
        """The positions of a damaged block that its layer still stores."""
        first = damage.block * self.block
        return range(max(first, state.start(damage.layer)), min(first + self.block, self.length))

    def sketch(self, damage: Damage, kind: int, span: range) -> Tensor:
        """What was written to the stored positions `span` of a damaged block, `[WIDTH]`."""
        if damage.layer in self.windows.layers.tolist():
            return self.windows.sketch(damage.row, damage.layer, kind, span)
        return self.sketches[damage.layer, kind, damage.row, damage.block]

    def crop(self, state: KVState, length: int) -> Ledger:
        """The ledger of the first `length` positions; a block that is cut gets a new fingerprint."""
        whole = length // self.block
        kept = replace(
            self,
            ids=self.ids[:, : whole * self.block],
            mask=self.mask[:, : whole * self.block],
            positions=self.positions[:, : whole * self.block],
            sums=self.sums[..., :whole],
            sketches=self.sketches[..., :whole, :],
            windows=self.windows.crop(whole * self.block),
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
            sketches=self.sketches[:, :, rows],
            windows=self.windows.select(rows),
        ).sealed()

    def tensors(self) -> dict[str, Tensor]:
        names = ("ids", "mask", "positions", "sums", "sketches")
        own = {name: getattr(self, name).contiguous() for name in names}
        return own | (self.windows.tensors() if len(self.windows.layers) else {})


def _weights(state: KVState, block: int, start: int, end: int) -> Weights:
    """Weights of positions `start … end - 1`."""
    K = state[0].K
    return weights(K, block).at(torch.arange(start, end, device=K.device) % block)


def _seal(ledger: Ledger) -> int:
    """A checksum of the ledger's own numbers: a guard does not heal by a ledger that was itself damaged."""
    total = hashlib.blake2b(str(ledger.block).encode(), digest_size=8)
    for name, x in ledger.tensors().items():
        total.update(f"{name} {x.dtype} {list(x.shape)}".encode())
        total.update(x.numpy().tobytes())
    return int.from_bytes(total.digest())
