"""The corruption family `C`: what is drawn for each sequence, and how it is laid over a cache.

    family = CorruptionFamily.build(config.corruption, model, tokenizer, protected, seed)
    injection = family.at("gaussian", epsilon=0.16)     # one type at one severity
    injection = family.mixture()                        # a draw from Pi for each sequence
    events = injection.corrupt_cache(cache, keys=sequence_keys(input_ids, attention_mask))

Training and evaluation draw from streams apart (`split`): no rotation, donor, mask or noise that a repair was
trained on is used to evaluate it. A `Plan` is the draw for one batch: it damages a layer the same way whether
the damage is written into the stored cache (at rest) or laid over what attention reads (inline).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import Cache

from cachemedicpp.cache.state import KV, Geometry, KVState, first_positions, write
from cachemedicpp.corruption.base import Corruption, Site
from cachemedicpp.corruption.config import CorruptionConfig
from cachemedicpp.corruption.donor import Donor
from cachemedicpp.corruption.masks import AxesConfig, Mask, check_axes, draw_mask
from cachemedicpp.corruption.streams import Stream
from homeostat.core.errors import UserError

_TARGETED = "targeted:"
Split = Literal["eval", "train"]


@dataclass(frozen=True)
class Event:
    """What happened to one sequence: enough to repeat it and to read it in a log."""

    type: str
    epsilon: float | None
    severity: dict[str, float]
    key: str
    draw: int
    mask: dict[str, object]
    drawn: dict[str, str]  # what was drawn once for this sequence: its noise, its rotation, its donor

    def as_record(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class _Damage:
    """One sequence's share of a plan."""

    corruption: Corruption
    mask: Mask
    stream: Stream
    start: int  # index of the first real token


@dataclass(frozen=True)
class Plan:
    """The damage drawn for one batch of sequences with `length` stored positions (padding included)."""

    damages: Sequence[_Damage]
    events: Sequence[Event]
    length: int
    protected: tuple[int, ...]
    kv_heads: int
    donor: Donor | None = field(default=None, repr=False)

    def apply(self, layer: int, K: Tensor, V: Tensor) -> KV:
        """Damaged copies of `K` and `V` `[B, H_kv, T, d]`, or the same tensors where nothing is touched."""
        return KV(self._one(layer, "K", K), self._one(layer, "V", V))

    def mask(self, layer: int) -> Tensor:
        """The region `[B, H_kv, T]` of a layer that damage may touch; a type may choose inside it."""
        full = torch.zeros(len(self.damages), self.kv_heads, self.length, dtype=torch.bool)
        for row, damage in enumerate(self.damages):
            mask = damage.mask.of(layer)
            if mask is not None and not damage.corruption.is_identity:
                full[row, :, damage.start :] = mask
        return full

    def _one(self, layer: int, tensor: str, x: Tensor) -> Tensor:
        late = self.length - x.shape[-2]  # positions that a sliding window has dropped already
        if late < 0:
            raise ValueError(f"a plan for {self.length} positions was given {x.shape[-2]}")
        damaged: Tensor | None = None
        for row, damage in enumerate(self.damages):
            mask = damage.mask.of(layer)
            if mask is None or damage.corruption.is_identity:
                continue
            if damaged is None:
                damaged = x.clone()
            begin = max(damage.start - late, 0)
            mask = mask[:, max(late - damage.start, 0) :]
            clean = x[row, :, begin:].float()  # [H, T_real, d]
            stream = damage.stream.at(layer, tensor)
            site = self._site(layer, tensor, damage, late)
            damaged[row, :, begin:] = damage.corruption.apply(clean, mask.to(x.device), stream, site).to(
                x.dtype
            )
        return x if damaged is None else damaged

    def _site(self, layer: int, tensor: str, damage: _Damage, late: int) -> Site:
        if self.donor is None or not damage.corruption.needs_donor:
            return Site(layer, tensor)
        if late and damage.start:
            raise UserError(
                f"corruption {damage.corruption.name!r} in layer {layer}, whose sliding window has moved on: "
                "the donor's positions do not fit a padded sequence; use batches of one length"
            )
        kv = self.donor.kv(layer, self.length, damage.corruption.donor)
        return Site(layer, tensor, kv.K if tensor == "K" else kv.V)


