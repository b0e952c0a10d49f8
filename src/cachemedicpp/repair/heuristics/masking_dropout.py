"""Trust no single element too much."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cachemedicpp.cache.state import KV
from cachemedicpp.corruption.streams import Stream
from cachemedicpp.repair.base import Repair, Stored
from cachemedicpp.repair.registry import register


@register(
    "masking_dropout",
    "random masking",
    "A heuristic: a random tenth of the numbers is set to 0, and the rest is scaled up.",
    order=53,
)
@dataclass(frozen=True)
class MaskingDropout(Repair):
    """Elements are zeroed with probability `p` and the rest scaled by `1 / (1 - p)`; a seed fixes which.

    The draw of a sequence depends on its own length only, so it is the same alone or in a batch.
    """

    layers: tuple[int, ...]
    p: float = 0.1
    seed: int = 0

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        region = stored.region(kv.K.shape[1]).unsqueeze(-1)
        starts = (~stored.real).sum(-1).tolist()
        return KV(
            self._drop(kv.K, region, starts, stored.layer, "K"),
            self._drop(kv.V, region, starts, stored.layer, "V"),
        )

    def _drop(self, x: Tensor, region: Tensor, starts: list[int], layer: int, tensor: str) -> Tensor:
        scaled = x / (1 - self.p)
        for row, start in enumerate(starts):
            H, T, d = x[row, :, start:].shape
            draw = Stream((self.seed, self.name, layer, tensor)).uniform(H, T, d).to(x.device)
            scaled[row, :, start:].masked_fill_(draw < self.p, 0.0)
        return scaled.where(region, x)
