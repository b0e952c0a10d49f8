"""What every repair has in common: heuristics, calibrated operators and trained operators.

    repair = load_repair("runs/…/operator", model)
    repair.repair_cache(cache, attention_mask)     # at rest: what is stored is repaired once
    with medic(model, repair=repair): …            # inline: what attention reads is repaired at every call

A query-independent repair does the same in both ways. A query-conditioned one (`query_conditioned`) needs the
query, so it only works inline.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import Cache

from cachemedicpp.cache.state import KV, KVState, positions, write
from cachemedicpp.corruption.masks import AxesConfig
from homeostat.core.errors import UserError


@dataclass(frozen=True)
class Stored:
    """What a repair knows about one layer's stored positions, beside the keys and values themselves."""

    layer: int
    real: Tensor  # [B, T] bool: not padding
    positions: Tensor  # [B, T]: counted from each sequence's first real token
    suspect: Tensor | None = None  # [B, H_kv, T] bool: the true mask, for a defence with oracle knowledge

    def since(self, start: int) -> Stored:
        """The same for a layer that stores positions from `start` on."""
        if start == 0:
            return self
        suspect = None if self.suspect is None else self.suspect[..., start:]
        return Stored(self.layer, self.real[:, start:], self.positions[:, start:], suspect)

    def region(self, kv_heads: int) -> Tensor:
        """Where a defence may act, `[B, H_kv, T]`: the suspects if known, else all real positions."""
        if self.suspect is not None:
            return self.suspect.to(self.real.device) & self.real.unsqueeze(1)
        return self.real.unsqueeze(1).expand(-1, kv_heads, -1)


class RepairReport(dict[str, Any]):
    """What a repair did to a cache: a plain dict for records, and a few words for people."""

    def __repr__(self) -> str:
        changes = self["relative_change"]
        moved = {layer: change for layer, change in changes.items() if change > 0}
        largest = f", by {max(moved.values()):.2%} at most" if moved else ""
        counts = [f"{count} {name.replace('_', ' ')}" for name, count in self._counts() if count]
        told = "; ".join([f"{len(moved)} of {len(changes)} layers changed{largest}", *counts])
        return f"RepairReport({self['repair']}: {told})"

    def __str__(self) -> str:
        """The same, and what was decided about each block of positions, with equal neighbours together."""
        lines = [repr(self)]
        for row, blocks in groupby(self.get("blocks", ()), key=lambda block: block["row"]):
            told = []
            for decision, same in groupby(blocks, key=lambda block: block["decision"]):
                run = list(same)
                share = sum(block["changed"] for block in run) / len(run)
                much = f" ({share:.2%} of the elements)" if share else ""
                told.append(f"{run[0]['first']}–{run[-1]['last']} {decision}{much}")
            lines.append(f"  sequence {row}: " + ", ".join(told))
        return "\n".join(lines)

    def _counts(self) -> Iterator[tuple[str, int]]:
        """What an operator reports beyond the change of each layer: numbers, and how long its lists are."""
        for name, value in self.items():
            if isinstance(value, dict) and name != "relative_change":
                yield from value.items()
            elif name == "blocks":
                counts = Counter(block["decision"] for block in value)
                yield from ((f"blocks {decision}", count) for decision, count in sorted(counts.items()))
            elif isinstance(value, int | list):
                yield name, value if isinstance(value, int) else len(value)


