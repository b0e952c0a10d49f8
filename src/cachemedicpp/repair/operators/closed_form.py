"""Operator D's start: means, directions, variances and thresholds of clean text, in one closed form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cachemedicpp.cache.state import KVState
from cachemedicpp.repair.gaussian import sinks
from cachemedicpp.repair.gaussian.calibrate import longest
from cachemedicpp.repair.gaussian.tokens import gather
from homeostat.core.errors import UserError
from homeostat.core.progress import track

if TYPE_CHECKING:
    from cachemedicpp.repair.operators.statewise import Statewise

_HELD_OUT = 4  # one window in so many is kept for measuring how far clean text lies from its mean
_FEWEST = 8  # windows
_SCALE_WINDOWS = 16  # windows that settle the typical norms
_BATCH = 8
_QUANTILE = 0.999  # of clean distances
_MARGIN = 1.5  # by so much a vector may be farther off than that quantile


@torch.no_grad()
def fit(operator: Statewise, model: Any, windows: Tensor) -> None:
    """Fit every filter of `operator` to what `model` stores for `windows` `[N, T]` of ordinary text."""
    if len(windows) < _FEWEST:
        raise UserError(f"operator D needs {_FEWEST} windows of text to start from, not {len(windows)}")
    operator.turning.learn(model)
    windows = windows[:, : longest(model)]
    if not bool(operator.turning.theta.any()):
        operator.length.fill_(windows.shape[1])
    kept = torch.arange(len(windows)) % _HELD_OUT == 0
    first = torch.cat([stored for stored, _ in _read(operator, model, windows[:_SCALE_WINDOWS], "norms")])
    scale = first.square().mean(-1).sqrt().flatten(0, 1).median(0).values.clamp(min=1e-6)  # [L, G]
    sizes = len(operator.layers), first.shape[-2], first.shape[-1]
    ordinary, sink = _Moments(*sizes), _Moments(*sizes)
    for stored, x in _read(operator, model, windows[~kept], "fitting operator D"):
        off = sinks.log_norms(stored, scale).abs().mean((-1, -2)) > sinks.OFF_NORM  # [b, T]
        ordinary.add(x[~off])
        sink.add(x[off])
    for number, layer in enumerate(operator.layers):
        filters = operator.of(layer)
        filters.ordinary.fit(*ordinary.of(number))
        if sink.count >= sinks.FEWEST:
            filters.sinks.fill_(True)
            filters.sink.fit(*sink.of(number, shrunk=True))
            filters.log_norm.copy_(torch.cat((ordinary.log_norm(number), sink.log_norm(number))))
    _spare(operator, model, windows[kept])


def _spare(operator: Statewise, model: Any, windows: Tensor) -> None:
    """Thresholds above which clean text hardly ever lies, measured on text that was not fitted."""
    found: dict[tuple[int, bool], list[Tensor]] = {}
    for _, x in _read(operator, model, windows, "measuring clean text"):
        for number, layer in enumerate(operator.layers):
            filters = operator.of(layer)
            each = x[:, :, number].transpose(1, 2)  # [b, G, T, d]
            is_sink = filters.is_sink(each)
            for which, own in ((True, filters.sink), (False, filters.ordinary)):
                distance = own.distance(each).transpose(1, 2)[is_sink == which]  # [n, G]
                found.setdefault((layer, which), []).append(distance)
    for (layer, which), distances in found.items():
        every = torch.cat(distances)
        filters = operator.of(layer)
        if len(every):
            (filters.sink if which else filters.ordinary).spare(_MARGIN * every.quantile(_QUANTILE, dim=0))


def _read(operator: Statewise, model: Any, windows: Tensor, what: str) -> Iterator[tuple[Tensor, Tensor]]:
    """What the model stores, `[b, T, L, G, d]`, and the protected layers of it with keys before rotary."""
    for ids in track(torch.split(windows, _BATCH), what):
        output = model(input_ids=ids.to(model.device), use_cache=True, logits_to_keep=1)
        stored = gather(list(KVState(output.past_key_values)))
        x = stored[:, :, list(operator.layers)]
        keys = x.shape[3] // 2
        places = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
        for number, layer in enumerate(operator.layers):
            turned = operator.turning.at(layer, places)
            x[:, :, number, :keys] = turned.back(x[:, :, number, :keys].transpose(1, 2)).transpose(1, 2)
        yield stored, x


class _Moments:
    """Running sums over tokens of one class: means, covariances and log-norms of every head vector."""

    def __init__(self, layers: int, groups: int, d: int) -> None:
        self.count = 0
        self._sum = torch.zeros(layers, groups, d, dtype=torch.float64)
        self._products = torch.zeros(layers, groups, d, d, dtype=torch.float64)
        self._norms: list[Tensor] = []

    def add(self, x: Tensor) -> None:
        """Tokens `[n, layers, G, d]`."""
        x = x.cpu()
        self.count += len(x)
        self._sum += x.double().sum(0)
        self._products += torch.einsum("nlgi,nlgj->lgij", x, x).double()
        self._norms.append(sinks.log_norms(x, torch.ones(x.shape[1:3])))

    def of(self, layer: int, shrunk: bool = False) -> tuple[Tensor, Tensor]:
        """Mean `[G, d]` and covariance `[G, d, d]`; `shrunk` towards its diagonal where tokens are few."""
        mean = self._sum[layer] / self.count
        covariance = self._products[layer] / self.count - mean.unsqueeze(-1) * mean.unsqueeze(-2)
        if shrunk:
            d = mean.shape[-1]
            share = d / (self.count + d)
            diagonal = covariance.diagonal(dim1=-2, dim2=-1)
            floor = 1e-4 * mean.square().mean(-1, keepdim=True) + 1e-6  # a hundredth of the template's RMS
            covariance = (1 - share) * covariance + torch.diag_embed(share * diagonal + floor)
        return mean.float(), covariance.float()

    def log_norm(self, layer: int) -> Tensor:
        """Mean and spread of the log-norms, `[2, G]`."""
        seen = torch.cat(self._norms)[:, layer]
        return torch.stack((seen.mean(0), seen.std(0)))
