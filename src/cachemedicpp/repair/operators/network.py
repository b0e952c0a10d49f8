"""The form of option E: a small network predicts a token's vectors from each other, and gates use that.

    u = (x - μ) / s                     every element of a token, keys before rotary; μ, s of clean text
    c = Σ u_i A_i                       one code for the token, from all protected layers and heads
    p = μ + s · (c + f(c)) Aᵀ           the prediction, as the model would store it
    a = (x - p)² / τ²                   how far an element is from its prediction, τ² as usual in clean text
    v, e = gates(a, x)                  how sure it is that a vector, and that an element, is damaged
    x ← x + g · (p - x)                 g = v + (1 - v) e

Every pass repairs what was stored, and predicts from what the pass before made of it. The gates see how a
vector's and the whole token's elements lie about their predictions, how many are exactly 0, and how coarse
the vector's numbers are. They do not see the query, other tokens, or what was done to the cache.

The first token of a sequence has moments, usual distances and a code of its own: it is an attention sink,
hardly varies, and is read by every query.

A vector whose numbers are all multiples of one step `s` was rounded, so each of them was within `s / 2` of
what is stored. There the gates have nothing to find out: `g = r / (r + τ²)` with the variance `r = s² / 12`
of rounding, and no element leaves its interval. Where `s` is small beside `τ`, next to nothing changes.
Validation may switch this off (`mend_rounded`): then rounded vectors keep their bits.

The first pass takes what is exactly 0 for lost, and begins with its mean; of rounded numbers, as far as their
interval allows.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PASSES = 2
_FARTHEST = 8.0  # standard deviations: what lies beyond is as surprising, and is not larger
_LARGEST = 1e15  # anything beyond counts as this, and so does what is no number
_FIRST = 32  # numbers in the code of a first token
_HIDDEN = 32  # units of the gates
_FEATURES = 7
_OUT = 5  # vector: offset; element: offset, slope, zero; vector: slope
_FLOOR = 1e-6
_CLOSED = -4.0  # where gates start: 2 % open
_CLEAN = -0.9  # mean of log(a + 0.1) over elements that are as usual
_FEWEST = 3  # numbers besides 0 that are multiples of one of them by more than chance
_MULTIPLES = (1, 2, 3)  # of the step that the least of them may be
_ROUNDING = 1e-3


class Network(nn.Module):
    """`layers × groups` vectors of `d` numbers per token; `width` numbers in the code of a token."""

    mean: Tensor
    spread: Tensor
    size: Tensor
    mend_rounded: Tensor

    def __init__(self, layers: int, groups: int, d: int, width: int) -> None:
        super().__init__()
        shape = (layers, groups, d)
        kinds = 2  # tokens, and the first one of a sequence, which is an attention sink
        self.register_buffer("mend_rounded", torch.tensor(True))
        self.register_buffer("mean", torch.zeros(kinds, *shape))
        self.register_buffer("spread", torch.ones(kinds, *shape))
        self.register_buffer("size", torch.ones(kinds, layers, groups, 1))  # RMS of whole vectors
        count = layers * groups * d
        self.code = nn.Parameter(torch.zeros(count, width))
        self.code_first = nn.Parameter(torch.zeros(count, min(width, _FIRST)))
        self.mix = nn.Linear(width, width)
        self.mixed = nn.Linear(width, width, bias=False)
        self.noise = nn.Parameter(torch.zeros(kinds, *shape))  # log τ² relative to spread²
        self.first = nn.Linear(2 * _FEATURES, _HIDDEN)
        self.last = nn.Linear(_HIDDEN, _OUT)
        self.own = nn.Parameter(torch.zeros(kinds, layers, groups, _OUT))
        nn.init.zeros_(self.mixed.weight)
        nn.init.zeros_(self.last.weight)
        with torch.no_grad():
            self.last.bias.copy_(torch.tensor([_CLOSED, _CLOSED, 1.0, 0.0, 1.0]))

    @torch.no_grad()
    def fit(
        self, mean: Tensor, spread: Tensor, size: Tensor, codes: tuple[Tensor, Tensor], noise: Tensor
    ) -> None:
        """The closed form to start from: moments of clean text, its first principal directions, what they
        leave unexplained."""
        self.mean.copy_(mean)
        self.spread.copy_(spread)
        self.size.copy_(size)
        self.code.copy_(codes[0])
        self.code_first.copy_(codes[1])
        self.noise.copy_(noise.clamp(min=_FLOOR).log())

    def forward(self, x: Tensor, first: Tensor, turn: Turn) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Repaired tokens, their gates `[N, L, G, d]` and `[N, L, G]`, and the prediction, all as stored.

        `x` `[N, L, G, d]` is as stored, `first` `[N]` says which tokens begin a sequence.
        """
        x = x.nan_to_num(_LARGEST, _LARGEST, -_LARGEST).clamp(-_LARGEST, _LARGEST)
        kind = first.long()
        mean, spread = self.mean[kind], self.spread[kind]
        tau = turn.variance(spread.square() * self.noise[kind].exp())  # as stored
        seen = self._seen(x, self.size[kind])
        step, rounded = rounding_step(x)
        half = torch.where(step > 0, step / 2, torch.inf)
        rounding = step.square() / 12
        usual, varied = turn.turn(mean), turn.variance(spread.square())
        missing = torch.where(step > 0, rounding / (rounding + varied), (x == 0).float())
        trusted = rounding / (rounding + tau)
        y = x + (missing * (usual - x)).clamp(-half, half)
        for _ in range(PASSES):
            u = ((turn.back(y) - mean) / spread).clamp(-_FARTHEST, _FARTHEST)
            p = turn.turn(mean + spread * self._predicted(u, first))
            open_, vector = self._gates(x, p, tau, seen, kind)
            y = x + (torch.where(step > 0, trusted, open_) * (p - x)).clamp(-half, half)
        open_ = open_.masked_fill(step > 0, 1.0).masked_fill(rounded & ~self.mend_rounded, 0.0)
        return torch.where(rounded & ~self.mend_rounded, x, y), open_, vector, p

    def _predicted(self, u: Tensor, first: Tensor) -> Tensor:
        flat = u.flatten(1)
        c = flat @ self.code
        c = c + self.mixed(F.gelu(self.mix(c)))
        predicted: Tensor = c @ self.code.T
        if bool(first.any()):
            own = flat @ self.code_first @ self.code_first.T
            predicted = torch.where(first.unsqueeze(-1), own, predicted)
        return predicted.view_as(u)

    def _seen(self, x: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the stored numbers say by themselves: which are 0, their scale, how coarse they are."""
        zero = x == 0
        much = (x.square().mean(-1, keepdim=True).sqrt() / size).clamp(1e-3, 1e3).log()
        least = x.abs().masked_fill(zero, _LARGEST).amin(-1, keepdim=True)
        coarse = (least / size).clamp(1e-5, 1.0).log()
        return zero, much, coarse

    def _gates(
        self, x: Tensor, p: Tensor, tau: Tensor, seen: tuple[Tensor, Tensor, Tensor], kind: Tensor
    ) -> tuple[Tensor, Tensor]:
        zero, much, coarse = seen
        a = ((x - p).square() / tau).clamp(max=1e6)
        log_a = (a + 0.1).log()
        features = torch.cat(
            (
                log_a.mean(-1, keepdim=True),
                (a.mean(-1, keepdim=True) + 0.1).log(),
                log_a.amax(-1, keepdim=True),
                (a > 9.0).float().mean(-1, keepdim=True),
                zero.float().mean(-1, keepdim=True),
                much,
                coarse * 0.3,
            ),
            dim=-1,
        )  # [N, L, G, features]
        whole = features.mean((1, 2), keepdim=True).expand_as(features)
        hidden = F.gelu(self.first(torch.cat((features, whole), dim=-1)))
        v, offset, slope, lost, rise = (self.last(hidden) + self.own[kind]).split(1, dim=-1)
        v = v + F.softplus(rise) * (features[..., :1] - _CLEAN)
        e = offset + F.softplus(slope) * (log_a - math.log(9.0)) + lost * zero
        vector = v.sigmoid()
        return vector + (1 - vector) * e.sigmoid(), vector.squeeze(-1)


def rounding_step(x: Tensor) -> tuple[Tensor, Tensor]:
    """The step of vectors `[…, G, d]` whose numbers are all multiples of one, `[…, G, 1]`; 0: of none.

    Beside it, which vectors were rounded: these, and those with few numbers besides 0 beside one of these.
    """
    size = x.abs()
    count = (size > 0).sum(-1, keepdim=True)
    least = size.masked_fill(size == 0, torch.inf).amin(-1, keepdim=True)
    found = torch.zeros_like(least)
    for multiple in _MULTIPLES:
        times = size / (least / multiple)
        whole = ((times - times.round()).abs() <= _ROUNDING).all(-1, keepdim=True)
        found = torch.where((found == 0) & (count >= _FEWEST) & whole, least / multiple, found)
    return found, (found > 0) | ((count < _FEWEST) & (found > 0).any(-2, keepdim=True))


class Turn:
    """The rotation of the keys among a token's vectors, for tokens at positions `[N]`.

    `theta` `[L, d]` are the protected layers' angles, the first `keys` vectors of each layer turn.
    """

    def __init__(self, positions: Tensor, theta: Tensor, partner: Tensor, keys: int) -> None:
        self._keys, self._partner = keys, partner
        self._still = not bool(theta.any())
        angle = (positions.double().view(-1, 1, 1, 1) * theta.double().unsqueeze(1)).float()
        self._cos, self._sin = angle.cos(), angle.sin()  # [N, L, 1, d]

    def turn(self, x: Tensor) -> Tensor:
        return self._apply(x, self._sin)

    def back(self, x: Tensor) -> Tensor:
        return self._apply(x, -self._sin)

    def variance(self, square: Tensor) -> Tensor:
        """Variances of what is stored, from those before rotary."""
        if self._still:
            return square
        K, V = square[:, :, : self._keys], square[:, :, self._keys :]
        K = K * self._cos.square() + K.index_select(-1, self._partner) * self._sin.square()
        return torch.cat((K, V), dim=2)

    def _apply(self, x: Tensor, sin: Tensor) -> Tensor:
        if self._still:
            return x
        K, V = x[:, :, : self._keys], x[:, :, self._keys :]
        return torch.cat((K * self._cos + K.index_select(-1, self._partner) * sin, V), dim=2)