class Repair(ABC):
    """Maps stored keys and values to better ones. `layers` are those it protects."""

    name: str
    layers: tuple[int, ...]
    query_conditioned: ClassVar[bool] = False
    whole_cache: ClassVar[bool] = False  # reads all layers together, so it needs `repair_cache`
    discards: ClassVar[bool] = False  # throws away all that damage can reach: every cell has the same score
    timed: ClassVar[bool] = False  # an evaluation tells it which positions its time mask lets damage reach

    def __repr__(self) -> str:
        how = "inside attention" if self.query_conditioned else "at rest"
        return f"{type(self).__name__}({self.name!r}, {len(self.layers)} layers, {how})"

    def under(self, axes: AxesConfig) -> Repair:
        """This repair where the protocol's masks are `axes`, for those that use them."""
        return self

    def knowing(self, suspects: Mapping[int, Tensor]) -> Repair:
        """This repair with oracle knowledge, where it is not given with the cache."""
        return self

    @abstractmethod
    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        """Repaired `K` and `V` `[B, H_kv, T, d]` of one protected layer. Never writes into its input."""

    def check(self, model: Any) -> None:
        """Refuse a model this repair was not made for."""
        count = int(model.config.get_text_config().num_hidden_layers)
        if self.layers and self.layers[-1] >= count:
            raise UserError(
                f"repair {self.name!r} protects layer {self.layers[-1]}: the model has {count} layers"
            )

    def repair_cache(
        self,
        cache: Cache,
        attention_mask: Tensor | None = None,
        suspect: Mapping[int, Tensor] | None = None,
    ) -> RepairReport:
        """Repair what `cache` stores, in place, and report how far each layer moved.

        `suspect` gives the true mask of each layer to a defence that is to have oracle knowledge.
        """
        state = KVState(cache)
        known = layout(state.length, state.batch, attention_mask, state[0].K.device)
        repaired: dict[int, KV] = {}
        moved: dict[str, float] = {}
        for layer in self.layers:
            stored = Stored(layer, *known, None if suspect is None else suspect[layer]).since(
                state.start(layer)
            )
            repaired[layer] = self.repair_layer(state[layer], stored)
            moved[str(layer)] = relative_change(state[layer], repaired[layer])
        write(cache, repaired)
        return RepairReport(repair=self.name, relative_change=moved)


class QueryRepair(Repair):
    """A repair whose effect depends on the query, so that it works inside attention only."""

    query_conditioned = True

    @abstractmethod
    def attend(
        self, layer: int, query: Tensor, old: KV, new: KV, mask: Tensor | None, **options: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Attention where `query` `[B, H, Q, d]` reads `old` repaired and `new` as it is.

        `options` are those of transformers' attention functions, and `dropped`: how many stored positions a
        sliding window has dropped before `old`.

        What one query's gate does to the state is seen by that query only. Returns `[B, Q, H, d]` and, like
        transformers' attention functions, the weights or None.
        """

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        raise UserError(
            f"repair {self.name!r} is conditioned on the query and cannot repair a cache at rest: "
            "use it inside `with medic(model, repair=…)`"
        )


def layout(
    length: int, batch: int, attention_mask: Tensor | None, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Which of the stored positions are real, and their numbers: two tensors `[B, T]`."""
    if attention_mask is None:
        numbers = positions(length, None, batch, device)
        return torch.ones_like(numbers, dtype=torch.bool), numbers
    if attention_mask.dim() != 2 or len(attention_mask) != batch or attention_mask.shape[1] < length:
        raise UserError(
            f"attention_mask has shape {list(attention_mask.shape)}; the cache holds {batch} × {length} "
            "positions"
        )
    real = attention_mask[:, :length].to(device, torch.bool)
    return real, positions(length, attention_mask, batch, device)


def numbered(K: Tensor, mask: Tensor | None, dropped: int) -> tuple[Tensor, Tensor]:
    """The same for stored keys `[B, H_kv, T, d]` as attention sees them, under transformers' mask.

    What the newest query may not read is padding; `dropped` positions before these left a sliding window.
    """
    batch, stored = K.shape[0], K.shape[2]
    if mask is None:
        numbers = positions(stored, None, batch, K.device)
        return torch.ones_like(numbers, dtype=torch.bool), numbers + dropped if dropped else numbers
    row = mask[:, 0, -1, :stored]
    real = (row if row.dtype == torch.bool else row == 0).expand(batch, -1)
    return real, positions(stored, real.int(), batch, K.device) + dropped


def load_repair(path: str | Path, model: Any = None, *, strict: bool = True) -> Repair:
    """Read a repair from its folder (card and tensors); with a model, check that it fits.

    `strict=False` takes any model of the same sizes, for instance a fine-tuned one: whether the repair helps
    there is for you to measure.
    """
    from cachemedicpp.repair.cards import read_card
    from cachemedicpp.repair.registry import DEFENCES

    card = read_card(Path(path))
    load = DEFENCES[card["family"]].load
    if load is None:
        raise UserError(f"{path}: a repair {card['family']!r} is not one that is stored")
    if not strict:
        card = card | {"model": {"id": None, "revision": None, "weights": None}}
    repair = load(Path(path), card)
    if model is not None:
        repair.check(model)
    return repair


def relative_change(before: KV, after: KV) -> float:
    """How far a layer moved, as a share of its size."""
    moved = sum(float((a - b).double().square().sum()) for a, b in zip(after, before, strict=True))
    size = sum(float(b.double().square().sum()) for b in before)
    return float((moved / size) ** 0.5) if size else 0.0
