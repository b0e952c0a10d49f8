"""What training needs to know of an operator, whatever its family."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from cachemedicpp.cache.state import KV, Geometry
from cachemedicpp.repair.base import Repair

if TYPE_CHECKING:
    from cachemedicpp.repair.operators.states import States


class Trained(nn.Module, Repair):
    """A repair with parameters: A, B and C read the query, D and E the state. Parameters stay in float32."""

    useful: Tensor

    def __init__(self, name: str, layers: tuple[int, ...], geometry: Geometry) -> None:
        super().__init__()
        self.name, self.layers, self.geometry = name, layers, geometry
        self.model_id: dict[str, str | None] | None = None  # of the model it was trained for, if stored
        self.register_buffer("useful", torch.tensor(True))  # False: it failed validation and does nothing

    __repr__ = Repair.__repr__  # not the module's listing of every parameter

    @abstractmethod
    def mean_repair(self, layer: int, query: Tensor, kv: KV) -> KV:
        """The repaired state of unpadded sequences, as the queries `[B, H, Q, d]` see it on average."""

    def mend(self, damaged: Mapping[int, KV], queries: Mapping[int, Tensor]) -> dict[int, KV]:
        """The repaired states of all protected layers, each as its queries see it on average."""
        return {layer: self.mean_repair(layer, queries[layer], kv) for layer, kv in damaged.items()}

    def prepare(self, model: Any, windows: Callable[[], Tensor]) -> None:
        """Learn what has a closed form from `model` and windows of text `[N, T]`, before any training."""

    def start(self, states: States) -> None:
        """Learn what has a closed form from the clean states that local training uses."""

    def paces(self) -> list[tuple[list[nn.Parameter], float]]:
        """Parameters, and by how much their learning rate differs from the configured one."""
        return [(list(self.parameters()), 1.0)]

    def parts(self) -> Sequence[str]:
        """What can be switched off alone; empty: nothing."""
        return ()

    def switch(self, part: str, on: bool) -> None:
        """Switch a part on or off; off, it is exactly the identity."""
        raise KeyError(part)

    def check(self, model: Any) -> None:
        from cachemedicpp.repair.cards import check_model

        check_model(self.name, self.geometry, self.model_id, model)
        self.to(model.device)
