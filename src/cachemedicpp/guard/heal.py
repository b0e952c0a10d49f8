"""Exact recomputation of damaged positions from their tokens, over the clean cache before them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, suppress
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from cachemedicpp.cache.calls import aside
from cachemedicpp.cache.shared import decoder_layers
from cachemedicpp.cache.state import KV, Geometry, KVState
from cachemedicpp.guard import sketch
from cachemedicpp.guard.ledger import Damage, Ledger
from homeostat.core.errors import UserError


def spans(damages: Iterable[Damage], block: int, length: int) -> list[tuple[int, int]]:
    """Runs of positions `[a, b)` that cover the damaged blocks, in ascending order."""
    found: list[tuple[int, int]] = []
    for number in sorted({damage.block for damage in damages}):
        a, b = number * block, min((number + 1) * block, length)
        if found and found[-1][1] == a:
            found[-1] = (found[-1][0], b)
        else:
            found.append((a, b))
    return found


@torch.no_grad()
def recompute(model: Any, state: KVState, ledger: Ledger, damages: list[Damage]) -> dict[int, KV]:
    """The damaged layers, with every damaged block recomputed by the model from its tokens.

    One forward per run of adjacent blocks, for the damaged sequences only, over the cache before it, which
    is clean or already healed. Layers above the last damaged one are not run. Where a sliding window has
    dropped positions, what came before a run is no longer there, and one forward begins at the first token.
    """
    geometry = Geometry.of(model)
    ours = (geometry.layers, geometry.kv_heads, geometry.head_dim)
    theirs = (len(state), state[0].K.shape[1], state[0].K.shape[-1])
    if ours != theirs or int(ledger.ids.max()) >= int(model.config.get_text_config().vocab_size):
        raise UserError(
            "this cache ({} layers × {} KV heads × {}) was made by another model; this one has "
            "{} × {} × {}: heal it with its own".format(*theirs, *ours)
        )
    rows = sorted({damage.row for damage in damages})
    depth = max(damage.layer for damage in damages) + 1
    index = torch.tensor(rows, device=state[0].K.device)
    healed = {layer: KV(*(x.clone() for x in state[layer])) for layer in {d.layer for d in damages}}
    runs = spans(damages, ledger.block, ledger.length)
    if any(state.start(layer) for layer in range(depth)):
        runs = [(0, runs[-1][1])]
    for a, b in runs:
        before = [healed.get(layer, state[layer]) for layer in range(depth)]
        fresh = _forward(model, [KV(K[index, :, :a], V[index, :, :a]) for K, V in before], ledger, rows, a, b)
        for damage in damages:
            span, offset = ledger.span(damage, state), state.start(damage.layer)
            if not a <= span.start < b:
                continue
            new = fresh[damage.layer]
            for kind in damage.kinds:
                part = new[kind][rows.index(damage.row), :, span.start - a : span.stop - a]
                _accept(part, ledger, damage, kind, span)
                healed[damage.layer][kind][damage.row, :, span.start - offset : span.stop - offset] = part
    return healed


@torch.no_grad()
def remake(model: Any, state: KVState, tokens: Ledger, start: int, rows: list[int]) -> dict[int, KV]:
    """All layers, with the positions of these rows from `start` on recomputed over the cache before them.

    For tokens that were made from a damaged cache before anyone noticed. All that is known of them is in
    `tokens`, the ledger with their ids, mask and positions.
    """
    index = torch.tensor(rows, device=state[0].K.device)
    begin = 0 if state.first else start
    before = [KV(K[index, :, :begin], V[index, :, :begin]) for K, V in state]
    fresh = _forward(model, before, tokens, rows, begin, tokens.length)
    made = {layer: KV(*(x.clone() for x in kv)) for layer, kv in enumerate(state)}
    for layer, new in enumerate(fresh):
        for kind, x in enumerate(new):
            first = max(start, state.start(layer))
            made[layer][kind][index, :, first - state.start(layer) :] = x[:, :, first - begin :]
    return made


def _forward(model: Any, before: list[KV], ledger: Ledger, rows: list[int], a: int, b: int) -> list[KV]:
    """Keys and values of positions `[a, b)` in the first layers, from tokens and the cache before `a`."""
    cache, depth = DynamicCache(), len(before)
    for layer, (K, V) in enumerate(before if a else ()):
        cache.update(K, V, layer)
    device = before[0].K.device
    mask = ledger.mask[rows, :b]
    layers = decoder_layers(model)
    with ExitStack() as around:
        if depth < len(layers):
            hook = layers[depth].register_forward_pre_hook(_stop)
            around.callback(hook.remove)
            around.enter_context(suppress(_StoppedError))
        around.enter_context(aside())
        model.base_model(
            input_ids=ledger.ids[rows, a:b].to(device),
            attention_mask=None if bool(mask.all()) else mask.long().to(device),
            position_ids=ledger.positions[rows, a:b].to(device),
            past_key_values=cache,
            use_cache=True,
        )
    grown = KVState(cache)
    return [KV(grown[i].K[:, :, a:b], grown[i].V[:, :, a:b]) for i in range(depth)]


class _StoppedError(Exception):
    """Raised when the wanted layers are done: the layers above need not run."""


def _stop(*_: Any) -> None:
    raise _StoppedError


def _accept(part: Tensor, ledger: Ledger, damage: Damage, kind: int, span: range) -> None:
    """Refuse a recomputation that is not what was once written: other tokens or positions, another model."""
    real = ledger.mask[damage.row, span.start : span.stop].unsqueeze(0)
    places = torch.arange(span.start, span.stop) % ledger.block
    here = sketch.shares(part.unsqueeze(0), real, places, ledger.block).sum(1)[0]
    there = ledger.sketch(damage, kind, span)
    if not sketch.alike(here, there, part.dtype):
        raise UserError(
            f"recomputing layer {damage.layer}, block {damage.block} of sequence {damage.row} does not give "
            f"what was stored (Σx² {float(here[0]):.6g}, was {float(there[0]):.6g}): are these its tokens, "
            "their positions and its model?"
        )
