"""The configuration of a cachemedicpp run: one small class a section, every default in one place."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from cachemedicpp.eval_config import DataConfig, EvalConfig, StabilityConfig
from homeostat.config import ConfigModel
from homeostat.errors import UserError
from homeostat.models import ModelConfig

CorruptionType = Literal[
    "gaussian",
    "dropout_zero",
    "orthogonal_rotation",
    "bitflipish_sparse",
    "quant_noise",
    "contiguous_overwrite",
]
Family = Literal["none", "A", "B", "C", "G"]
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
_BLOCK = re.compile(r"(early|mid|late):([1-9]\d*)")


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


class RepairConfig(ConfigModel):
    """The repair operator `R_phi` and the layers it protects."""

    family: Family = "A"
    protect_layers: tuple[Index, ...] | str = Field(
        "mid:4", description="layer numbers, `all`, or a block: `early:N`, `mid:N`, `late:N`"
    )
    apply_to: Literal["K", "V", "KV"] = "KV"
    rank: int = Field(8, ge=1)
    per_head: bool = Field(False, description="one matrix a KV head instead of one shared by all")
    alpha_max: float = Field(0.98, gt=0.0, lt=1.0, description="B: the largest shrinkage factor s(q)")
    base: Literal["A", "B"] = Field("A", description="C: the form of the shared operator")
    head_embedding: bool = Field(False, description="C: condition on the KV head too, not only on the layer")

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


class TrainConfig(ConfigModel):
    """The objective and its optimisation."""

    steps: int = Field(300, ge=1)
    batch_size: int = Field(4, ge=1)
    draws_per_batch: int = Field(
        4, ge=1, description="steps that share one batch's clean pass, each with damage of its own"
    )
    prefix_len: int = Field(96, ge=2)
    continuation_len: int = Field(32, ge=1)
    T: float = Field(2.0, gt=0.0, description="temperature of the distillation")
    lambda_id: float = Field(1.0, ge=0.0)
    lambda_contr: float = Field(0.5, ge=0.0)
    lambda_w: float = Field(0.0, ge=0.0)
    alpha_contr: float = Field(0.8, ge=0.0)
    clean_batch_prob: Probability = 0.2
    lr: float = Field(2e-4, gt=0.0)
    grad_clip: float = Field(1.0, gt=0.0)
    checkpoint_every: int = Field(50, ge=1)
    heldout_sequences: int = Field(32, ge=0, description="sequences of held-out text; 0: no such figure")


class MedicConfig(ConfigModel):
    """Everything one cachemedicpp run is made of."""

    seed: int = Field(0, ge=0)
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    corruption: CorruptionConfig = CorruptionConfig()
    repair: RepairConfig = RepairConfig()
    train: TrainConfig = TrainConfig()
    eval: EvalConfig = EvalConfig()
    stability: StabilityConfig = StabilityConfig()
