"""Option C: one form for all protected layers, with embeddings that name the layer (and head)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from cachemedicpp.cache.state import Geometry
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators.form import Form
from cachemedicpp.repair.operators.gated import Gated
from cachemedicpp.repair.operators.lowrank import LowRankConfig, LowRankRepair, check_rank
from cachemedicpp.repair.operators.shrinkage import Shrinkage
from cachemedicpp.repair.registry import trained


class Shared(LowRankRepair):
    """A or B shared by the layers; layer (and optionally head) embeddings in `R^r` shift the gate.

    Beside the form's own parameters: `L · r` for the layers and, if asked for, `H_kv · r` for the heads.
    """

    def __init__(
        self,
        name: str,
        layers: tuple[int, ...],
        geometry: Geometry,
        tensors: str,
        make: Callable[[], Form],
        rank: int,
        head_embedding: bool,
        before_rotary: bool = False,
    ) -> None:
        super().__init__(name, layers, geometry, before_rotary)
        self._forms = {tensor: make() for tensor in tensors}
        self.forms = nn.ModuleDict(self._forms)
        self.layer_embedding = nn.ParameterDict(
            {tensor: nn.Parameter(torch.zeros(len(layers), rank)) for tensor in tensors}
        )
        heads = geometry.kv_heads if head_embedding else 0
        self.head_embedding = nn.ParameterDict(
            {tensor: nn.Parameter(torch.zeros(heads, 1, rank)) for tensor in tensors if heads}
        )

    def form(self, layer: int, tensor: str) -> Form | None:
        return self._forms.get(tensor)

    def shift(self, layer: int, tensor: str) -> Tensor | None:
        shift: Tensor = self.layer_embedding[tensor][self.layers.index(layer)].view(1, 1, -1)
        if tensor in self.head_embedding:
            shift = shift + self.head_embedding[tensor]
        return shift


class SharedConfig(LowRankConfig):
    """Settings of operator C."""

    base: Literal["A", "B"] = Field("A", description="C: the form of the shared operator")
    head_embedding: bool = Field(False, description="C: condition on the KV head too, not only on the layer")


@trained(
    "C",
    "C shared",
    "A trained repair that all layers share.",
    colour=3,
    order=12,
    settings=SharedConfig,
)
def shared(config: RepairConfig, geometry: Geometry) -> Shared:
    check_rank(config.rank, geometry)
    layers, d = config.layers(geometry.layers), geometry.head_dim

    def make() -> Form:
        return (
            Gated(d, config.rank, 1) if config.base == "A" else Shrinkage(d, config.rank, 1, config.alpha_max)
        )

    extra = config.rank, config.head_embedding, config.before_rotary
    return Shared("C", layers, geometry, config.apply_to, make, *extra)
