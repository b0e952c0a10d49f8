"""What is usual in each channel of a model's cache, learned from ordinary text.

The first position has a table of its own: it is the attention sink, whose numbers are like no other's and
would widen every limit. Keys are measured before their rotation by position, so that what holds at the places
of the calibration text holds at every later one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from cachemedicpp.cache.prefill import prefill
from cachemedicpp.cache.rotation import Pairs
from cachemedicpp.cache.state import KV, Geometry
from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.progress import track

FIRST = 0  # positions up to this one have the first table
_ROUNDING = 1e-3  # of a channel's range: what taking a rotation off may add


@dataclass(frozen=True)
class Levels:
    """Per layer, keys and values, head and channel: `[2, L, 2, H_kv, d]`, first position and rest."""

    low: Tensor
    high: Tensor
    mean: Tensor
    rms: Tensor  # of whole vectors, the mean over tokens: `[2, L, 2, H_kv, 1]`
    theta: Tensor  # [L, d], and `partner` [d]: the rotation of the keys, as in `Pairs`
    partner: Tensor

    def of(self, name: str, layer: int, tensor: int, positions: Tensor) -> Tensor:
        """A table of one layer's keys (0) or values (1) at `positions` `[B, T]`: `[B, H, T, d]`."""
        first, rest = getattr(self, name)[:, layer, tensor].to(positions.device)  # [H, d]
        here = (positions <= FIRST)[:, None, :, None]
        return torch.where(here, first[None, :, None], rest[None, :, None])

    def beyond(self, kv: KV, layer: int, positions: Tensor) -> KV:
        """Elements (of keys: before their rotation) outside what their channel has held in calibration.

        What is not a number lies beyond every limit.
        """
        found = []
        for tensor, x in enumerate((self.turned(kv.K, layer, positions, back=True), kv.V)):
            low, high = (self.of(name, layer, tensor, positions).to(x.dtype) for name in ("low", "high"))
            slack = _ROUNDING * (high - low)
            found.append(~((x >= low - slack) & (x <= high + slack)))
        return KV(*found)

    def turned(self, K: Tensor, layer: int, positions: Tensor, back: bool = False) -> Tensor:
        """Keys `[B, H, T, d]` with the rotation of their `positions` `[B, T]` put on, or taken off."""
        turn = Pairs(self.theta.to(K.device), self.partner.to(K.device)).at(positions.flatten(), layer)
        if turn.still:
            return K
        rows = K.transpose(1, 2).flatten(0, 1).float()  # [B * T, H, d]
        rows = turn.back(rows) if back else turn.turn(rows)
        return rows.reshape(*positions.shape, *rows.shape[1:]).transpose(1, 2).to(K.dtype)

    def save(self, path: Path) -> None:
        atomic.write_bytes(path, save({name: x.contiguous() for name, x in vars(self).items()}))

    @classmethod
    def load(cls, path: Path) -> Levels:
        try:
            return cls(**load_file(path))
        except (OSError, SafetensorError, TypeError) as error:
            raise UserError(f"cannot read {path}: {error}; delete it to measure it again") from None


@torch.no_grad()
def measure_levels(model: Any, windows: Tensor, batch: int = 8) -> Levels:
    """Levels from `windows` `[N, T]` of token ids."""
    geometry = Geometry.of(model)
    pairs = Pairs.probe(model, geometry.layers, geometry.head_dim)
    turns = [pairs.at(torch.arange(windows.shape[1]), layer) for layer in range(geometry.layers)]
    tables: list[dict[str, Tensor]] = []
    for ids in track(list(torch.split(windows, batch)), "usual levels"):
        state = prefill(model, ids)
        plain = [
            torch.stack([turn.back(K.float().cpu().movedim(2, 0)).movedim(0, 2), V.float().cpu()])
            for turn, (K, V) in zip(turns, state, strict=True)
        ]
        parts = [part.flatten(4, 5) for part in _by_place(torch.stack(plain))]  # [L, 2, H, d, n] each
        size = [part.square().mean(-2, keepdim=True).sqrt() for part in parts]
        tables.append(
            {
                "low": torch.stack([part.amin(-1) for part in parts]),
                "high": torch.stack([part.amax(-1) for part in parts]),
                "mean": torch.stack([part.mean(-1) for part in parts]) * len(ids),
                "rms": torch.stack([part.mean(-1) for part in size]) * len(ids),
            }
        )
    return Levels(
        low=torch.stack([t["low"] for t in tables]).amin(0),
        high=torch.stack([t["high"] for t in tables]).amax(0),
        mean=torch.stack([t["mean"] for t in tables]).sum(0) / len(windows),
        rms=torch.stack([t["rms"] for t in tables]).sum(0) / len(windows),
        theta=pairs.theta,
        partner=pairs.partner,
    )


def _by_place(x: Tensor) -> list[Tensor]:
    """`[L, 2, B, H, T, d]` as first positions and the rest, each `[L, 2, H, d, B, T']`."""
    x = x.permute(0, 1, 3, 5, 2, 4)
    return [x[..., : FIRST + 1], x[..., FIRST + 1 :]]
