"""Option E: a gated network that reads all protected layers of a token together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import Cache

from cachemedicpp.cache.state import KV, Geometry, readable, write
from cachemedicpp.repair.base import RepairReport, Stored, layout, relative_change
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators.network import Network, Turn
from cachemedicpp.repair.operators.states import States, join, split
from cachemedicpp.repair.operators.trained import Trained
from cachemedicpp.repair.operators.turned import Turning
from cachemedicpp.repair.registry import trained
from homeostat.core.config import ConfigModel
from homeostat.core.errors import UserError

THRESHOLDS = (0.5, 0.7, 0.9, 0.97)  # how far a gate has to be open, from which validation chooses
ROUNDED = "rounded"
_CHUNK = 4096  # tokens at a time
_FEWEST = 2.0  # tokens for each number of the code: principal directions of fewer are those of chance
_RESIDUAL = 0.02  # of a channel's variance: the least that is left unexplained by other text


class NetworkConfig(ConfigModel):
    """Settings of operator E."""

    width: int = Field(320, ge=1, description="E: numbers in the code of a token")


class GatedNetwork(Trained):
    """See `network.py`. Elements whose gate is below `sure` keep their bits; validation chooses `sure`.

    It needs no query and no other token, so it works at rest and is causal.
    """

    whole_cache = True
    length: Tensor
    on: Tensor
    sure: Tensor

    def __init__(self, layers: tuple[int, ...], geometry: Geometry, width: int, tensors: str) -> None:
        super().__init__("E", layers, geometry)
        heads = geometry.kv_heads
        self.turning = Turning(geometry)
        self.net = Network(len(layers), 2 * heads, geometry.head_dim, width)
        self.register_buffer("length", torch.tensor(0))  # positions seen, where a model learned them; 0: any
        self.register_buffer("sure", torch.tensor(THRESHOLDS))  # 1: switched off
        on = [tensor in tensors for tensor in "KV" for _ in range(heads)]
        self.register_buffer("on", torch.tensor(on).view(1, 1, -1, 1))

    def prepare(self, model: Any, windows: Callable[[], Tensor]) -> None:
        self.turning.learn(model)

    def paces(self) -> list[tuple[list[nn.Parameter], float]]:
        """The predictor starts near its optimum, the gates do not."""
        net = self.net
        predictor = [net.code, net.code_first, *net.mix.parameters(), *net.mixed.parameters()]
        chosen = {id(p) for p in predictor}
        return [(predictor, 0.3), ([p for p in self.parameters() if id(p) not in chosen], 3.0)]

    def parts(self) -> Sequence[str]:
        """Repair of rounded vectors, and the thresholds of the gates.

        Of these, the least that is on is in force, and the highest always is on.
        """
        return [ROUNDED, *(f"{threshold:g}" for threshold in THRESHOLDS[:-1])]

    def switch(self, part: str, on: bool) -> None:
        if part == ROUNDED:
            self.net.mend_rounded.fill_(on)
        else:
            place = self.parts().index(part) - 1
            self.sure[place] = THRESHOLDS[place] if on else 1.0

    @torch.no_grad()
    def start(self, states: States) -> None:
        W, T, L, G, d = states.x.shape
        width = self.net.code.shape[1]
        if _FEWEST * width > W * (T - 1) or W < 2 or width > L * G * d:
            raise UserError(
                f"repair.width = {width}: {W * T} tokens of {L * G * d} numbers are too few for it; use a "
                "smaller width or a larger train.local.windows"
            )
        if not bool(self.turning.theta.any()):
            self.length.fill_(T)
        turn = self._turn(torch.arange(T))
        u = torch.stack([turn.back(window) for window in states.x])
        kinds = [u[:, 1:].reshape(-1, L, G, d), u[:, 0]]
        mean = torch.stack([x.mean(0) for x in kinds])
        spread = torch.stack([x.std(0) for x in kinds])
        spread = spread.maximum(1e-3 * spread.mean(-1, keepdim=True)).clamp(min=1e-6)
        size = torch.stack([x.square().mean((0, -1)).sqrt() for x in kinds]).unsqueeze(-1)
        z = [((x - mean[i]) / spread[i]).flatten(1) for i, x in enumerate(kinds)]
        covariance = sum((part.T @ part for part in torch.split(z[0], _CHUNK)), torch.zeros(()))
        code = torch.linalg.eigh(covariance)[1][:, -width:]
        own = torch.linalg.svd(z[1], full_matrices=False)[2][: self.net.code_first.shape[1]].T
        own = F.pad(own, (0, self.net.code_first.shape[1] - own.shape[1]))
        left = (z[0] - z[0] @ code @ code.mT).square().mean(0)
        beyond = torch.ones_like(left) * _left_out(z[1], self.net.code_first.shape[1])
        noise = torch.stack((left, beyond)).view(2, L, G, d).clamp(min=_RESIDUAL)
        self.net.fit(mean, spread, size, (code, own), noise)

    def mend(self, damaged: Mapping[int, KV], queries: Mapping[int, Tensor] | None = None) -> dict[int, KV]:
        """Soft gates, for training; hard ones otherwise."""
        x = join(self.layers, damaged)
        places = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
        return split(self.layers, self._repaired(x.flatten(0, 1), places.flatten()).view_as(x))

    def mean_repair(self, layer: int, query: Tensor, kv: KV) -> KV:
        return self.repair_layer(kv, Stored(layer, *layout(kv.K.shape[2], len(kv.K), None, kv.K.device)))

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        raise UserError(
            "operator E reads the protected layers together, so it repairs a cache at rest: call "
            "repair.repair_cache(cache, attention_mask) after the prefill"
        )

    @torch.no_grad()
    def repair_cache(
        self,
        cache: Cache,
        attention_mask: Tensor | None = None,
        suspect: Mapping[int, Tensor] | None = None,
    ) -> RepairReport:
        """Repair what `cache` stores in the protected layers, in place. Blind: `suspect` is not looked at.

        Positions that a sliding window has dropped from one of the layers are left alone in the others.
        """
        state = readable(cache)
        since = max((state.start(layer) for layer in self.layers), default=0)
        if not self.layers:
            return RepairReport(repair=self.name, relative_change={})
        kept = {
            layer: KV(*(x[:, :, since - state.start(layer) :] for x in state[layer])) for layer in self.layers
        }
        real, places = layout(state.length, state.batch, attention_mask, state[0].K.device)
        real, places = real[:, since:], places[:, since:]
        known = real & (places < (int(self.length) or torch.inf))
        x = join(self.layers, kept)  # [B, T, L, G, d]
        y = x.float()
        tokens, where = y[known], places[known]
        y[known] = torch.cat(
            [
                self._repaired(a, b)
                for a, b in zip(torch.split(tokens, _CHUNK), torch.split(where, _CHUNK), strict=True)
            ]
        )
        mended = split(self.layers, y)
        moved, repaired = {}, {}
        for layer, new in mended.items():
            old = kept[layer]
            pair = [
                torch.where(a != b.float(), a.to(b.dtype), b) for a, b in zip(new, old, strict=True)
            ]  # an element that is as it was keeps its bits
            whole = [
                torch.cat((x[:, :, : since - state.start(layer)], part), dim=2)
                for x, part in zip(state[layer], pair, strict=True)
            ]
            repaired[layer] = KV(*whole)
            moved[str(layer)] = relative_change(old, KV(*pair))
        write(cache, repaired)
        return RepairReport(repair=self.name, relative_change=moved)

    def _repaired(self, x: Tensor, positions: Tensor) -> Tensor:
        """Tokens `x` `[N, L, G, d]` at `positions` `[N]`."""
        y, gate, _, _ = self.net(x, positions == 0, self._turn(positions))
        open_ = self.on if self.training else self.on & (gate >= self.sure.min())
        return torch.where(open_, y, x)

    def _turn(self, positions: Tensor) -> Turn:
        theta = self.turning.theta[list(self.layers)]
        return Turn(positions, theta, self.turning.partner, self.geometry.kv_heads)


def _left_out(z: Tensor, rank: int) -> float:
    """What the first principal directions of three quarters of the rows leave unexplained of the others."""
    fitted, other = z[len(z) // 4 :], z[: len(z) // 4]
    code = torch.linalg.svd(fitted, full_matrices=False)[2][:rank].T
    return float((other - other @ code @ code.T).square().mean()) if len(other) else 1.0


@trained(
    "E",
    "E gated network",
    "A trained repair: a small network predicts a token's vectors from each other, and gates replace those "
    "that look damaged.",
    colour=9,
    order=14,
    settings=NetworkConfig,
)
def gated_network(config: RepairConfig, geometry: Geometry) -> GatedNetwork:
    return GatedNetwork(config.layers(geometry.layers), geometry, config.width, config.apply_to)
