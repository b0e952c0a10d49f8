"""Stability around the clean state: logit sensitivity and amplification, by finite differences.

    z(S)            next-token logits when a prompt's last token reads the state S of those before it
    Sens(delta)     E || z(S + delta) - z(S) ||_2, the norm taken over the top-k logits of z(S)
    gamma(l, h)     median || z(S + delta_lh) - z(S) ||_2 / (||delta_lh||_F + eps0)

A perturbation is Gaussian, drawn anew for every norm and number, zero outside the time mask, of Frobenius
norm 1 in each layer (keys and values together), and is scaled by the layer's RMS. Perturbations of all norms,
layers and heads are stacked on forks of one prefix, always in batches of one shape: so the clean logits, read
once in that shape, are exactly what no perturbation gives. Drift is measured at every norm, 0 included, so a
repair's drift on a clean state is on the record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.cache.prefill import prefill
from cachemedicpp.cache.shared import shared_layers
from cachemedicpp.cache.state import KV, KVState
from cachemedicpp.corruption.streams import Stream
from cachemedicpp.repair.defences import Defence, Forks

EPS0 = 1e-8
Reader = Callable[[KVState], Tensor]  # logits [rows, vocabulary] of a stacked state


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
                with defence.attached(model), shared_layers(model):
                    query = torch.tensor([[self.ids[-1]]] * state.batch, device=model.device)
                    output = model(query, past_key_values=cache, use_cache=True, logits_to_keep=1)
            return output.logits[:, -1].float()  # type: ignore[no-any-return]

        return read


@dataclass(frozen=True)
class Perturbation:
    """`delta`: its layers, heads (None: all), first `old` positions, size and random draw."""

    layers: tuple[int, ...]
    heads: tuple[int, ...] | None
    old: int
    norm: float
    stream: Stream

    def unit(self, layer: int, like: KV) -> KV:
        """The direction `u` in one layer, `[H_kv, T, d]` in float32: `||u||_F` is 1 over keys and values."""
        pair = []
        for name, x in zip("KV", like, strict=True):
            u = self.stream.at(layer, name).normal(*x.shape[1:])
            u[:, self.old :] = 0.0
            if self.heads is not None:
                u[[h for h in range(len(u)) if h not in self.heads]] = 0.0
            pair.append(u)
        norm = math.sqrt(sum(float(u.double().square().sum()) for u in pair))
        return KV(*(u / max(norm, 1e-30) for u in pair))

    def delta(self, layer: int, clean: KVState) -> KV:
        """`norm * u * rms(layer)`, as intended: in float32."""
        scale = self.norm * float(clean.rms(layer)[0])
        return KV(*(scale * u for u in self.unit(layer, clean[layer])))

    def size(self, clean: KVState) -> float:
        """`||delta||_F`, from its definition."""
        return self.norm * math.sqrt(sum(float(clean.rms(layer)[0]) ** 2 for layer in self.layers))


def perturbed(
    clean: KVState, deltas: Sequence[Perturbation | None], first: int = 0
) -> tuple[KVState, list[float | None]]:
    """`S + delta` for each row (None: `S` itself), stacked as one batch, and a cosine for each.

    The cosine is that between the intended delta and the applied one, `(S + delta) - S` as the state's number
    format keeps it; None where there is nothing to compare. Rows share the layers before `first`, which no
    delta may touch, and have copies of all others, so that every batch is computed in the same way.
    """
    layers: dict[int, tuple[Tensor, Tensor]] = {}
    sums = torch.zeros(len(deltas), 3, dtype=torch.float64)  # products of intended and applied
    for layer, (K, V) in enumerate(clean):
        rows = [i for i, d in enumerate(deltas) if d is not None and d.norm > 0 and layer in d.layers]
        pair = [x.expand(len(deltas), -1, -1, -1) for x in (K, V)]
        if layer >= first:
            pair = [x.clone() for x in pair]
        for row in rows:
            wanted = deltas[row].delta(layer, clean)  # type: ignore[union-attr]
            for x, base, delta in zip(pair, (K[0], V[0]), wanted, strict=True):
                x[row] = (base.float() + delta.to(base.device)).to(base.dtype)
                applied = (x[row].float() - base.float()).cpu().flatten()
                intended = delta.flatten()
                products = (intended @ applied, intended @ intended, applied @ applied)
                sums[row] += torch.stack(products).double()
        layers[layer] = (pair[0], pair[1])
    cosines = [
        float(dot / math.sqrt(a * b)) if a > 0 and b > 0 else (0.0 if a > 0 else None)
        for dot, a, b in sums.tolist()
    ]
    return clean.replace(layers), cosines


@dataclass(frozen=True)
class Clean:
    """The clean logits of a prompt, read once in the shape of every batch: `[batch, kept]`."""

    state: KVState
    logits: Tensor
    kept: Tensor | None  # the top-k logits that count; None: all
    first: int = 0  # no perturbation touches a layer before this one

    @classmethod
    def read(cls, state: KVState, reference: Reader, topk: int | None, batch: int, first: int = 0) -> Clean:
        logits = reference(perturbed(state, [None] * batch, first)[0])
        kept = None
        if topk is not None and topk < logits.shape[-1]:
            kept = logits[0].topk(topk).indices
            logits = logits[:, kept]
        return cls(state, logits, kept, first)

    def drifts(
        self, deltas: Sequence[Perturbation], readers: Sequence[Reader]
    ) -> tuple[list[list[float]], list[float | None]]:
        """`|| z(S + delta) - z(S) ||_2` of every delta for each reader, and the cosines of the deltas.

        Every reader gets the same perturbed states, in batches that are filled up with the clean state.
        """
        batch = len(self.logits)
        found: list[list[float]] = [[] for _ in readers]
        cosines: list[float | None] = []
        for start in range(0, len(deltas), batch):
            chunk = list(deltas[start : start + batch])
            state, close = perturbed(self.state, [*chunk, *[None] * (batch - len(chunk))], self.first)
            cosines += close[: len(chunk)]
            for values, read in zip(found, readers, strict=True):
                z = read(state)
                z = z if self.kept is None else z[:, self.kept]
                values += (z - self.logits).double().norm(dim=-1)[: len(chunk)].tolist()
        return found, cosines


def along_norms(
    norms: Sequence[float], count: int, layers: Sequence[int], old: int, stream: Stream
) -> list[Perturbation]:
    """`count` perturbations per norm, each with a draw of its own; one at norm 0, where all are the same."""
    return [
        Perturbation(tuple(layers), None, old, norm, stream.at(f"{norm:g}", i))
        for norm in norms
        for i in range(count if norm > 0 else 1)
    ]


def per_head(
    norm: float, count: int, layers: Sequence[int], heads: Sequence[int], old: int, stream: Stream
) -> list[Perturbation]:
    """`count` perturbations for each layer and head, layers outermost."""
    return [
        Perturbation((layer,), (head,), old, norm, stream.at("head", head, i))
        for layer in layers
        for head in heads
        for i in range(count)
    ]


def relative_norm(clean: KVState, layers: Sequence[int], norm: float) -> float:
    """`||delta||_F / ||S||_F` over the perturbed layers: how large a delta norm is for this cache."""
    delta = math.sqrt(sum((norm * float(clean.rms(layer)[0])) ** 2 for layer in layers))
    return delta / float(clean.norm(layers)[0])
