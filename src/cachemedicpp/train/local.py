"""The local objective: an operator learns from stored states alone, without a pass of the language model.

    D = ||x̂ - x||² / σ²                 of each vector
    L = mean log(1 + D) over damaged vectors + lambda_id · mean D over sound ones
        + lambda_contr · mean max(0, rho - alpha_contr)²

Clean states are collected once. Every step damages some of them anew: by the mixture, or by a perturbation
as stability measures it, or not at all. `σ²` is how much a vector of this head varies in clean text; the
logarithm keeps a few vectors that are very far off from hiding all others. The first token, which every query
reads, weighs as much as a tenth of a window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from cachemedicpp.cache.state import KV
from cachemedicpp.corruption import CorruptionFamily, Plan, Stream
from cachemedicpp.corruption.donor import Donor
from cachemedicpp.repair.operators import Trained
from cachemedicpp.repair.operators.states import States, join, split
from cachemedicpp.tasks.config import LocalConfig, MedicConfig
from cachemedicpp.train import objective
from homeostat.core.records import Record

_FIRST = 0.1  # of a window's weight
_DRAW = 10**6  # the number of validation's draw; training's are the numbers of its steps
_SEVERITIES = (0.08, 0.32, 0.64)  # of validation


class Mends(Protocol):
    def mend(self, damaged: Mapping[int, KV], queries: Mapping[int, Tensor]) -> dict[int, KV]: ...


class StateDonor(Donor):
    """Donors among the collected windows: no model runs for them."""

    def __init__(self, states: States) -> None:
        self._states = states

    def number(self, which: int) -> int:
        return which % len(self._states.x)

    def kv(self, layer: int, length: int, which: int = 0) -> KV:
        K, V = self._states.of([self.number(which)])[layer]
        return KV(K[0, :, :length], V[0, :, :length])


@dataclass
class Local:
    """The local stage of one operator."""

    config: MedicConfig
    operator: Trained
    states: States
    kept: States  # windows that are not trained on
    family: CorruptionFamily

    @classmethod
    def build(cls, config: MedicConfig, operator: Trained, states: States, family: CorruptionFamily) -> Local:
        apart = max(1, round(len(states.x) * config.train.local.validation_share))
        learned, kept = states.part(slice(None, -apart)), states.part(slice(-apart, None))
        family = replace(family, donor=StateDonor(learned), split="train").fitted(states.x.shape[1])
        return cls(config, operator, learned, kept, family)

    def __post_init__(self) -> None:
        self.settings: LocalConfig = self.config.train.local
        varied = self.states.x.var(0).sum(-1)  # [T, L, G]: windows of one place have one rotation
        rest = varied[1:].mean(0, keepdim=True).expand_as(varied[1:])
        self.scale = torch.cat((varied[:1], rest)).clamp(min=1e-12)

    def loss(self, number: int) -> tuple[Tensor, Record]:
        """The objective of one step, and what is logged of it."""
        settings, train = self.settings, self.config.train
        stream = Stream((self.config.seed, "local", number))
        rows = (stream.at("rows").uniform(settings.rows) * len(self.states.x)).long().tolist()
        x = self.states.x[rows]
        kind = stream.at("kind").uniform(len(rows)).tolist()
        plan = self.family.mixture(draw=number).plan([f"{r}:{i}" for i, r in enumerate(rows)], x.shape[1])
        damaged = damage(plan, self.states.layers, x)
        events: list[Record] = []
        for i, share in enumerate(kind):
            if share < train.clean_batch_prob:
                damaged[i] = x[i]
            elif share < train.clean_batch_prob + settings.perturbed and settings.delta_norms:
                pick = int(stream.at("norm", i).uniform(1) * len(settings.delta_norms))
                norm = settings.delta_norms[pick]
                damaged[i] = perturbed(x[i], norm, self.family.config.axes.recent, stream.at("delta", i))
                events.append({"type": "perturbation", "severity": {"delta_norm": norm}})
            else:
                events.append(plan.events[i].as_record())
        before = split(self.states.layers, damaged)
        after = self.operator.mend(before, self.states.asked(rows))
        distance = self._distance(join(self.states.layers, after), x)
        wrong = (damaged != x).any(-1)
        far, sound = self._mean(distance.log1p(), wrong), self._mean(distance, ~wrong)
        rho = objective.contraction_ratios(split(self.states.layers, x), before, after)
        contraction = objective.contraction_loss(rho, train.alpha_contr)
        total = far + settings.lambda_id * sound + train.lambda_contr * contraction
        return total, {
            "stage": "local",
            "loss_total": float(total.detach()),
            "loss_kd": None,
            "loss_distance": float(far.detach()),
            "loss_id": float(sound.detach()),
            "loss_contr": float(contraction.detach()),
            "rho_mean": float(rho.detach().mean()) if rho.numel() else None,
            "rho_p95": float(rho.detach().quantile(0.95)) if rho.numel() else None,
            "clean_batch": not events,
            "corruption": events,
        }

    @torch.no_grad()
    def measure(self, operator: Mends) -> Record:
        """How much of `log(1 + D)` is left in every cell, on windows that are not trained on.

        `loss` is the mean of it, and what becomes of sound vectors `lambda_id` times.
        """
        training = self.operator.training
        self.operator.eval()
        cells: dict[str, Record] = {"clean": self._left(operator, self.kept.x)}
        family = replace(self.family, donor=StateDonor(self.kept))
        names = [f"validation:{i}" for i in range(len(self.kept.x))]
        for kind in sorted(name for name, weight in self.family.config.mixture.items() if weight > 0):
            for epsilon in _SEVERITIES:
                plan = family.at(kind, epsilon, draw=_DRAW).plan(names, self.kept.x.shape[1])
                cells[f"{kind} {epsilon:g}"] = self._left(
                    operator, damage(plan, self.states.layers, self.kept.x)
                )
        recent = self.family.config.axes.recent
        for norm in self.settings.delta_norms:
            stream = Stream((self.config.seed, "local validation", f"{norm:g}"))
            moved = [perturbed(x, norm, recent, stream.at(i)) for i, x in enumerate(self.kept.x)]
            cells[f"perturbation {norm:g}"] = self._left(operator, torch.stack(moved))
        self.operator.train(training)
        left = [cell["left"] for cell in cells.values() if cell["left"] is not None]
        touched = max(cell["sound"] for cell in cells.values())
        loss = sum(left) / len(left) + self.settings.lambda_id * cells["clean"]["sound"]
        return {"loss": loss, "sound": touched, "cells": cells}

    def _left(self, operator: Mends, damaged: Tensor) -> Record:
        """`log(1 + D)` after over before on damaged vectors, and what sound ones were moved by."""
        before = split(self.states.layers, damaged)
        queries = self.kept.asked(list(range(len(self.kept.x))))
        after = join(self.states.layers, operator.mend(before, queries))
        wrong = (damaged != self.kept.x).any(-1)
        moved = self._distance(after, self.kept.x)
        left = None
        if bool(wrong.any()):
            start = self._mean(self._distance(damaged, self.kept.x).log1p(), wrong)
            left = float(self._mean(moved.log1p(), wrong) / start)
        changed = (after != damaged).any(-1)
        return {
            "left": left,
            "sound": float(self._mean(moved, ~wrong)),
            "touched": float(changed[~wrong].float().mean()) if not bool(wrong.all()) else 0.0,
            "found": float(changed[wrong].float().mean()) if bool(wrong.any()) else None,
        }

    def _distance(self, y: Tensor, x: Tensor) -> Tensor:
        return (y - x).square().sum(-1) / self.scale  # [R, T, L, G]

    def _mean(self, values: Tensor, chosen: Tensor) -> Tensor:
        """The weighted mean of the chosen among `[R, T, L, G]`; 0 where there are none."""
        weight = torch.ones(values.shape[1], device=values.device)
        weight[0] = _FIRST * len(weight)
        weighed = weight.view(1, -1, 1, 1) * chosen
        return (values * weighed).sum() / weighed.sum().clamp(min=1e-12)


def damage(plan: Plan, layers: Sequence[int], x: Tensor) -> Tensor:
    """What a plan makes of states `[R, T, L, G, d]`."""
    state = split(tuple(layers), x)
    return join(tuple(layers), {layer: plan.apply(layer, *kv) for layer, kv in state.items()})


def perturbed(x: Tensor, norm: float, recent: int, stream: Stream) -> Tensor:
    """A window's state `[T, L, G, d]` plus noise: `norm` times the layer's RMS, over old positions."""
    u = stream.normal(*x.shape).to(x.device)
    if recent:
        u[-recent:] = 0
    size = u.square().sum((0, 2, 3), keepdim=True).sqrt()
    return x + norm * u / size * x.square().mean((0, 2, 3), keepdim=True).sqrt()
