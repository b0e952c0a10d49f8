"""Exact recomputation of damaged positions from their tokens, over the clean cache before them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from cachemedicpp.guard.ledger import Damage, Ledger, block_squares
from cachemedicpp.state import KV, KVState
from homeostat.errors import UserError

_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.05, torch.float16: 0.02}  # of Σ x² in a block


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
    """Layers with every damaged block replaced by what the model makes of its tokens; others are not there.

    One forward a run of adjacent blocks, for the damaged sequences only, over the cache before it, which is
    clean or already healed. Layers above the last damaged one are not run.
    """
    rows = sorted({damage.row for damage in damages})
    depth = max(damage.layer for damage in damages) + 1
    index = torch.tensor(rows, device=state[0].K.device)
    healed = {layer: KV(*(x.clone() for x in state[layer])) for layer in {d.layer for d in damages}}
    for a, b in spans(damages, ledger.block, ledger.length):
        before = [healed.get(layer, state[layer]) for layer in range(depth)]
        fresh = _forward(model, [KV(K[index, :, :a], V[index, :, :a]) for K, V in before], ledger, rows, a, b)
        for damage in damages:
            first, last = damage.block * ledger.block, min((damage.block + 1) * ledger.block, ledger.length)
            if not a <= first < b:
                continue
            new = fresh[damage.layer]
            for kind in (k for k in (0, 1) if "KV"[k] in damage.tensor):
                part = new[kind][rows.index(damage.row), :, first - a : last - a]
                _accept(part, ledger, damage, kind)
                healed[damage.layer][kind][damage.row, :, first:last] = part
    return healed


def _forward(model: Any, before: list[KV], ledger: Ledger, rows: list[int], a: int, b: int) -> list[KV]:
    """Keys and values of positions `[a, b)` in the first layers, from tokens and the cache before `a`."""
    cache = DynamicCache()
    if a:
        for layer, (K, V) in enumerate(before):
            cache.update(K, V, layer)
    stop = _Stop(len(before))
    device = before[0].K.device
    inner = model.base_model
    hook = None
    depth = int(model.config.get_text_config().num_hidden_layers)
    if len(before) < depth:
        hook = _layers(inner)[len(before)].register_forward_pre_hook(stop, with_kwargs=True)
    mask = ledger.mask[rows, :b]
    try:
        inner(
            input_ids=ledger.ids[rows, a:b].to(device),
            attention_mask=None if bool(mask.all()) else mask.long().to(device),
            position_ids=ledger.positions[rows, a:b].to(device),
            past_key_values=cache,
            use_cache=True,
        )
    except _StoppedError:
        pass
    finally:
        if hook is not None:
            hook.remove()
    grown = KVState(cache)
    return [KV(grown[i].K[:, :, a:b], grown[i].V[:, :, a:b]) for i in range(len(before))]


class _StoppedError(Exception):
    """The layers that were wanted are done."""


class _Stop:
    def __init__(self, layer: int) -> None:
        self.layer = layer

    def __call__(self, *_: Any) -> None:
        raise _StoppedError


def _layers(inner: Any) -> Any:
    """The decoder's list of layers, whatever the architecture calls it."""
    depth = int(inner.config.get_text_config().num_hidden_layers)
    for module in inner.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == depth:
            return module
    raise UserError(f"{type(inner).__name__} has no list of {depth} layers: it cannot be recomputed in part")


def _accept(part: Tensor, ledger: Ledger, damage: Damage, kind: int) -> None:
    """Refuse a recomputation that is not what was once written: other tokens, another model."""
    there = float(ledger.sizes[damage.layer, kind, damage.row, damage.block])
    here = float(block_squares(part.unsqueeze(0), part.shape[1])[0, 0])
    slack = _TOLERANCE[part.dtype]
    if not abs(here - there) <= slack * max(there, 1e-6):
        raise UserError(
            f"recomputing layer {damage.layer}, block {damage.block} of sequence {damage.row} does not give "
            f"what was stored (Σx² {here:.6g}, was {there:.6g}): are these its tokens and its model?"
        )
