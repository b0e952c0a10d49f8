"""The `corruption:` section of a configuration: the mixture over types, the masks, and severities."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from homeostat.core.config import ConfigModel

CorruptionType = Literal[
    "gaussian",
    "dropout_zero",
    "orthogonal_rotation",
    "bitflipish_sparse",
    "quant_noise",
    "contiguous_overwrite",
]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Index = Annotated[int, Field(ge=0)]
Window = tuple[Index, Annotated[int, Field(ge=1)]]

DEFAULT_MIXTURE: dict[CorruptionType, float] = {
    "gaussian": 0.25,
    "dropout_zero": 0.20,
    "orthogonal_rotation": 0.15,
    "bitflipish_sparse": 0.15,
    "quant_noise": 0.15,
    "contiguous_overwrite": 0.10,
}
DEFAULT_DONOR = (
    "The harbour master kept two ledgers, one for the ships that came and one for the ships that were "
    "expected. By the end of winter the second was longer than the first, and nobody in the town spoke of it."
)


def _check_window(window: Window) -> Window:
    if window[0] >= window[1]:
        raise ValueError("a window [a, b] covers a <= t < b, so a must be below b")
    return window


class AxesConfig(ConfigModel):
    """Masks: which layers, KV heads and stored positions a corruption may touch."""

    layer_mode: Literal["all", "bernoulli", "targeted"] = "all"
    p_layer: Probability = 0.5
    layers: tuple[Index, ...] = ()
    head_mode: Literal["all", "bernoulli", "targeted"] = "bernoulli"
    p_head: Probability = 0.25
    heads: tuple[Index, ...] = ()
    time_mode: Literal["all_past", "old_only", "window"] = "old_only"
    N_recent: int = Field(32, ge=0)
    window: Window | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.layer_mode == "targeted" and not self.layers:
            raise ValueError("layer_mode 'targeted' needs at least one layer in `layers`")
        if self.head_mode == "targeted" and not self.heads:
            raise ValueError("head_mode 'targeted' needs at least one head in `heads`")
        if self.time_mode == "window" and self.window is None:
            raise ValueError("time_mode 'window' needs `window: [a, b]`")
        return self

    @field_validator("window")
    @classmethod
    def _ordered(cls, window: Window | None) -> Window | None:
        return None if window is None else _check_window(window)


class CorruptionParams(ConfigModel):
    """The severity of each type where no epsilon is given."""

    epsilon: float = Field(0.16, ge=0.0, description="noise level of `gaussian`, in units of a vector's RMS")
    dropout_p: Probability = 0.02
    bitflip_p: Probability = 0.0005
    bitflip_eps_jump: float = Field(8.0, ge=0.0)
    quant_bits: int = Field(8, ge=2, le=16)
    rotation_seed: int = 999
    overwrite_window: Window = (16, 48)
    donor_prompt: str = Field(DEFAULT_DONOR, min_length=1)

    @field_validator("overwrite_window")
    @classmethod
    def _ordered(cls, window: Window) -> Window:
        return _check_window(window)


class CorruptionConfig(ConfigModel):
    """The corruption family `C`: the mixture `Pi` over types, the masks, and severities."""

    mixture: dict[CorruptionType, Annotated[float, Field(ge=0.0)]] = Field(
        default_factory=lambda: dict(DEFAULT_MIXTURE), description="weights; they are normalised to sum to 1"
    )
    axes: AxesConfig = AxesConfig()
    params: CorruptionParams = CorruptionParams()
    train_eps: tuple[Annotated[float, Field(gt=0.0)], ...] = Field(
        (), description="training draws its severity from these epsilons; empty: the severities in `params`"
    )

    @field_validator("mixture")
    @classmethod
    def _has_weight(cls, mixture: dict[CorruptionType, float]) -> dict[CorruptionType, float]:
        if sum(mixture.values()) <= 0:
            raise ValueError("at least one corruption type needs a weight above 0")
        return mixture
