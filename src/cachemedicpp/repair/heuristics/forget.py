"""Forget what may be damaged: the model reads on as if those positions had never been stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.cache.masks import masked
from cachemedicpp.cache.state import KV
from cachemedicpp.corruption.masks import AxesConfig
from cachemedicpp.repair.base import QueryRepair, numbered
from cachemedicpp.repair.heuristics.time import reachable
from cachemedicpp.repair.registry import register
from homeostat.core.errors import UserError


@register("forget", "forgetting", "A heuristic: the model reads nothing that damage can reach.", order=55)
@dataclass(frozen=True)
class Forget(QueryRepair):
    """In the protected layers no query sees a stored position that damage may have reached.

    Hidden are the positions of the true mask where it is known (`suspects` `[B, H_kv, T]` by layer), else
    those of the protocol's time mask. All others keep their keys, values and position numbers. What is left
    is exact, so every repair has to be worth more than this.
    """

    layers: tuple[int, ...]
    axes: AxesConfig | None = None  # None: everything that is stored
    suspects: Mapping[int, Tensor] | None = None
    discards = True

    def under(self, axes: AxesConfig) -> Forget:
        return replace(self, axes=axes)

    def knowing(self, suspects: Mapping[int, Tensor]) -> Forget:
        return replace(self, suspects=suspects)

    def attend(
        self, layer: int, query: Tensor, old: KV, new: KV, mask: Tensor | None, **options: Any
    ) -> tuple[Tensor, Tensor | None]:
        if options.get("s_aux") is not None:
            raise UserError("forget cannot serve a model with learned attention sinks")
        B, H, Q, d = query.shape
        kv_heads, stored = old.K.shape[1:3]
        dropped = int(options.get("dropped", 0))
        numbers, region = self._region(layer, old.K, mask, dropped)  # [B, stored]; [B, H_kv or 1, stored]
        old, hidden = self.forgotten(layer, old, numbers, region)
        K, V = torch.cat((old.K, new.K), dim=-2), torch.cat((old.V, new.V), dim=-2)
        start = int((~hidden).flatten(0, 1).any(0).int().argmax()) if bool((~hidden).any()) else stored
        K, V, hidden = K[..., start:, :], V[..., start:, :], hidden[..., start:]  # none of them sees these
        q = query.reshape(B, kv_heads, H // kv_heads * Q, d)  # query heads of one KV head side by side
        scores = q @ K.mT * (options.get("scaling") or d**-0.5)  # [B, H_kv, G·Q, T]
        if (cap := options.get("softcap")) is not None:
            scores = torch.tanh(scores / cap) * cap
        scores = scores.view(B, kv_heads, H // kv_heads, Q, -1)
        scores = masked(scores, None if mask is None else mask[..., start : stored + new.K.shape[-2]])
        unseen = torch.nn.functional.pad(hidden, (0, new.K.shape[-2]))
        V = V.masked_fill(unseen.unsqueeze(-1), 0.0)  # a weight of 0 does not silence what is not a number
        scores = scores.masked_fill(unseen[:, :, None, None], torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype).flatten(2, 3)
        return (weights @ V).view(B, H, Q, d).transpose(1, 2).contiguous(), None

    def forgotten(self, layer: int, old: KV, numbers: Tensor, region: Tensor) -> tuple[KV, Tensor]:
        """What is stored, with what is put in its place, and what is hidden of `region`."""
        return old, region

    def _region(self, layer: int, K: Tensor, mask: Tensor | None, dropped: int) -> tuple[Tensor, Tensor]:
        """The numbers of the stored positions, and where damage may have been."""
        batch, stored = K.shape[0], K.shape[2]
        real, numbers = numbered(K, mask, dropped)
        if self.suspects is not None:
            told = self.suspects[layer][..., -stored:].to(K.device)
            if batch < len(told):  # a layer that no fork was damaged in, run once for all of them
                return numbers, told[:batch]
            # a sequence may have become several rows
            return numbers, told.repeat_interleave(batch // len(told), 0)
        if self.axes is None:
            return numbers, real.unsqueeze(1)
        return numbers, reachable(self.axes, real, numbers, dropped).unsqueeze(1)
