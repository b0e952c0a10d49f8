"""The `corruption:` section of a configuration: the mixture over types, the masks, and severities."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator

from cachemedicpp.corruption.base import CORRUPTIONS, Corruption
from cachemedicpp.corruption.masks import AxesConfig as AxesConfig
from homeostat.core.config import ConfigModel
from homeostat.core.registry import Named, OpenConfig

CorruptionType = Annotated[str, Named(CORRUPTIONS)]


def default_types() -> list[str]:
    """The types of the protocol: those with a share of the default mixture."""
    return [name for name, kind in CORRUPTIONS.items() if kind.weight > 0]


class CorruptionParams(OpenConfig):
    """The severity of each type where no epsilon is given: the settings of all types side by side."""

    @classmethod
    def parts(cls) -> dict[str, Any]:
        every = [kind.model_fields for _, kind in CORRUPTIONS.items()]
        return {n: (f.annotation, f) for fields in every for n, f in fields.items() if not f.exclude}

    def of(self, name: str) -> Corruption:
        """A type with its settings; one that was registered after these were read has its defaults."""
        kind, known = CORRUPTIONS[name], dict(self)
        return kind(**{n: known[n] for n, f in kind.model_fields.items() if not f.exclude and n in known})


class CorruptionConfig(ConfigModel):
    """The corruption family `C`: the mixture `Pi` over types, the masks, and severities."""

    mixture: dict[CorruptionType, Annotated[float, Field(ge=0.0)]] = Field(
        default_factory=lambda: {name: CORRUPTIONS[name].weight for name in default_types()},
        description="weights; they are normalised to sum to 1",
    )
    axes: AxesConfig = AxesConfig()
    params: CorruptionParams = Field(default_factory=CorruptionParams)
    train_eps: tuple[Annotated[float, Field(gt=0.0)], ...] = Field(
        (), description="training draws its severity from these epsilons; empty: the severities in `params`"
    )

    @field_validator("mixture")
    @classmethod
    def _has_weight(cls, mixture: dict[str, float]) -> dict[str, float]:
        if sum(mixture.values()) <= 0:
            raise ValueError("at least one corruption type needs a weight above 0")
        return mixture
