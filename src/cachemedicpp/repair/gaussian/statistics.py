"""What calibration learns: first and second moments of the cache, and how quiet a clean cache is.

A token's features in a layer are its `2 H_kv` head vectors, un-rotated keys first, then values, each divided
by its head's RMS: `F = 2 H_kv d` numbers. Covariances reach from a layer to the next ones (`reach` of them on
either side), because the residual stream makes neighbouring layers each other's near copies.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import torch
from torch import Tensor

from cachemedicpp.cache.rotation import Pairs
from cachemedicpp.repair.gaussian.prior import Prior
from homeostat.core.errors import UserError

_PARTS = ("sink", "prior")
_WEAKEST = 1e-3  # energy of a direction that counts, relative to a head's mean


def shrunk(mean: Tensor, covariance: Tensor, count: int) -> Tensor:
    """`covariance` `[…, d, d]` of the few sinks that were seen, drawn towards its diagonal."""
    d = mean.shape[-1]
    share = d / (count + d)
    diagonal = torch.diag_embed(covariance.diagonal(dim1=-2, dim2=-1))
    floor = 1e-4 * mean.square().mean(-1) + 1e-6  # a hundredth of the template's RMS
    eye = torch.eye(d, device=mean.device)
    return (1 - share) * covariance + share * diagonal + floor[..., None, None] * eye


@dataclass(frozen=True)
class SinkClass:
    """Attention-sink tokens: a template for every head, and how log-norms tell them from ordinary tokens."""

    mean: Tensor  # [L, G, d]
    covariance: Tensor  # [L, G, d, d]
    log_norm: Tensor  # [4, L, G]: mean and spread of ordinary tokens, then of sinks
    count: Tensor  # [] how many were seen

    @cached_property
    def spread(self) -> Tensor:
        """The covariance about each head's template, `[L, G, d, d]`, shrunk for how many sinks were seen."""
        return shrunk(self.mean, self.covariance, int(self.count))

    @cached_property
    def precision(self) -> Tensor:
        inverse: Tensor = torch.linalg.inv(self.spread)
        return inverse


@dataclass(frozen=True)
class Statistics:
    """Moments of ordinary tokens; `G = 2 H_kv` head vectors per layer, `F = G d` features."""

    scale: Tensor  # [L, G]
    mean: Tensor  # [L, G, d]
    covariance: Tensor  # [1 + 2 reach, L, F, F]: of layer l with layer l + k
    quiet: Tensor  # [2, L, G]: median and largest block median of the disturbance of clean text
    loudest: Tensor  # [2, L, G]: largest residual of a clean element, given its own head and given all
    strangest: Tensor  # [2, L, G]: largest distance of a clean vector, given its own head and given all
    glance: Tensor  # [2, L, G]: largest of a clean token, and block median, at a glance
    limit: Tensor  # [L, G, d]: the largest that a clean element can be, whatever its position turns it to
    kinds: Tensor  # [K, L, G, d]: where the tokens of each kind lie, from the mean
    share: Tensor  # [K]: how much of text each kind is
    theta: Tensor  # [L, d]
    partner: Tensor  # [d]
    count: Tensor  # [] ordinary tokens seen
    length: Tensor  # [] positions seen, where the model learned what each adds; 0: any will do
    sink: SinkClass | None = None
    prior: Prior | None = None  # given the tokens; none where calibration was not asked for it

    @property
    def layers(self) -> int:
        return self.scale.shape[0]

    @property
    def groups(self) -> int:
        return self.scale.shape[1]

    @property
    def head_dim(self) -> int:
        return self.mean.shape[-1]

    @property
    def reach(self) -> int:
        return (self.covariance.shape[0] - 1) // 2

    @property
    def pairs(self) -> Pairs:
        return Pairs(self.theta, self.partner)

    def known(self, positions: Tensor) -> Tensor:
        """Positions that can be judged: learned positions only as far as calibration has seen them."""
        return positions < (int(self.length) or torch.inf)

    def window(self, layer: int) -> range:
        return range(max(0, layer - self.reach), min(self.layers, layer + self.reach + 1))

    def window_covariance(self, layer: int) -> Tensor:
        """The joint covariance of a layer and its neighbours, `[W F, W F]`."""
        where = self.window(layer)
        rows = [
            torch.cat(
                [self.covariance[b - a, a] if b >= a else self.covariance[a - b, b].T for b in where], 1
            )
            for a in where
        ]
        return torch.cat(rows)

    def head_covariance(self) -> Tensor:
        """Each head's own covariance, `[L, G, d, d]`."""
        d, G = self.head_dim, self.groups
        blocks = self.covariance[0].view(self.layers, G, d, G, d)
        return blocks.diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2).contiguous()

    @cached_property
    def energy(self) -> tuple[Tensor, Tensor]:
        """How strong the directions are that a clean vector takes, on a logarithmic scale, `[L, G]`, and the
        form `[L, G, d, d]` that tells it of any vector."""
        moments = self.head_covariance() + self.mean.unsqueeze(-1) * self.mean.unsqueeze(-2)
        energy, directions = torch.linalg.eigh(moments)
        energy = energy.clamp(min=_WEAKEST)
        weight = energy.log() - energy.log().mean(-1, keepdim=True)  # [L, G, d]: zero on average
        expected = (energy * weight).sum(-1) / energy.sum(-1)
        return expected, directions * weight.unsqueeze(-2) @ directions.mT

    def to(self, device: torch.device) -> Statistics:
        """The same on another device; itself where it is there already."""
        if self.scale.device == device:
            return self
        moved = {name: x.to(device) for name, x in self.tensors().items()}
        return Statistics.from_tensors(moved)

    def tensors(self) -> dict[str, Tensor]:
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _PARTS}
        for name in _PARTS:
            if (part := getattr(self, name)) is not None:
                own |= {f"{name}.{f.name}": getattr(part, f.name) for f in fields(part)}
        return own

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Statistics:
        own = {name: x for name, x in tensors.items() if "." not in name}
        parts: dict[str, dict[str, Tensor]] = {}
        for name, x in tensors.items():
            if "." in name:
                part, _, field = name.partition(".")
                parts.setdefault(part, {})[field] = x
        missing = {f.name for f in fields(cls)} - set(_PARTS) - set(own)
        if missing:
            raise UserError(
                f"this operator G lacks {', '.join(sorted(missing))}: an earlier version made it; calibrate "
                "again with `homeostat cache calibrate`"
            )
        if broken := [name for name, x in tensors.items() if not bool(x.isfinite().all())]:
            raise UserError(f"this operator G is damaged: {', '.join(broken)} not finite; calibrate again")
        sink, prior = (parts.get(name) for name in _PARTS)
        return cls(**own, sink=SinkClass(**sink) if sink else None, prior=Prior(**prior) if prior else None)
