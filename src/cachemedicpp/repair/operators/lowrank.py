"""Operators made of low-rank forms, and the attention that reads through them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from cachemedicpp.cache.masks import masked
from cachemedicpp.cache.state import KV, Geometry
from cachemedicpp.repair.base import QueryRepair, numbered
from cachemedicpp.repair.operators.form import Form
from cachemedicpp.repair.operators.trained import Trained
from cachemedicpp.repair.operators.turned import Turned, Turning
from homeostat.core.config import ConfigModel
from homeostat.core.errors import UserError


class LowRankConfig(ConfigModel):
    """Settings of operators A, B and C."""

    rank: int = Field(8, ge=1)
    before_rotary: bool = Field(
        False, description="A, B and C: work on keys before their rotary embedding; D always does"
    )


def check_rank(rank: int, geometry: Geometry) -> None:
    if rank > geometry.head_dim:
        raise UserError(
            f"repair.rank = {rank} is above the model's head dimension {geometry.head_dim}: choose at most "
            "that"
        )


class LowRankRepair(Trained, QueryRepair):
    """A form for each protected layer and for keys, values or both.

    Keys are read as they are stored or, with `before_rotary`, without the rotation of their positions. Then
    the change of a key depends on its position, `k̂_t = R_t (u_t + ((u_t W) ⊙ m(q)) Uᵀ)`, and a query adds
    `Σ_r (u_t W)_r m_r(q) (R_t U_r · q)` to each score instead of being changed once.
    """

    def __init__(
        self, name: str, layers: tuple[int, ...], geometry: Geometry, before_rotary: bool = False
    ) -> None:
        super().__init__(name, layers, geometry)
        self.turning = Turning(geometry) if before_rotary else None

    @abstractmethod
    def form(self, layer: int, tensor: str) -> Form | None:
        """The form that repairs `tensor` ("K" or "V") of a layer; None: it is left alone."""

    def shift(self, layer: int, tensor: str) -> Tensor | None:
        """What conditions the gate beside the query: `[H_kv or 1, 1, r]`."""
        return None

    def prepare(self, model: Any, windows: Callable[[], Tensor]) -> None:
        if self.turning is not None:
            self.turning.learn(model)

    def attend(
        self, layer: int, query: Tensor, old: KV, new: KV, mask: Tensor | None, **options: Any
    ) -> tuple[Tensor, Tensor | None]:
        if options.get("s_aux") is not None:
            raise UserError("a query-conditioned repair cannot serve a model with learned attention sinks")
        B, H, Q, d = query.shape
        kv_heads, stored = old.K.shape[1], old.K.shape[2]
        q = query.reshape(B, kv_heads, H // kv_heads * Q, d)  # query heads of one KV head side by side
        scaling = options.get("scaling") or d**-0.5
        first = self._scores(layer, q, old.K, mask, int(options.get("dropped", 0)))
        scores = torch.cat((first, q @ new.K.mT), dim=-1) * scaling  # [B, H_kv, G·Q, T]
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
                turned = self._turned(layer, x, None, 0) if tensor == "K" else None
                x = x.float() if turned is None else turned.back(x.float())
                x = form.mean_repair(x, q.float(), self.shift(layer, tensor))
                repaired[tensor] = x if turned is None else turned.turn(x)
        return KV(repaired["K"], repaired["V"])

    def _scores(self, layer: int, q: Tensor, K: Tensor, mask: Tensor | None, dropped: int) -> Tensor:
        """`q · k̂_t` for queries `[B, H_kv, N, d]` and stored keys `[B, H_kv, T, d]`: `[B, H_kv, N, T]`."""
        form = self.form(layer, "K")
        if form is None:
            return q @ K.mT
        shift, turned = self.shift(layer, "K"), self._turned(layer, K, mask, dropped)
        if turned is None:
            return form.query(q.float(), shift).to(q.dtype) @ K.mT
        W, U = form.factors()  # [H_kv or 1, d, r]
        c = turned.back(K.float()) @ W  # [B, H_kv, T, r]
        added = c.unsqueeze(-1) * U.mT.unsqueeze(1)  # [B, H_kv, T, r, d]
        added = turned.turn(added).flatten(-2)
        weighed = form.modulation(q.float(), shift).unsqueeze(-1) * q.float().unsqueeze(-2)  # [.., N, r, d]
        return q @ K.mT + (weighed.flatten(-2) @ added.mT).to(q.dtype)

    def _turned(self, layer: int, K: Tensor, mask: Tensor | None, dropped: int) -> Turned | None:
        """The rotation of the stored keys; None: they are read as they are."""
        if self.turning is None:
            return None
        return self.turning.at(layer, numbered(K, mask, dropped)[1])

    def _output(self, layer: int, o: Tensor, q: Tensor) -> Tensor:
        form = self.form(layer, "V")
        return o if form is None else form.output(o.float(), q.float(), self.shift(layer, "V")).to(o.dtype)
