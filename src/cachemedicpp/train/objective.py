"""The objective: distillation, identity on clean batches, contraction on corrupted ones.

    L = KL(softmax(z_clean / T) || softmax(z_rep / T))
        + lambda_id L_id + lambda_contr L_contr + lambda_w ||phi||²

The repaired state of a query-conditioned operator is one state per query; `L_id` and `rho` take its average
over the queries of the call, which is exact for the operators here because they are linear in their gates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from cachemedicpp.cache.state import KV

_TINY = 1e-8
_TOUCHED = 1e-6  # damage below this share of the state's size is none: no ratio can be formed with it


def kd_loss(z_clean: Tensor, z_rep: Tensor, T: float) -> Tensor:
    """`KL(softmax(z_clean / T) || softmax(z_rep / T))`, the mean over all positions `[..., V]`."""
    clean = F.log_softmax(z_clean.float() / T, dim=-1)
    repaired = F.log_softmax(z_rep.float() / T, dim=-1)
    return F.kl_div(repaired, clean, reduction="none", log_target=True).sum(-1).mean()


def identity_loss(clean: Mapping[int, KV], repaired: Mapping[int, KV], form: str = "joint") -> Tensor:
    """Sum over layers of `(||dK||² + ||dV||²) / (||K||² + ||V||² + 1e-8)`.

    Keys are most of that sum (82 to 96 % on the default model), so that values may change almost freely. The
    form `each` takes both relative to their own size: `(||dK||² / ||K||² + ||dV||² / ||V||²) / 2`.
    """
    terms = []
    for layer, kv in clean.items():
        change = [_square(new - old) for new, old in zip(repaired[layer], kv, strict=True)]
        size = [_square(x) for x in kv]
        if form == "joint":
            terms.append(sum(change) / (sum(size) + _TINY))
        else:
            terms.append(sum(c / (s + _TINY) for c, s in zip(change, size, strict=True)) / 2)
    return torch.stack(terms).sum()  # type: ignore[arg-type]


def contraction_ratios(
    clean: Mapping[int, KV], corrupted: Mapping[int, KV], repaired: Mapping[int, KV]
) -> Tensor:
    """`rho` of every (layer, sequence) that was damaged: distance to the clean state, after over before.

    `rho = (||K_rep-K|| + ||V_rep-V||) / (||K_corr-K|| + ||V_corr-V|| + 1e-8)`. Where nothing was touched (an
    empty mask, epsilon 0) there is no ratio: dividing by almost nothing would make a tiny change a huge one.
    """
    ratios = []
    for layer, kv in clean.items():
        before = _distance(corrupted[layer], kv)  # [B]
        after = _distance(repaired[layer], kv)
        size = _norm(kv.K) + _norm(kv.V)
        touched = before.detach() > _TOUCHED * size
        ratios.append((after / (before + _TINY))[touched])
    return torch.cat(ratios)


def contraction_loss(rho: Tensor, alpha: float) -> Tensor:
    """The mean of `max(0, rho - alpha)²`; zero where there is no ratio at all."""
    return (rho - alpha).clamp(min=0).square().mean() if rho.numel() else rho.new_zeros(())


def weight_penalty(parameters: Iterable[Tensor]) -> Tensor:
    """`||phi||²`."""
    return torch.stack([p.square().sum() for p in parameters]).sum()


def _distance(a: KV, b: KV) -> Tensor:
    return _norm(a.K - b.K) + _norm(a.V - b.V)


def _norm(x: Tensor) -> Tensor:
    """Frobenius norm of each sequence `[B]`, with a gradient that stays finite at zero."""
    return (x.float().square().flatten(1).sum(1) + 1e-20).sqrt()


def _square(x: Tensor) -> Tensor:
    return x.float().square().sum()
