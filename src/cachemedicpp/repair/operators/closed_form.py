"""Operator D's start: means, directions, variances and thresholds of clean text, in one closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cachemedicpp.cache.prefill import prefill
from cachemedicpp.repair.gaussian import sinks
from cachemedicpp.repair.gaussian.calibrate import longest
from cachemedicpp.repair.gaussian.statistics import shrunk
from cachemedicpp.repair.gaussian.tokens import gather
from homeostat.core.errors import UserError
from homeostat.core.progress import track

if TYPE_CHECKING:
    from cachemedicpp.repair.operators.statewise import Filters, Statewise

_HELD_OUT = 4  # one window in so many is kept for measuring how far clean text lies from its mean
_FEWEST = 8  # windows
_BATCH = 8
_MARGIN = 1.5  # by so much a vector may be farther off than any of the text that was not fitted


@torch.no_grad()
def fit(operator: Statewise, model: Any, windows: Tensor) -> None:
    """Fit every filter of `operator` to what `model` stores for `windows` `[N, T]` of ordinary text."""
    if len(windows) < _FEWEST:
        raise UserError(f"operator D needs {_FEWEST} windows of text to start from, not {len(windows)}")
    operator.turning.learn(model)
    windows = windows[:, : longest(model)]
    if not bool(operator.turning.theta.any()):
        operator.length.fill_(windows.shape[1])
    x, norms = _read(operator, model, windows)
    scale = norms.flatten(0, 1).median(0).values  # [L, G]
    off = (norms - scale).abs().mean((-1, -2)) > sinks.OFF_NORM  # [N, T]
    kept = (torch.arange(len(windows)) % _HELD_OUT == 0).unsqueeze(1).expand_as(off)
    ordinary, sink = x[~off & ~kept], x[off & ~kept]  # [n, layers, G, d]
    for number, layer in enumerate(operator.layers):
        filters = operator.of(layer)
        filters.ordinary.fit(*_moments(ordinary[:, number]))
        if len(sink) >= sinks.FEWEST:
            filters.sinks.fill_(True)
            mean, covariance = _moments(sink[:, number])
            filters.sink.fit(mean, shrunk(mean, covariance, len(sink)))
            spread = [_log_norm(own[:, number]) for own in (ordinary, sink)]
            filters.log_norm.copy_(torch.cat(spread))
        _spare(filters, x[::_HELD_OUT, :, number].transpose(1, 2))


def _spare(filters: Filters, x: Tensor) -> None:
    """Thresholds beyond which no clean vector of `x` `[N, G, T, d]`, which was not fitted, lies."""
    is_sink = filters.is_sink(x)
    for own, chosen in ((filters.sink, is_sink), (filters.ordinary, ~is_sink)):
        distance = own.distance(x).transpose(1, 2)[chosen]  # [n, G]
        if len(distance):
            own.spare(_MARGIN * distance.amax(0))


def _read(operator: Statewise, model: Any, windows: Tensor) -> tuple[Tensor, Tensor]:
    """What the model stores in the protected layers, keys before rotary, and log-norms of all layers.

    `[N, T, layers, G, d]` and `[N, T, L, G]`.
    """
    found, norms = [], []
    for ids in track(torch.split(windows, _BATCH), "fitting operator D"):
        stored = gather(list(prefill(model, ids))).cpu()
        norms.append(sinks.log_norms(stored, torch.ones(stored.shape[2:4])))
        x = stored[:, :, list(operator.layers)]
        keys = x.shape[3] // 2
        places = torch.arange(x.shape[1]).expand(x.shape[:2])
        for number, layer in enumerate(operator.layers):
            turned = operator.turning.at(layer, places)
            x[:, :, number, :keys] = turned.back(x[:, :, number, :keys].transpose(1, 2)).transpose(1, 2)
        found.append(x)
    return torch.cat(found), torch.cat(norms)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean `[G, d]` and covariance `[G, d, d]` of head vectors `[n, G, d]`."""
    mean = x.mean(0)
    centred = (x - mean).transpose(0, 1)
    return mean, centred.mT @ centred / len(x)


def _log_norm(x: Tensor) -> Tensor:
    """Mean and spread of the log-norms of head vectors `[n, G, d]`: `[2, G]`."""
    seen = sinks.log_norms(x.unsqueeze(1), torch.ones(1, x.shape[1]))[:, 0]
    return torch.stack((seen.mean(0), seen.std(0)))
