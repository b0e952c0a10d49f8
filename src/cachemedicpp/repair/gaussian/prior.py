"""The tokens as evidence: what a token's keys and values should be, and whether a block is of its tokens.

    y = Wᵀ x + r,    x = (e(token), e(token before), 1),    r ~ t_d(0, (1 + h) R),    h = xᵀ (XᵀX + λI)⁻¹ x

Ridge regression for the keys (before rotary) and values `y`, `d` numbers of each head, over ordinary tokens.
`e` is the model's input embedding, scaled to unit RMS as its first norm does. `h` is the leverage: what
calibration has not seen, it predicts with less confidence. Residuals have the tails of Student's t: a few
tokens of any text surprise one head. The evidence of a head vector is the log Bayes factor, per dimension, of
"of these tokens" against "of any others":

    (1/d) log t_d(y; Wᵀx, (1 + h) R) / t_d(y; μ, C)

with the mean `μ` and covariance `C` of all tokens. It is averaged over the tokens of a block for each head,
each layer and the whole. What is unusual about a text shows in all layers alike, so a head is compared with
what all other heads of the block say, and a layer with all other layers: by its residual given them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from cachemedicpp.repair.gaussian import tails

BLOCK = 16  # positions that share one verdict: a noise level, a fit, their tokens
FEWEST = BLOCK // 4  # ordinary tokens from which a block can be judged
LEVELS = ("head", "layer", "block")
FLOOR = 1e-3  # added to unit-variance covariances: below it, directions are not trusted
NEARLY_ALL = 0.75  # halfway from every other layer, where each has a sound neighbour, to all
_CHUNK = 1024  # tokens judged at a time


@dataclass(frozen=True)
class Prior:
    """Keys and values given the tokens. `G` head vectors of `d` numbers in each of `L` layers; `E` wide
    embeddings, `P = 2 E + 1` features."""

    weight: Tensor  # [P, L, G, d]
    inverse: Tensor  # [P, P]: (XᵀX + λI)⁻¹
    residual: Tensor  # [L, G, d, d]: R
    mean: Tensor  # [L, G, d]: μ
    covariance: Tensor  # [L, G, d, d]: C
    typical: Tensor  # [L G + L + 1]: mean evidence of each unit of held-out text
    heads: Tensor  # [L G, L G]: evidence missing to scores
    layers: Tensor  # [L, L]
    whole: Tensor  # [1, 1]
    tail: Tensor  # [3, 4]: the tail of each level's largest score
    blocks: Tensor  # [] of held-out text

    @cached_property
    def _forms(self) -> tuple[Tensor, Tensor, Tensor]:
        """Roots of the two precisions, `[L, G, d, d]`, and half the log ratio of determinants, `[L, G]`."""
        eye = FLOOR * torch.eye(self.mean.shape[-1], device=self.mean.device)
        factors = [torch.linalg.cholesky(x + eye) for x in (self.residual, self.covariance)]
        own, other = (torch.linalg.solve_triangular(f, eye / FLOOR, upper=False) for f in factors)
        logs = [f.diagonal(dim1=-2, dim2=-1).log().sum(-1) for f in factors]
        return own, other, logs[1] - logs[0]

    def predict(self, x: Tensor) -> Tensor:
        """The mean `[N, L, G, d]` given features `[N, P]`."""
        L, G, d = self.mean.shape
        return (x @ self.weight.flatten(1)).view(-1, L, G, d)

    def evidence(self, x: Tensor, y: Tensor) -> Tensor:
        """For features `[N, P]` and head vectors `[N, L, G, d]`: nats per dimension, `[N, L, G]`."""
        return torch.cat(
            [self._evidence(*both) for both in zip(*(torch.split(z, _CHUNK) for z in (x, y)), strict=True)]
        )

    def _evidence(self, x: Tensor, y: Tensor) -> Tensor:
        own, other, log_ratio = self._forms
        d = y.shape[-1]
        wider = 1 + ((x @ self.inverse) * x).sum(-1)  # [N]
        out = torch.empty_like(y[..., 0])
        for layer in range(y.shape[1]):
            here = y[:, layer].transpose(0, 1)  # [G, N, d]
            mean = (x @ self.weight[:, layer].flatten(1)).view(len(x), -1, d).transpose(0, 1)
            given = ((here - mean) @ own[layer].mT).square().mean(-1)  # [G, N]
            without = ((here - self.mean[layer].unsqueeze(1)) @ other[layer].mT).square().mean(-1)
            out[:, layer] = (without.log1p() - (given / wider).log1p()).T + log_ratio[layer] / d
        return out - wider.log()[:, None, None] / 2

    def scores(self, evidence: Tensor, block: Tensor, blocks: int) -> Scores:
        """How far the evidence `[N, L, G]` of the tokens of each block is below what is to be expected."""
        means, count = unit_means(evidence, block, blocks)
        L, G = evidence.shape[1:]
        missing = (self.typical - means) * (count / BLOCK).clamp(max=1).sqrt().unsqueeze(1)
        missing = missing.masked_fill((count < FEWEST).unsqueeze(1), torch.nan)
        forms = (self.heads, self.layers, self.whole)
        head, layer, whole = (
            part @ form for part, form in zip(torch.split(missing, [L * G, L, 1], 1), forms, strict=True)
        )
        return Scores(head.view(-1, L, G), layer, whole.squeeze(1), means[:, : L * G].view(-1, L, G))

    def limits(self, alpha: float) -> tuple[float, float, float]:
        """The score of each level that a share `alpha` of clean blocks exceeds, over all levels together."""
        tails.check_rate(alpha, int(self.blocks))
        head, layer, block = (tails.Tail(*row).limit(alpha / len(LEVELS)) for row in self.tail.tolist())
        return head, layer, block


@dataclass(frozen=True)
class Scores:
    """Standard deviations below the evidence to expect of clean text; NaN where there is too little."""

    head: Tensor  # [blocks, L, G]
    layer: Tensor  # [blocks, L]
    block: Tensor  # [blocks]
    evidence: Tensor  # [blocks, L, G]: mean nats per dimension

    def alarms(self, limits: tuple[float, float, float]) -> Tensor:
        """Blocks `[blocks]` in which something is not of these tokens."""
        head, layer, block = limits
        return (self.head > head).flatten(1).any(1) | (self.layer > layer).any(1) | (self.block > block)

    def foreign(self, limits: tuple[float, float, float]) -> Tensor:
        """Head vectors `[blocks, L, G]` that are not of these tokens.

        Whether a block holds any is a test, at a rate. Which ones is then a matter of odds: those that are
        more likely of other tokens, and those beyond the limit; where no head is, the layer or the block. One
        cause for all heads of a layer, or of a block, is likelier than one for each of nearly all.
        """
        head, layer, _ = limits
        likely = (self.head > head) | (self.evidence < 0)
        likely |= (self.layer > layer).unsqueeze(-1) & ~likely.any(-1, keepdim=True)
        likely |= ~likely.flatten(1).any(1)[:, None, None]
        likely |= likely.float().mean(-1, keepdim=True) > NEARLY_ALL
        likely |= likely.float().mean((-1, -2), keepdim=True) > NEARLY_ALL
        return likely & self.alarms(limits)[:, None, None]


def unit_means(evidence: Tensor, block: Tensor, blocks: int) -> tuple[Tensor, Tensor]:
    """Mean evidence of each block's heads, layers and whole, `[blocks, L G + L + 1]`, and its tokens."""
    count = torch.bincount(block, minlength=blocks)
    head = evidence.new_zeros(blocks, *evidence.shape[1:]).index_add_(0, block, evidence)
    head = head / count.clamp(min=1)[:, None, None]
    layer = head.mean(-1)
    return torch.cat((head.flatten(1), layer, layer.mean(-1, keepdim=True)), 1), count


def features(embedding: Tensor, ids: Tensor, real: Tensor) -> Tensor:
    """`[B, T, P]` for token ids `[B, T]`; what is not `real`, or comes before the first token, is 0."""
    e = torch.nn.functional.embedding(ids, embedding).float()
    e = e / e.square().mean(-1, keepdim=True).sqrt().clamp(min=1e-6) * real.unsqueeze(-1)
    before = torch.cat((torch.zeros_like(e[:, :1]), e[:, :-1]), 1)
    return torch.cat((e, before, torch.ones_like(e[..., :1])), -1)
