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


def _log_ratio(size: Tensor, scale: Tensor) -> Tensor:
    return (size / scale).clamp(min=1e-4).log()


def _log_density(x: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    wide = spread + _SPREAD
    return -(x - mean).square() / (2 * wide.square()) - wide.log()
