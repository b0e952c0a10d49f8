"""Tokens recomputed over the stored cache: what the model itself would have stored there.

One forward of a single token for each block, all of them at once: every such witness reads the stored
positions before it and itself, and none reads another. Layer 0 depends on the token alone and is exact up to
the type of the numbers. A deeper layer also reads what is stored before, so damage there moves it a little;
a block of other tokens is as far off as another token is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache

from cachemedicpp.cache.rotary import Rotary
from cachemedicpp.cache.state import KV, Geometry, KVState, readable, write
from cachemedicpp.repair.base import layout
from cachemedicpp.repair.gaussian.tokens import gather
from homeostat.core.errors import UserError

if TYPE_CHECKING:
    from cachemedicpp.auditing.audit import Audit

FOREIGN = 0.25  # of the squared distance to another token: as near to that as to its own (half the distance)


@torch.no_grad()
def recompute(model: Any, state: KVState, ids: Tensor, real: Tensor, places: Tensor) -> Tensor:
    """Keys and values of the tokens at `places` `[B, n]`, `[B, n, L, G, d]`, from `ids` and `real` `[B, T]`
    and what `state` stores before each."""
    numbers = (real.long().cumsum(-1) - 1).clamp(min=0)
    cache, n = state.cache(), places.shape[1]
    model.base_model(
        input_ids=ids.gather(1, places),
        position_ids=numbers.gather(1, places),
        attention_mask=_masks(model, state, real, places),
        past_key_values=cache,
        use_cache=True,
    )
    layers = [tuple(x[..., -n:, :] for x in kv) for kv in KVState(cache)]
    return gather(layers)  # type: ignore[arg-type]


def _masks(model: Any, state: KVState, real: Tensor, places: Tensor) -> Any:
    """What each witness may read, `[B, 1, n, T + n]` to be added to scores; one for each kind of layer."""
    config = model.config.get_text_config()
    full = _mask(real, places, 0, model.dtype)
    if not state.windowed:
        return full
    sliding = _mask(real, places, int(config.sliding_window), model.dtype)
    return {"full_attention": full, "sliding_attention": sliding}


def _mask(real: Tensor, places: Tensor, window: int, dtype: torch.dtype) -> Tensor:
    at = torch.arange(real.shape[1], device=real.device)
    reads = (at < places.unsqueeze(-1)) & real.unsqueeze(1)  # [B, n, T]
    if window:
        reads &= at > places.unsqueeze(-1) - window
    own = torch.eye(places.shape[1], dtype=torch.bool, device=real.device).expand(len(real), -1, -1)
    allowed = torch.cat((reads, own), -1).unsqueeze(1)
    return torch.zeros(allowed.shape, dtype=dtype, device=real.device).masked_fill(
        ~allowed, torch.finfo(dtype).min
    )


def distances(model: Any, state: KVState, ids: Tensor, real: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distances of what is stored at `places` `[B, n]` to what the model recomputes there,
    `[B, n, L, G]`, and the typical one of two different tokens of these, `[L, G]`."""
    fresh = recompute(model, state, ids, real, places)
    rows = torch.arange(state.batch, device=places.device).unsqueeze(1)
    stored = gather([KV(*(x[rows, :, places].transpose(1, 2) for x in kv)) for kv in state])
    apart = (stored - fresh).square().sum(-1).nan_to_num(torch.inf)
    numbers = (real.long().cumsum(-1) - 1).clamp(min=0).gather(1, places)
    rotary, plain = Rotary(model), fresh.clone()
    heads = fresh.shape[3] // 2
    for layer in range(fresh.shape[2]):
        keys = fresh[:, :, layer, :heads].transpose(1, 2)
        plain[:, :, layer, :heads] = rotary.unrotate(keys, numbers, layer).transpose(1, 2)
    every = plain.flatten(0, 1)  # [B n, L, G, d]
    typical = every.median(0).values
    spread = 2 * (every - typical).square().sum(-1).median(0).values  # the median: sinks aside
    return apart, spread.clamp(min=1e-12)


def in_order(
    model: Any, state: KVState, ids: Tensor, mask: Tensor | None, spans: Iterable[tuple[int, int, int]]
) -> Iterator[tuple[tuple[int, int, int], Tensor]]:
    """Spans `(row, first, last)`, each with what the model makes of its tokens, `[n, L, G, d]`.

    First to last: what comes before a span is sound, or was recomputed by then.
    """
    real, numbers = layout(state.length, state.batch, mask, ids.device)
    sound = {i: KV(*(x.clone() for x in kv)) for i, kv in enumerate(state)}
    for one in sorted(spans):
        row, (a, b) = slice(one[0], one[0] + 1), (one[1], one[2] + 1)
        start = int(real[row].long().argmax())
        before = DynamicCache(config=model.config.get_text_config())
        if a > start:
            for layer, (K, V) in sound.items():
                before.update(K[row, :, start:a], V[row, :, start:a], layer)
        model.base_model(
            input_ids=ids[row, a:b],
            position_ids=numbers[row, a:b],
            past_key_values=before,
            use_cache=True,
        )
        fresh = [KV(*(x[..., a - b :, :] for x in kv)) for kv in KVState(before)]
        for layer, kv in enumerate(fresh):
            for x, new in zip(sound[layer], kv, strict=True):
                x[row, :, a:b] = new
        yield one, gather(fresh)[0]


def check_whole(model: Any, state: KVState) -> None:
    """Refuse a cache of another model, and one that has dropped what a recomputation has to read."""
    geometry = Geometry.of(model)
    ours = (geometry.layers, geometry.kv_heads, geometry.head_dim)
    theirs = (len(state), state[0].K.shape[1], state[0].K.shape[-1])
    if ours != theirs:
        raise UserError(
            "this cache has {} layers × {} KV heads × {}; the model has {} × {} × {}: audit it with its own "
            "model".format(*theirs, *ours)
        )
    if state.first:
        raise UserError(
            f"a sliding window has dropped the first {state.first} positions from some layers, and nothing "
            "can be recomputed without them: audit with an operator G"
        )


@torch.no_grad()
def heal(
    model: Any, cache: Cache, input_ids: Tensor, audit: Audit, attention_mask: Tensor | None = None
) -> int:
    """Recompute the blocks that an audit named from their tokens, in place; how many there were."""
    state = readable(cache)
    check_whole(model, state)
    ids = torch.as_tensor(input_ids, device=state[0].K.device).view(state.batch, -1)
    named = [(one["row"], one["first"], one["last"]) for one in audit.findings()]
    healed = {i: KV(*(x.clone() for x in kv)) for i, kv in enumerate(state)}
    for (row, first, last), fresh in in_order(model, state, ids, attention_mask, named):
        for layer, kv in healed.items():
            for x, new in zip(kv, fresh[:, layer].transpose(0, 1).chunk(2), strict=True):
                x[row, :, first : last + 1] = new.to(x.dtype)
    write(cache, healed)
    return len(named)
