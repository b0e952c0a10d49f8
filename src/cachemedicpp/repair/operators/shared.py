"""Option C: one form for all protected layers, with embeddings that name the layer (and head)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cachemedicpp.cache.state import Geometry
from cachemedicpp.repair.operators.form import Form
from cachemedicpp.repair.operators.lowrank import LowRankRepair


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
