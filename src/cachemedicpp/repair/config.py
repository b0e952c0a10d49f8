"""The `repair:` section of a configuration: the operator, and the layers it protects."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from cachemedicpp.repair.registry import DEFENCES
from homeostat.core.errors import UserError
from homeostat.core.registry import Named, OpenConfig

Index = Annotated[int, Field(ge=0)]
Family = Annotated[str, Named(DEFENCES, lambda kind: kind.role in ("none", "operator"))]
TrainedFamily = Annotated[str, Named(DEFENCES, lambda kind: kind.untrained is not None)]
_BLOCK = re.compile(r"(early|mid|late):([1-9]\d*)")


class RepairConfig(OpenConfig):
    """The repair operator `R_phi` and the layers it protects; the other keys are those of the operators."""

    family: Family = "A"
    protect_layers: tuple[Index, ...] | str = Field(
        "mid:4", description="layer numbers, `all`, or a block: `early:N`, `mid:N`, `late:N`"
    )
    apply_to: Literal["K", "V", "KV"] = "KV"

    @classmethod
    def parts(cls) -> dict[str, Any]:
        every = [kind.settings.model_fields for _, kind in DEFENCES.items() if kind.settings is not None]
        return {name: (field.annotation, field) for keys in every for name, field in keys.items()}

    @field_validator("protect_layers")
    @classmethod
    def _block(cls, value: tuple[int, ...] | str) -> tuple[int, ...] | str:
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
