"""What training needs to know of an operator, whatever its family."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from cachemedicpp.cache.state import KV, Geometry
from cachemedicpp.repair.base import Repair


class Trained(nn.Module, Repair):
    """A repair with parameters: A, B and C read the query, D reads the state. Parameters stay in float32."""

    def __init__(self, name: str, layers: tuple[int, ...], geometry: Geometry) -> None:
        super().__init__()
        self.name, self.layers, self.geometry = name, layers, geometry
        self.model_id: dict[str, str | None] | None = None  # of the model it was trained for, if stored

    __repr__ = Repair.__repr__  # not the module's listing of every parameter

    @abstractmethod
    def mean_repair(self, layer: int, query: Tensor, kv: KV) -> KV:
        """The repaired state of unpadded sequences, as the queries `[B, H, Q, d]` see it on average."""

    def prepare(self, model: Any, windows: Callable[[], Tensor]) -> None:
        """Learn what has a closed form from `model` and windows of text `[N, T]`, before any training."""

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
