"""Attention sinks: tokens whose keys and values have unusual norms and are nearly the same each time.

A sink repaired with the statistics of ordinary tokens ruins the model; one left damaged costs almost as much.
They are recognised by norms, over all layers and heads at once, so that damage to single elements, noise,
and rotation do not hide them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cachemedicpp.repair.gaussian.statistics import SinkClass, Statistics

OFF_NORM = 0.6  # mean |log norm ratio| that makes a calibration token a sink: a factor of 1.8 everywhere
FEWEST = 16  # sinks needed to treat them as a separate class
_SPREAD = 0.05  # added to the spread of log-norms
_CLIP = 4.0  # the most that one head vector may say


def log_norms(stored: Tensor, scale: Tensor) -> Tensor:
    """Log RMS of each head vector of `stored` `[..., L, G, d]` over its head's RMS."""
    rms = stored.clamp(-1e4, 1e4).square().mean(-1).sqrt()
    return (rms / scale).clamp(min=1e-4).log()


def is_sink(stored: Tensor, stats: Statistics) -> Tensor:
    """Which tokens of `stored` `[B, T, L, G, d]` (finite) are sinks: `[B, T]`."""
    if stats.sink is None:
        return torch.zeros(stored.shape[:2], dtype=torch.bool)
    return like_sinks(stored, stats.scale, stats.sink.log_norm)


def like_sinks(stored: Tensor, scale: Tensor, log_norm: Tensor) -> Tensor:
    """Which tokens of `stored` `[B, T, L, G, d]` have norms more like those of sinks: `[B, T]`.

    `log_norm` `[4, L, G]` has the mean and spread of ordinary tokens, then of sinks, relative to `scale`.
    """
    ordinary, ordinary_sd, sink, sink_sd = log_norm
    seen = log_norms(stored, scale)
    ratio = _log_density(seen, sink, sink_sd) - _log_density(seen, ordinary, ordinary_sd)
    return ratio.clamp(-_CLIP, _CLIP).mean((-1, -2)) > 0


def precision(sink: SinkClass) -> Tensor:
    """Inverse covariance of each head's sink template, `[L, G, d, d]`, shrunk for how many were seen."""
    inverse: Tensor = torch.linalg.inv(covariance(sink))
    return inverse


def covariance(sink: SinkClass) -> Tensor:
    d = sink.mean.shape[-1]
    share = d / (float(sink.count) + d)
    diagonal = torch.diag_embed(sink.covariance.diagonal(dim1=-2, dim2=-1))
    floor = 1e-4 * sink.mean.square().mean(-1) + 1e-6  # a hundredth of the template's RMS
    return (1 - share) * sink.covariance + share * diagonal + floor[..., None, None] * torch.eye(d)


def _log_density(x: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    wide = spread + _SPREAD
    return -(x - mean).square() / (2 * wide.square()) - wide.log()
