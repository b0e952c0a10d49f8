"""Attention sinks: tokens whose keys and values have unusual norms and are nearly the same each time.

A sink repaired with the statistics of ordinary tokens ruins the model; one left damaged costs almost as much.
They are recognised by norms, over all layers and heads at once, so that damage to single elements, noise,
and rotation do not hide them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cachemedicpp.repair.gaussian.statistics import Statistics

OFF_NORM = 0.6  # mean |log norm ratio| that makes a calibration token a sink: a factor of 1.8 everywhere
FEWEST = 16  # sinks needed to treat them as a separate class
_SPREAD = 0.05  # added to the spread of log-norms
_CLIP = 4.0  # the most that one head vector may say
_SAMPLE = 128  # tokens that tell how loud a head is
_LOUDER = 0.04  # log of a common scale from which it is one
_MANY = 0.2  # of all keys, or values, that are to show one: in clean text a few do by chance
_COMMON = 0.4  # of a sink's distance from its template, what a common scale may leave unexplained


def rms(stored: Tensor) -> Tensor:
    """RMS of each head vector of `stored` `[…, d]`, whatever single elements are."""
    return stored.clamp(-1e4, 1e4).square().mean(-1).sqrt()


def log_norms(stored: Tensor, scale: Tensor) -> Tensor:
    """Log RMS of each head vector of `stored` `[..., L, G, d]` over its head's RMS."""
    return _log_ratio(rms(stored), scale)


def is_sink(stored: Tensor, stats: Statistics) -> Tensor:
    """Which tokens of `stored` `[B, T, L, G, d]` (finite) are sinks: `[B, T]`."""
    return have_norms(rms(stored), stats)


def have_norms(size: Tensor, stats: Statistics) -> Tensor:
    """The same for tokens whose head vectors have these RMS, `[…, L, G]`."""
    if stats.sink is None:
        return torch.zeros(size.shape[:-2], dtype=torch.bool, device=size.device)
    return like_sinks(size, stats.scale, stats.sink.log_norm)


def like_sinks(size: Tensor, scale: Tensor, log_norm: Tensor) -> Tensor:
    """Which tokens have head vectors of RMS `size` `[…, L, G]` more like those of sinks: `[…]`.

    `log_norm` `[4, L, G]` has the mean and spread of ordinary tokens, then of sinks, relative to `scale`.
    """
    ordinary, ordinary_sd, sink, sink_sd = log_norm
    seen = _log_ratio(size, scale)
    ratio = _log_density(seen, sink, sink_sd) - _log_density(seen, ordinary, ordinary_sd)
    return ratio.clamp(-_CLIP, _CLIP).mean((-1, -2)) > 0


def louder(size: Tensor, stats: Statistics) -> Tensor:
    """Log of how much larger ordinary tokens, of RMS `size` `[N, L, G]`, are than in clean text: `[L, G]`."""
    if stats.sink is None or not len(size):
        return torch.zeros_like(stats.scale)
    seen = _log_ratio(size[:: -(-len(size) // _SAMPLE)], stats.scale)
    return seen.median(0).values - stats.sink.log_norm[0]


def common_scale(x: Tensor, template: Tensor, louder: Tensor) -> Tensor:
    """How much larger than their `template` `[L, G, d]` the sinks `x` `[N, L, G, d]` are, `[N, L, G]`.

    1 unless that is nearly all they differ by, and the tokens around them are as much `louder`; a head whose
    sink tells nothing goes with the other keys, or values, if its tokens do.
    """
    scale = (x * template).sum(-1) / template.square().sum(-1).clamp(min=1e-9)
    own = scale.clamp(min=1e-4).log()
    unexplained = (x - scale.unsqueeze(-1) * template).square().sum(-1)
    alike = (unexplained < _COMMON * (x - template).square().sum(-1)) & (own.abs() > _LOUDER)
    own = torch.where(alike, own, 0.0)
    kinds = (len(x), template.shape[0], 2, -1)  # keys, values
    with_others, alone = ((own * y).view(kinds).sum((1, 3), keepdim=True) for y in (louder, own))
    many = alike.view(kinds).float().mean((1, 3), keepdim=True) > _MANY
    common = ((2 * with_others > alone) & many).expand(own.view(kinds).shape).reshape(own.shape)
    told = torch.where(alike, own, torch.nan).view(kinds).transpose(1, 2).flatten(2).nanmedian(-1).values
    typical = told[:, None, :, None].expand(own.view(kinds).shape).reshape(own.shape)  # where one shows
    silent = ~alike & ((louder - typical).abs() < typical.abs() / 2)
    scale = torch.where(alike, scale, torch.where(silent, typical.exp(), 1.0))
    return torch.where(common, scale, 1.0)


def _log_ratio(size: Tensor, scale: Tensor) -> Tensor:
    return (size / scale).clamp(min=1e-4).log()


def _log_density(x: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    wide = spread + _SPREAD
    return -(x - mean).square() / (2 * wide.square()) - wide.log()
