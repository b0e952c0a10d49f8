"""Clean states of ordinary text, collected once: operators are fitted to them and trained on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from cachemedicpp.cache.state import KV, KVState
from cachemedicpp.repair.attach import medic
from cachemedicpp.repair.base import Repair, Stored
from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.progress import track

_BATCH = 4
QUERIES = 4  # tokens that read each window: what a query-conditioned operator is trained with


@dataclass(frozen=True)
class States:
    """What the protected layers store for windows of text, and the queries of the tokens that follow."""

    layers: tuple[int, ...]
    x: Tensor  # [W, T, L, G, d]: keys, then values, as stored
    queries: Tensor  # [W, L, H, Q, d]

    def of(self, rows: list[int]) -> dict[int, KV]:
        """The state of some windows, by layer."""
        return split(self.layers, self.x[rows])

    def save(self, path: Path) -> None:
        atomic.write_bytes(path, save({"x": self.x.contiguous(), "queries": self.queries.contiguous()}))

    @classmethod
    def load(cls, path: Path, layers: tuple[int, ...]) -> States:
        try:
            tensors = load_file(path)
        except (OSError, SafetensorError) as error:
            raise UserError(f"cannot read {path}: {error}; delete it to collect it again") from None
        return cls(layers, tensors["x"], tensors["queries"])

    def part(self, rows: slice) -> States:
        return States(self.layers, self.x[rows], self.queries[rows])

    def to(self, device: torch.device) -> States:
        return States(self.layers, self.x.to(device), self.queries.to(device))

    def asked(self, rows: list[int]) -> dict[int, Tensor]:
        return {layer: self.queries[rows, i] for i, layer in enumerate(self.layers)}


def split(layers: tuple[int, ...], x: Tensor) -> dict[int, KV]:
    """`x` `[B, T, L, G, d]` by layer, as caches have it: `[B, H_kv, T, d]`."""
    keys = x.shape[3] // 2
    parts = {layer: x[:, :, i].transpose(1, 2) for i, layer in enumerate(layers)}
    return {layer: KV(part[:, :keys], part[:, keys:]) for layer, part in parts.items()}


def join(layers: tuple[int, ...], state: Mapping[int, KV]) -> Tensor:
    """The inverse of `split`."""
    return torch.stack([torch.cat(state[layer], dim=1).transpose(1, 2) for layer in layers], dim=2)


@torch.no_grad()
def collect(model: Any, windows: Tensor, layers: tuple[int, ...]) -> States:
    """Run `windows` `[W, T]` of text; their last tokens only ask."""
    stored, asked = [], []
    for ids in track(torch.split(windows.to(model.device), _BATCH), "clean states"):
        cache = model.base_model(input_ids=ids[:, :-QUERIES], use_cache=True).past_key_values
        state = KVState(cache)
        stored.append(join(layers, {layer: state[layer] for layer in layers}).float().cpu())
        seen: dict[int, Tensor] = {}
        with medic(model, repair=_Watch(layers)) as session:
            assert session.repairing is not None  # noqa: S101
            session.repairing.observer = lambda layer, query, _, seen=seen: seen.update({layer: query})
            model.base_model(input_ids=ids[:, -QUERIES:], past_key_values=cache, use_cache=True)
        asked.append(torch.stack([seen[layer] for layer in layers], dim=1).float().cpu())
    return States(layers, torch.cat(stored), torch.cat(asked))


class _Watch(Repair):
    """Changes nothing: it is there so that queries can be seen."""

    name = "watch"

    def __init__(self, layers: tuple[int, ...]) -> None:
        self.layers = layers

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        return kv
