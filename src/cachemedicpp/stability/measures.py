"""Stability around the clean state: logit sensitivity and amplification, by finite differences.

    z(S)            next-token logits when a prompt's last token reads the state S of those before it
    Sens(delta)     E || z(S + delta) - z(S) ||_2, the norm taken over the top-k logits of z(S)
    gamma(l, h)     median || z(S + delta_lh) - z(S) ||_2 / (||delta_lh||_F + eps0)

A direction is Gaussian, zero outside the time mask, of Frobenius norm 1 in each layer (keys and values
together), and is scaled by the layer's RMS. Directions and norms are stacked on one forked prefix. Drift is
measured at every norm, 0 included, so a repair's drift on a clean state is on the record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.cache.state import KV, KVState
from cachemedicpp.corruption.streams import Stream
from cachemedicpp.eval.defences import Defence, Forks
from cachemedicpp.eval.grid import prefill

EPS0 = 1e-8
Reader = Callable[[KVState], Tensor]  # logits [rows, vocabulary] of a stacked state
Row = tuple[int, float]  # number of a direction, delta norm


@dataclass(frozen=True)
class Prompt:
    """A prompt at rest: the clean state of all tokens but the last, which asks the question."""

    key: str
    ids: tuple[int, ...]
    clean: KVState

    @classmethod
    def run(cls, model: Any, key: str, ids: Sequence[int]) -> Prompt:
        return cls(key, tuple(ids), prefill(model, ids[:-1]))

    def reader(self, model: Any, defence: Defence) -> Reader:
        """How the last token sees a perturbed state when `defence` is on duty."""

        def read(state: KVState) -> Tensor:
            with torch.no_grad():
                cache = state.cache()
                defence.mend(model, cache, Forks(self.ids[:-1], self.clean, [None] * state.batch))
                with defence.attached(model):
                    query = torch.tensor([[self.ids[-1]]] * state.batch, device=model.device)
                    output = model(query, past_key_values=cache, use_cache=True, logits_to_keep=1)
            return output.logits[:, -1].float()  # type: ignore[no-any-return]

        return read


def directions(
    clean: KVState,
    layers: Sequence[int],
    old: int,
    stream: Stream,
    count: int,
    heads: Sequence[int] | None = None,
) -> dict[int, KV]:
    """`count` directions by layer, each `[count, H_kv, T, d]`: nonzero in the first `old` positions (and in
    `heads`), of norm 1 in each layer over keys and values together."""
    found: dict[int, KV] = {}
    for layer in layers:
        pair = []
        for name, x in zip("KV", clean[layer], strict=True):
            _, H, T, d = x.shape
            u = torch.stack([stream.at(i, layer, name).normal(H, T, d) for i in range(count)])
            u[:, :, old:] = 0.0
            if heads is not None:
                others = [h for h in range(H) if h not in heads]
                u[:, others] = 0.0
            pair.append(u)
        norm = torch.stack([u.double().square().sum((1, 2, 3)) for u in pair]).sum(0).sqrt()  # [count]
        scale = norm.clamp(min=1e-30).reciprocal().float().view(-1, 1, 1, 1)
        found[layer] = KV(*((u * scale).to(x) for u, x in zip(pair, clean[layer], strict=True)))
    return found


def perturbed(clean: KVState, units: dict[int, KV], rows: Sequence[Row]) -> KVState:
    """`S + delta` for each row: `delta = norm * u * rms(layer)`, stacked as one batch."""
    index = [direction for direction, _ in rows]
    norms = torch.tensor([norm for _, norm in rows]).view(-1, 1, 1, 1)
    layers: dict[int, tuple[Tensor, Tensor]] = {}
    for layer, (K, V) in enumerate(clean):
        if layer in units:
            scale = (norms * clean.rms(layer).float().cpu().view(1, 1, 1, 1)).to(K)
            layers[layer] = (K + scale * units[layer].K[index], V + scale * units[layer].V[index])
        else:
            layers[layer] = (K.expand(len(rows), -1, -1, -1), V.expand(len(rows), -1, -1, -1))
    return clean.replace(layers)


def drifts(
    clean: KVState,
    units: dict[int, KV],
    rows: Sequence[Row],
    read: Reader,
    reference: Reader,
    topk: int | None,
) -> list[float]:
    """`|| z(S + delta) - z(S) ||_2` for each row, in one batch.

    `reference` reads the clean state in a batch of the same shape, so that what is subtracted was computed in
    the same way, and no perturbation without repair gives exactly 0.
    """
    z_clean = reference(perturbed(clean, {}, rows))  # [rows, vocabulary]
    z = read(perturbed(clean, units, rows))
    if topk is not None and topk < z.shape[-1]:
        kept = z_clean[0].topk(topk).indices
        z_clean, z = z_clean[:, kept], z[:, kept]
    return [float(value) for value in (z - z_clean).double().norm(dim=-1)]


def sensitivity(
    clean: KVState,
    units: dict[int, KV],
    count: int,
    norms: Sequence[float],
    read: Reader,
    reference: Reader,
    topk: int | None,
    batch: int,
) -> dict[float, list[float]]:
    """Drifts of one prompt by delta norm, one per direction."""
    rows: list[Row] = [(i, norm) for norm in norms for i in range(count)]
    found: list[float] = []
    for start in range(0, len(rows), batch):
        found += drifts(clean, units, rows[start : start + batch], read, reference, topk)
    return {norm: found[k * count : (k + 1) * count] for k, norm in enumerate(norms)}


def amplification(
    clean: KVState,
    layer: int,
    heads: Sequence[int],
    old: int,
    stream: Stream,
    count: int,
    norm: float,
    read: Reader,
    reference: Reader,
    topk: int | None,
    batch: int,
) -> dict[int, list[float]]:
    """Drift over `||delta_lh||_F + eps0` for every head of a layer, one value per direction."""
    parts = [directions(clean, [layer], old, stream.at("head", h), count, [h])[layer] for h in heads]
    units = {layer: KV(torch.cat([p.K for p in parts]), torch.cat([p.V for p in parts]))}
    rows: list[Row] = [(i, norm) for i in range(len(heads) * count)]
    size = norm * float(clean.rms(layer)[0])
    found: list[float] = []
    for start in range(0, len(rows), batch):
        found += drifts(clean, units, rows[start : start + batch], read, reference, topk)
    ratios = [drift / (size + EPS0) for drift in found]
    return {h: ratios[k * count : (k + 1) * count] for k, h in enumerate(heads)}


def relative_norm(clean: KVState, layers: Sequence[int], norm: float) -> float:
    """`||delta||_F / ||S||_F` over the perturbed layers: how large a delta norm is for this cache."""
    delta = math.sqrt(sum((norm * float(clean.rms(layer)[0])) ** 2 for layer in layers))
    return delta / float(clean.norm(layers)[0])
