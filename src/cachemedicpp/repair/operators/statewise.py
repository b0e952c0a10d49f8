"""Option D: each vector is judged by itself, and repaired as far as it looks damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cachemedicpp.cache.state import KV, Geometry
from cachemedicpp.repair.base import Stored, layout
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.gaussian.sinks import like_sinks, rms
from cachemedicpp.repair.operators.trained import Trained
from cachemedicpp.repair.operators.turned import Turning
from cachemedicpp.repair.operators.wiener import Wiener
from cachemedicpp.repair.registry import trained


class Filters(nn.Module):
    """One layer's filters: for ordinary tokens and for attention sinks, told apart by the token's norms."""

    log_norm: Tensor
    sinks: Tensor
    on: Tensor

    def __init__(self, groups: int, d: int) -> None:
        super().__init__()
        self.ordinary, self.sink = Wiener(groups, d), Wiener(groups, d)
        self.register_buffer("log_norm", torch.zeros(4, groups))  # as in gaussian's SinkClass
        self.register_buffer("sinks", torch.tensor(False))  # whether the model has any
        self.register_buffer("on", torch.ones(groups, dtype=torch.bool))

    def is_sink(self, x: Tensor) -> Tensor:
        """Which tokens of `x` `[B, G, T, d]` are sinks, `[B, T]`."""
        if not bool(self.sinks):
            return torch.zeros(x.shape[0], x.shape[2], dtype=torch.bool, device=x.device)
        each = x.detach().float().nan_to_num(0.0).transpose(1, 2).unsqueeze(2)  # [B, T, 1, G, d]
        return like_sinks(rms(each), torch.ones_like(self.log_norm[:1]), self.log_norm.unsqueeze(1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Filtered head vectors `[B, G, T, d]`, and which of them were changed, `[B, G, T]`."""
        y, changed = self.ordinary(x)
        if bool((sink := self.is_sink(x)).any()):
            own, own_changed = self.sink(x.transpose(1, 2)[sink].transpose(0, 1))  # [G, n, d]
            y, changed = y.transpose(1, 2).clone(), changed.transpose(1, 2).clone()
            y[sink], changed[sink] = own.transpose(0, 1), own_changed.transpose(0, 1)
            y, changed = y.transpose(1, 2), changed.transpose(1, 2)
        return y, changed & self.on.unsqueeze(-1)


class Statewise(Trained):
    """A Wiener filter (`wiener.py`) for every protected layer, KV head, and keys or values.

    It sees keys before rotary. It does not depend on the query, so it works at rest and inside attention.
    Before it is prepared it changes nothing; after that it is a closed form, which training refines.
    """

    length: Tensor

    def __init__(self, name: str, layers: tuple[int, ...], geometry: Geometry, tensors: str) -> None:
        super().__init__(name, layers, geometry)
        self._tensors = tensors
        self.turning = Turning(geometry)
        self.filters = nn.ModuleDict(
            {str(layer): Filters(2 * geometry.kv_heads, geometry.head_dim) for layer in layers}
        )
        self.register_buffer("length", torch.tensor(0))  # positions seen, where a model learned them; 0: any
        for tensor in "KV":
            if tensor not in tensors:
                for layer in layers:
                    self.of(layer).on[self._groups(tensor)] = False

    def of(self, layer: int) -> Filters:
        found: Any = self.filters[str(layer)]
        return found  # type: ignore[no-any-return]

    def prepare(self, model: Any, windows: Callable[[], Tensor]) -> None:
        from cachemedicpp.repair.operators.closed_form import fit

        fit(self, model, windows())

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        keys = kv.K.shape[1]
        turned = self.turning.at(stored.layer, stored.positions)
        x = torch.cat((turned.back(kv.K.float()), kv.V.float()), dim=1)  # [B, G, T, d]
        y, changed = self.of(stored.layer)(x)
        known = stored.real & (stored.positions < (int(self.length) or torch.inf))
        changed = (changed & known.unsqueeze(1)).unsqueeze(-1)
        K = torch.where(changed[:, :keys], turned.turn(y[:, :keys]).to(kv.K.dtype), kv.K)
        return KV(K, torch.where(changed[:, keys:], y[:, keys:].to(kv.V.dtype), kv.V))

    def mean_repair(self, layer: int, query: Tensor, kv: KV) -> KV:
        return self.repair_layer(kv, Stored(layer, *layout(kv.K.shape[2], len(kv.K), None, kv.K.device)))

    def parts(self) -> Sequence[str]:
        """Every head of every layer, `<layer>.<K or V>.<head>`."""
        heads = range(self.geometry.kv_heads)
        return [f"{layer}.{tensor}.{h}" for layer in self.layers for tensor in self._tensors for h in heads]

    def switch(self, part: str, on: bool) -> None:
        layer, tensor, head = part.split(".")
        self.of(int(layer)).on[self._groups(tensor)][int(head)] = on

    def _groups(self, tensor: str) -> slice:
        """Where the keys or values are among a layer's head vectors."""
        heads = self.geometry.kv_heads
        return slice(0, heads) if tensor == "K" else slice(heads, 2 * heads)


@trained(
    "D",
    "D state-gated",
    "A trained repair that judges every vector by itself: one that looks clean stays as it is, and one that "
    "looks noisy is filtered.",
    colour=7,
    order=13,
)
def statewise(config: RepairConfig, geometry: Geometry) -> Statewise:
    return Statewise("D", config.layers(geometry.layers), geometry, config.apply_to)