@dataclass(frozen=True)
class CorruptionFamily:
    """Types, masks and severities for one model, with the seed that fixes every draw."""

    config: CorruptionConfig
    geometry: Geometry
    protected: tuple[int, ...]
    seed: int
    donor: Donor | None = None
    split: Split = "eval"
    room: tuple[int, int | None] | None = None  # positions that damage can reach, and the one that matters

    def __post_init__(self) -> None:
        check_axes(self.config.axes, self.geometry, self.protected)

    @classmethod
    def build(
        cls, config: CorruptionConfig, model: Any, tokenizer: Any, protected: Sequence[int], seed: int
    ) -> CorruptionFamily:
        """The family that evaluates."""
        donor = Donor.of_prompt(model, tokenizer, config.params.donor_prompt)
        return cls(config, Geometry.of(model), tuple(protected), seed, donor)

    def for_training(self, model: Any, text: Sequence[int]) -> CorruptionFamily:
        """The family that trains: other streams, and donors cut out of the training `text`."""
        return replace(self, donor=Donor(model, text, len(text)), split="train")

    def fitted(
        self, length: int, axes: AxesConfig | None = None, focus: int | None = None
    ) -> CorruptionFamily:
        """This family for caches of `length` positions under `axes`, its types fitted to them.

        `focus` is where an overwritten window begins, if what matters in the cache is at one place.
        """
        axes = axes or self.config.axes
        config = self.config.model_copy(update={"axes": axes})
        return replace(self, config=config, room=(length - axes.recent, focus))

    def at(self, name: str, epsilon: float | None = None, draw: int = 0) -> Injection:
        """One type for every sequence, at `epsilon` or (None) at the configured severity.

        `targeted:<type>` aims at the configuration's `axes.layers` and `axes.heads`.
        """
        family = self._aimed(name) if name.startswith(_TARGETED) else self
        return Injection(family, name, self.corruption(name, epsilon), epsilon, draw)

    def mixture(self, draw: int = 0) -> Injection:
        """Type and severity drawn from `Pi` for each sequence."""
        return Injection(self, "", None, None, draw)

    def corruption(self, name: str, epsilon: float | None) -> Corruption:
        """The formula of a type at a severity."""
        corruption = self.config.params.of(name.removeprefix(_TARGETED))
        if self.room is not None:
            corruption = corruption.fitted(*self.room)
        if epsilon is None:
            return corruption
        if not 0.0 <= epsilon < float("inf"):
            raise UserError(f"epsilon = {epsilon}: a severity is a finite number that is at least 0")
        return corruption.at(epsilon)

    def _aimed(self, name: str) -> CorruptionFamily:
        """This family with masks that aim at the configured layers and heads."""
        axes = self.config.axes
        if not (axes.layers or axes.heads):
            raise UserError(f"corruption type {name!r} needs corruption.axes.layers or corruption.axes.heads")
        modes = {"layer_mode": "targeted"} if axes.layers else {}
        modes |= {"head_mode": "targeted"} if axes.heads else {}
        axes = axes.model_copy(update=modes)
        return replace(self, config=self.config.model_copy(update={"axes": axes}))


@dataclass(frozen=True)
class Injection:
    """A choice from the family, ready for a cache. `draw` numbers repetitions for one sequence."""

    family: CorruptionFamily
    name: str
    fixed: Corruption | None  # None: drawn from the mixture
    epsilon: float | None
    draw: int = 0

    def plan(self, keys: Sequence[str], length: int, attention_mask: Tensor | None = None) -> Plan:
        """Draw the damage for sequences named by `keys`, with `length` positions stored for each."""
        starts = first_positions(length, attention_mask, len(keys))
        damages, events = [], []
        for key, start in zip(keys, starts, strict=True):
            stream = Stream((self.family.split, self.family.seed, key, self.draw))
            corruption, epsilon = self._choose(stream.at("type"))
            corruption = corruption.drawn(stream.at("once"))
            mask = self._mask(corruption, length - start, stream.at("mask"))
            damages.append(_Damage(corruption, mask, stream.at("noise"), start))
            events.append(
                Event(
                    self.name or corruption.name,
                    epsilon,
                    corruption.severity(),
                    key,
                    self.draw,
                    mask.summary(),
                    self._drawn(corruption, stream),
                )
            )
        family = self.family
        return Plan(damages, events, length, family.protected, family.geometry.kv_heads, family.donor)

    def corrupt_cache(self, cache: Cache, keys: Sequence[str], attention_mask: Tensor | None = None) -> Plan:
        """At rest: damage what `cache` stores, once. Layers that are not touched keep their tensors."""
        state = KVState(cache)
        if len(keys) != state.batch:
            raise UserError(f"{len(keys)} keys for a batch of {state.batch}: give one key per sequence")
        plan = self.plan(keys, state.length, attention_mask)
        write(cache, {layer: plan.apply(layer, *state[layer]) for layer in self.family.protected})
        return plan

    def _drawn(self, corruption: Corruption, stream: Stream) -> dict[str, str]:
        """What was drawn once for this sequence; seeds are text, because they are too large for JSON."""
        found = {"noise": str(stream.seed), **corruption.drawn_record()}
        if corruption.needs_donor and self.family.donor is not None:
            found["donor"] = f"{self.family.split}:{self.family.donor.number(corruption.donor)}"
        return found

    def _choose(self, stream: Stream) -> tuple[Corruption, float | None]:
        if self.fixed is not None:
            return self.fixed, self.epsilon
        config = self.family.config
        names = sorted(config.mixture)
        weights = torch.tensor([config.mixture[name] for name in names], dtype=torch.float64)
        ladder = (weights / weights.sum()).cumsum(0)
        name = names[min(int((ladder <= stream.uniform(1).double()).sum()), len(names) - 1)]
        epsilon = None
        if config.train_eps:
            pick = int(stream.at("epsilon").uniform(1) * len(config.train_eps))
            epsilon = config.train_eps[pick]
        return self.family.corruption(name, epsilon), epsilon

    def _mask(self, corruption: Corruption, length: int, stream: Stream) -> Mask:
        axes = self.family.config.axes
        mask = draw_mask(axes, self.family.geometry, self.family.protected, length, stream)
        return Mask(mask.heads, corruption.positions(mask.time, axes))
