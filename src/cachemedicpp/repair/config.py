"""The `repair:` section of a configuration: the operator, and the layers it protects."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from homeostat.core.config import ConfigModel
from homeostat.core.errors import UserError

Family = Literal["none", "A", "B", "C", "D", "G"]
Index = Annotated[int, Field(ge=0)]
_BLOCK = re.compile(r"(early|mid|late):([1-9]\d*)")


class RepairConfig(ConfigModel):
    """The repair operator `R_phi` and the layers it protects."""

    family: Family = "A"
    protect_layers: tuple[Index, ...] | str = Field(
        "mid:4", description="layer numbers, `all`, or a block: `early:N`, `mid:N`, `late:N`"
    )
    apply_to: Literal["K", "V", "KV"] = "KV"
    rank: int = Field(8, ge=1)
    per_head: bool = Field(False, description="one matrix per KV head instead of one shared by all")
    alpha_max: float = Field(0.98, gt=0.0, lt=1.0, description="B: the largest shrinkage factor s(q)")
    base: Literal["A", "B"] = Field("A", description="C: the form of the shared operator")
    head_embedding: bool = Field(False, description="C: condition on the KV head too, not only on the layer")
    before_rotary: bool = Field(
        False, description="A, B and C: work on keys before their rotary embedding; D always does"
    )

    @field_validator("protect_layers")
    @classmethod
    def _known(cls, value: tuple[int, ...] | str) -> tuple[int, ...] | str:
        if isinstance(value, str):
            if value != "all" and not _BLOCK.fullmatch(value):
                raise ValueError("write layer numbers ([3, 4]), `all`, or early:N, mid:N, late:N")
            return value
        if not value:
            raise ValueError("at least one layer must be protected")
        return tuple(sorted(set(value)))

    def layers(self, count: int) -> tuple[int, ...]:
        """The protected layers of a model with `count` layers."""
        spec = self.protect_layers
        if spec == "all":
            return tuple(range(count))
        if isinstance(spec, str):
            where, size = _BLOCK.fullmatch(spec).groups()  # type: ignore[union-attr]
            wide = int(size)
            if wide > count:
                raise UserError(f"repair.protect_layers = {spec!r}: the model has only {count} layers")
            start = {"early": 0, "mid": (count - wide) // 2, "late": count - wide}[where]
            return tuple(range(start, start + wide))
        if spec[-1] >= count:
            raise UserError(
                f"repair.protect_layers = {list(spec)}: the model has {count} layers, "
                f"so the last is {count - 1}, not {spec[-1]}"
            )
        return spec
