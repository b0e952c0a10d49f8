"""The rotation of keys by position, written down so that a stored operator needs no model to undo it.

A rotary embedding turns pairs of channels by an angle proportional to the position. The pairs and angles are
measured on the model's own rotation once, at calibration. Any layout works (halves, interleaved, partial).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.cache.rotary import Rotary
from homeostat.core.errors import UserError

_FAR = 997  # a distant position at which angles proportional to the position are checked


@dataclass(frozen=True)
class Pairs:
    """Channel `i` of layer `l` turns with channel `partner[i]` by `theta[l, i]` per position."""

    theta: Tensor  # [L, d], signed: x'_i = x_i cos(t θ_i) + x_partner(i) sin(t θ_i)
    partner: Tensor  # [d]

    @property
    def none(self) -> bool:
        """No layer turns anything: positions, if the model has any, are learned."""
        return not bool(self.theta.any())

    @classmethod
    def probe(cls, model: Any, layers: int, head_dim: int) -> Pairs:
        rotary = Rotary(model)
        near = torch.stack([_turned(rotary, 1, layer, head_dim) for layer in range(layers)])  # [L, d, d]
        strength = near.abs().amax(0).masked_fill(torch.eye(head_dim, dtype=torch.bool), 0.0)
        channels = torch.arange(head_dim)
        # Slow channels turn by hardly anything at position 1, so pairs are found by the largest share.
        partner = torch.where(strength.amax(0) > 0, strength.argmax(0), channels)
        theta = torch.atan2(near[:, partner, channels], near[:, channels, channels])
        pairs = cls(torch.where(partner == channels, 0.0, theta).float(), partner)
        pairs._check(rotary, head_dim)
        return pairs

    def _check(self, rotary: Rotary, head_dim: int) -> None:
        for layer in range(len(self.theta)):
            theirs = _turned(rotary, _FAR, layer, head_dim)
            ours = self.at(torch.tensor([_FAR]), layer).turn(torch.eye(head_dim).unsqueeze(0))[0]
            if not torch.allclose(ours.double(), theirs, atol=1e-2):
                raise UserError(
                    "this model's rotary angles are not proportional to the position (dynamic scaling?): "
                    "the rotation of its keys cannot be taken off"
                )

    def length(self, x: Tensor, keys: int) -> Tensor:
        """The most that turning makes of each element of `x` `[…, L, G, d]`; the first `keys` heads turn."""
        turns = (self.theta != 0).unsqueeze(1) & (
            torch.arange(x.shape[-2], device=x.device) < keys
        ).unsqueeze(-1)
        return torch.where(turns, torch.hypot(x, x[..., self.partner]), x.abs())

    def at(self, positions: Tensor, layer: int) -> Turn:
        """The rotation of tokens at these positions `[N]`."""
        if not bool(self.theta[layer].any()):
            return still(self.theta.shape[1])
        angle = positions.double().unsqueeze(-1) * self.theta[layer].double()  # [N, d]
        return Turn(angle.cos().float(), angle.sin().float(), self.partner)


@dataclass(frozen=True)
class Turn:
    """One rotation per token: `turn` gives what the model stores, `back` what it was before."""

    cos: Tensor  # [N, d]
    sin: Tensor  # [N, d]
    partner: Tensor  # [d]
    still: bool = False  # no rotation: values, and keys of models with learned positions

    def turn(self, x: Tensor) -> Tensor:
        """Rotate `x` `[N, ..., d]`."""
        return x if self.still else self._apply(x, self.sin)

    def back(self, x: Tensor) -> Tensor:
        return x if self.still else self._apply(x, -self.sin)

    def rows(self, index: Tensor) -> Turn:
        if self.still:
            return self
        return Turn(self.cos[index], self.sin[index], self.partner)

    def diagonal(self, P: Tensor) -> Tensor:
        """The diagonal of `R P Rᵀ` for every token, `[N, d]` (`[1, d]` where nothing turns)."""
        own = P.diagonal()
        if self.still:
            return own.unsqueeze(0)
        return (
            self.cos.square() * own
            + self.sin.square() * own[self.partner]
            + 2 * self.cos * self.sin * P.gather(1, self.partner.unsqueeze(1)).squeeze(1)
        )

    def block(self, P: Tensor, index: Tensor) -> Tensor:
        """The rows and columns `index` `[N, m]` of `R P Rᵀ`, for every token: `[N, m, m]`."""
        if self.still:
            return P[index.unsqueeze(2), index.unsqueeze(1)]
        cos, sin = self.cos.gather(1, index), self.sin.gather(1, index)
        other = self.partner[index]
        rows = cos.unsqueeze(2) * P[index] + sin.unsqueeze(2) * P[other]  # [N, m, d]: R P
        pick = index.unsqueeze(1).expand(-1, index.shape[1], -1)
        swap = other.unsqueeze(1).expand_as(pick)
        return cos.unsqueeze(1) * rows.gather(2, pick) + sin.unsqueeze(1) * rows.gather(2, swap)

    def _apply(self, x: Tensor, sin: Tensor) -> Tensor:
        shape = (len(self.cos), *[1] * (x.dim() - 2), x.shape[-1])
        return x * self.cos.view(shape) + x.index_select(-1, self.partner) * sin.view(shape)


def still(head_dim: int) -> Turn:
    none = torch.zeros(0, head_dim)
    return Turn(none, none, torch.arange(head_dim), still=True)


def _turned(rotary: Rotary, position: int, layer: int, head_dim: int) -> Tensor:
    """What the model makes of the unit vectors at a position, `[d, d]`, one row each, without its scale."""
    unit = torch.eye(head_dim).view(1, 1, head_dim, head_dim)
    if rotary.is_identity:
        return unit[0, 0].double()
    places = torch.full((1, head_dim), position)
    rows = rotary.rotate(unit, places, layer)[0, 0].double()
    size: Tensor = rows.norm(dim=-1, keepdim=True)
    return rows / size
