"""Masks: which layers, KV heads and positions of one sequence a corruption may touch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

import torch
from pydantic import AfterValidator, Field, model_validator
from torch import Tensor

from cachemedicpp.cache.state import Geometry
from cachemedicpp.corruption.streams import Stream
from homeostat.core.config import ConfigModel
from homeostat.core.errors import UserError

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Index = Annotated[int, Field(ge=0)]


def _ordered(window: tuple[int, int]) -> tuple[int, int]:
    if window[0] >= window[1]:
        raise ValueError("a window [a, b] covers a <= t < b, so a must be below b")
    return window


Window = Annotated[tuple[Index, Annotated[int, Field(ge=1)]], AfterValidator(_ordered)]


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

    @property
    def recent(self) -> int:
        """How many of the last positions the time mode protects."""
        return self.N_recent if self.time_mode == "old_only" else 0


@dataclass(frozen=True)
class Mask:
    """For one sequence: KV heads of each touched layer, and positions counted from its first real token."""

    heads: dict[int, Tensor]  # layer -> [H_kv] bool; a layer that is not here is not touched
    time: Tensor  # [T] bool

    def of(self, layer: int) -> Tensor | None:
        """The mask `[H_kv, T]` of one layer, or None where nothing is touched."""
        heads = self.heads.get(layer)
        return None if heads is None else heads.unsqueeze(1) & self.time

    def summary(self) -> dict[str, object]:
        """A small, readable summary for the log."""
        touched = self.time.nonzero().flatten().tolist()
        return {
            "heads": {str(layer): heads.nonzero().flatten().tolist() for layer, heads in self.heads.items()},
            "positions": len(touched),
            "first": touched[0] if touched else None,
            "last": touched[-1] if touched else None,
        }


def check_axes(axes: AxesConfig, geometry: Geometry, protected: tuple[int, ...]) -> None:
    """Refuse masks that name layers or heads that are not there to be touched."""
    if axes.layer_mode == "targeted" and (stray := sorted(set(axes.layers) - set(protected))):
        raise UserError(
            f"corruption.axes.layers = {list(axes.layers)}: layer {stray[0]} is not protected; "
            f"repair.protect_layers covers {list(protected)}"
        )
    if axes.head_mode == "targeted" and max(axes.heads) >= geometry.kv_heads:
        raise UserError(
            f"corruption.axes.heads = {list(axes.heads)}: the model has {geometry.kv_heads} KV heads, "
            f"so the last is {geometry.kv_heads - 1}"
        )


def draw_mask(
    axes: AxesConfig, geometry: Geometry, protected: tuple[int, ...], length: int, stream: Stream
) -> Mask:
    """Draw a mask for a sequence with `length` real positions stored.

    The draws cover the whole model, so that protecting other layers does not change what a layer gets.
    """
    layer_draw = stream.at("layer").uniform(geometry.layers)
    head_draw = stream.at("head").uniform(geometry.layers, geometry.kv_heads)
    heads: dict[int, Tensor] = {}
    for layer in protected:
        if axes.layer_mode == "bernoulli" and not bool(layer_draw[layer] < axes.p_layer):
            continue
        if axes.layer_mode == "targeted" and layer not in axes.layers:
            continue
        chosen = _heads(axes, head_draw[layer])
        if bool(chosen.any()):
            heads[layer] = chosen
    return Mask(heads, time_mask(axes, length))


def time_mask(axes: AxesConfig, length: int) -> Tensor:
    """The positions `[T]` a time mode allows. A mode that allows none is an error."""
    a, b = axes.window or (0, 0) if axes.time_mode == "window" else (0, length - axes.recent)
    if b > length:
        raise UserError(
            f"corruption.axes.window = [{a}, {b}]: the cache holds {length} positions; "
            "choose a window inside it, or longer prompts"
        )
    if axes.recent and b <= 0:
        raise UserError(
            f"corruption.axes.N_recent = {axes.N_recent}: old_only leaves nothing of a cache with "
            f"{length} positions; use longer prompts or a smaller N_recent"
        )
    time = torch.zeros(length, dtype=torch.bool)
    time[a:b] = True
    return time


def _heads(axes: AxesConfig, draw: Tensor) -> Tensor:
    if axes.head_mode == "all":
        return torch.ones_like(draw, dtype=torch.bool)
    if axes.head_mode == "bernoulli":
        return draw < axes.p_head
    chosen = torch.zeros_like(draw, dtype=torch.bool)
    chosen[list(axes.heads)] = True
    return chosen
