"""Operators made of low-rank forms, and the attention that reads through them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from cachemedicpp.cache.state import KV, Geometry
from cachemedicpp.repair.base import QueryRepair
from cachemedicpp.repair.operators.form import Form
from homeostat.core.errors import UserError


class LowRankRepair(nn.Module, QueryRepair):
    """A form for each protected layer and for keys, values or both. Parameters stay in float32."""

    def __init__(self, name: str, layers: tuple[int, ...], geometry: Geometry) -> None:
        super().__init__()
        self.name, self.layers, self.geometry = name, layers, geometry
        self.model_id: dict[str, str | None] | None = None  # of the model it was trained for, if stored

    __repr__ = QueryRepair.__repr__  # not the module's listing of every parameter

    @abstractmethod
    def form(self, layer: int, tensor: str) -> Form | None:
        """The form that repairs `tensor` ("K" or "V") of a layer; None: it is left alone."""

    def shift(self, layer: int, tensor: str) -> Tensor | None:
        """What conditions the gate beside the query: `[H_kv or 1, 1, r]`."""
        return None

    def check(self, model: Any) -> None:
        from cachemedicpp.repair.cards import check_model

        check_model(self.name, self.geometry, self.model_id, model)
        self.to(model.device)

    def attend(
        self, layer: int, query: Tensor, old: KV, new: KV, mask: Tensor | None, **options: Any
    ) -> tuple[Tensor, Tensor | None]:
        if options.get("s_aux") is not None:
            raise UserError("a query-conditioned repair cannot serve a model with learned attention sinks")
        B, H, Q, d = query.shape
        kv_heads, stored = old.K.shape[1], old.K.shape[2]
        q = query.reshape(B, kv_heads, H // kv_heads * Q, d)  # query heads of one KV head side by side
        scaling = options.get("scaling") or d**-0.5
        reading = self._query(layer, q)
        scores = torch.cat((reading @ old.K.mT, q @ new.K.mT), dim=-1) * scaling  # [B, H_kv, G·Q, T]
        if (cap := options.get("softcap")) is not None:
            scores = torch.tanh(scores / cap) * cap
        scores = masked(scores.view(B, kv_heads, H // kv_heads, Q, -1), mask)
        weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype).flatten(2, 3)
        o_old = self._output(layer, weights[..., :stored] @ old.V, q)
        o = o_old + weights[..., stored:] @ new.V  # [B, H_kv, G·Q, d]
        return o.view(B, H, Q, d).transpose(1, 2).contiguous(), None

    def mean_repair(self, layer: int, query: Tensor, kv: KV) -> KV:
        """The repaired state as the queries `[B, H, Q, d]` of one call see it on average."""
        q = query.reshape(query.shape[0], kv.K.shape[1], -1, query.shape[-1])
        repaired = {"K": kv.K, "V": kv.V}
        for tensor, x in repaired.items():
            if (form := self.form(layer, tensor)) is not None:
                repaired[tensor] = form.mean_repair(x.float(), q.float(), self.shift(layer, tensor))
        return KV(repaired["K"], repaired["V"])

    def _query(self, layer: int, q: Tensor) -> Tensor:
        form = self.form(layer, "K")
        return q if form is None else form.query(q.float(), self.shift(layer, "K")).to(q.dtype)

    def _output(self, layer: int, o: Tensor, q: Tensor) -> Tensor:
        form = self.form(layer, "V")
        return o if form is None else form.output(o.float(), q.float(), self.shift(layer, "V")).to(o.dtype)


def masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores `[B, H_kv, G, Q, T]` under transformers' mask `[B, 1 or H, Q, T]` (true or 0: may be read)."""
    Q, T = scores.shape[-2:]
    low = torch.finfo(scores.dtype).min
    if mask is None:
        if Q == 1:
            return scores
        causal = torch.ones(Q, T, dtype=torch.bool, device=scores.device).tril(T - Q)
        return scores.masked_fill(~causal, low)
    mask = mask[..., :T]
    grouped = mask.unsqueeze(2) if mask.shape[1] == 1 else mask.view(-1, *scores.shape[1:])
    return scores.masked_fill(~grouped, low) if mask.dtype == torch.bool else scores + grouped
