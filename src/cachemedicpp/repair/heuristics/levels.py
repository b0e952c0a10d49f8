"""What is usual in each channel of a model's cache, learned from ordinary text.

The first position has a table of its own: it is the attention sink, whose numbers are like no other's and
would widen every limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from cachemedicpp.cache.state import KVState
from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.progress import track

FIRST = 0  # positions up to this one have the first table


@dataclass(frozen=True)
class Levels:
    """Per layer, keys and values, head and channel: `[2, L, 2, H_kv, d]`, first position and rest."""

    low: Tensor
    high: Tensor
    mean: Tensor
    rms: Tensor  # of whole vectors, the mean over tokens: `[2, L, 2, H_kv, 1]`

    def of(self, name: str, layer: int, tensor: int, positions: Tensor) -> Tensor:
        """A table of one layer's keys (0) or values (1) at `positions` `[B, T]`: `[B, H, T, d]`."""
        first, rest = getattr(self, name)[:, layer, tensor].to(positions.device)  # [H, d]
        here = (positions <= FIRST)[:, None, :, None]
        return torch.where(here, first[None, :, None], rest[None, :, None])

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
    tables: list[Levels] = []
    for ids in track(list(torch.split(windows, batch)), "usual levels"):
        state = KVState(
            model(input_ids=ids.to(model.device), use_cache=True, logits_to_keep=1).past_key_values
        )
        x = torch.stack([torch.stack([K, V]) for K, V in state]).float().cpu()  # [L, 2, B, H, T, d]
        parts = [part.flatten(4, 5) for part in _by_place(x)]  # [L, 2, H, d, n] each
        tables.append(
            Levels(
                torch.stack([part.amin(-1) for part in parts]),
                torch.stack([part.amax(-1) for part in parts]),
                torch.stack([part.mean(-1) for part in parts]) * len(ids),
                torch.stack([part.square().mean(-2, keepdim=True).sqrt().mean(-1) for part in parts])
                * len(ids),
            )
        )
    return Levels(
        torch.stack([t.low for t in tables]).amin(0),
        torch.stack([t.high for t in tables]).amax(0),
        torch.stack([t.mean for t in tables]).sum(0) / len(windows),
        torch.stack([t.rms for t in tables]).sum(0) / len(windows),
    )


def _by_place(x: Tensor) -> list[Tensor]:
    """`[L, 2, B, H, T, d]` as first positions and the rest, each `[L, 2, H, d, B, T']`."""
    x = x.permute(0, 1, 3, 5, 2, 4)
    return [x[..., : FIRST + 1], x[..., FIRST + 1 :]]
