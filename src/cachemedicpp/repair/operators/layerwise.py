"""Options A and B: each protected layer has its own forms."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from cachemedicpp.cache.state import Geometry
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators.form import Form
from cachemedicpp.repair.operators.lowrank import LowRankRepair, check_rank


class Layerwise(LowRankRepair):
    """`layers × tensors` independent forms."""

    def __init__(
        self,
        name: str,
        layers: tuple[int, ...],
        geometry: Geometry,
        tensors: str,
        make: Callable[[], Form],
        before_rotary: bool = False,
    ) -> None:
        super().__init__(name, layers, geometry, before_rotary)
        self._forms = {(layer, tensor): make() for layer in layers for tensor in tensors}
        self.forms = nn.ModuleDict(
            {f"{layer}_{tensor}": form for (layer, tensor), form in self._forms.items()}
        )

    def form(self, layer: int, tensor: str) -> Form | None:
        return self._forms.get((layer, tensor))


def layerwise(config: RepairConfig, geometry: Geometry, make: Callable[[], Form]) -> Layerwise:
    """The operator of a `repair:` section whose forms are made by `make`."""
    check_rank(config.rank, geometry)
    layers = config.layers(geometry.layers)
    return Layerwise(config.family, layers, geometry, config.apply_to, make, config.before_rotary)
