"""The form that options A and B share: a low-rank change of each vector, weighed by the query.

    X̂ = X + ((X W) ⊙ m(q)) Uᵀ        W, U ∈ R^{d×r},  m(q) ∈ R^r

It is linear in `X`, so a query can read the repaired state without building it:

    q · k̂_t     = q' · k_t             with q' = q + ((q U) ⊙ m(q)) Wᵀ
    Σ a_t v̂_t   = o + ((o W) ⊙ m(q)) Uᵀ   with o = Σ a_t v_t

That is two small products per query, whatever the length of the cache. Each query sees its own gate only,
so a later token cannot change what an earlier one reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class Form(nn.Module, ABC):
    """The change of one layer's keys or values; `heads` is 1 where all KV heads share it, else H_kv."""

    def __init__(self, d: int, rank: int, heads: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(heads, d, rank))
        self.bias = nn.Parameter(torch.zeros(heads, 1, rank))
        self._temperature = d**-0.5

    @abstractmethod
    def factors(self) -> tuple[Tensor, Tensor]:
        """`W` and `U`, each `[heads, d, r]`."""

    @abstractmethod
    def modulation(self, q: Tensor, shift: Tensor | None = None) -> Tensor:
        """`m(q)` `[B, H_kv, N, r]` for queries `[B, H_kv, N, d]`; `shift` moves the gate's logits."""

    def gate_logits(self, q: Tensor, shift: Tensor | None) -> Tensor:
        logits: Tensor = (q * self._temperature) @ self.gate + self.bias
        return logits if shift is None else logits + shift

    def query(self, q: Tensor, shift: Tensor | None = None) -> Tensor:
        """`q'`: the query that sees plain keys as `q` sees repaired ones."""
        W, U = self.factors()
        return q + ((q @ U) * self.modulation(q, shift)) @ W.mT

    def output(self, o: Tensor, q: Tensor, shift: Tensor | None = None) -> Tensor:
        """The weighted sum of repaired values, from that of plain ones."""
        W, U = self.factors()
        return o + ((o @ W) * self.modulation(q, shift)) @ U.mT

    def mean_repair(self, x: Tensor, q: Tensor, shift: Tensor | None = None) -> Tensor:
        """`X̂` averaged over the queries that read it (exact: the form is linear in `m`)."""
        W, U = self.factors()
        m = self.modulation(q, shift).mean(-2, keepdim=True)  # [B, H_kv, 1, r]
        return x + ((x @ W) * m) @ U.mT
