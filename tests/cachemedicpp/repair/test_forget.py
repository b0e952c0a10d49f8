"""Forgetting: what is hidden leaves no trace, what is kept is exact and stays where it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from cachemedicpp.cache.state import KVState
from cachemedicpp.corruption.config import AxesConfig
from cachemedicpp.repair.attach import medic
from cachemedicpp.repair.heuristics import measure_levels
from cachemedicpp.repair.heuristics.forget import Forget
from cachemedicpp.repair.heuristics.forget_calibrated import ForgetSink, LimitsForget
from homeostat.core.errors import UserError

IDS = torch.randint(3, 200, (2, 14), generator=torch.Generator().manual_seed(0))
STORED = 10


def read(
    model: Any, repair: Forget | None = None, spoil: slice | None = None, mask: Tensor | None = None
) -> Tensor:
    """Logits of the last tokens, read from a cache whose positions `spoil` are nonsense."""
    with torch.no_grad():
        prompt = None if mask is None else mask[:, :STORED]
        cache = model(IDS[:, :STORED], attention_mask=prompt, use_cache=True).past_key_values
        if spoil is not None:
            state = KVState(cache)
            noise = torch.full_like(state[0].K[:, :, spoil], 50.0)
            for layer in (0, 1, 2):
                cache.layers[layer].keys[:, :, spoil] = noise
                cache.layers[layer].values[:, :, spoil] = -noise
        if repair is None:
            return model(IDS[:, STORED:], attention_mask=mask, past_key_values=cache).logits
        with medic(model, repair=repair):
            return model(IDS[:, STORED:], attention_mask=mask, past_key_values=cache).logits


def test_damage_to_old_positions_leaves_no_trace(tiny_llama: Any) -> None:
    forget = Forget((0, 1, 2), AxesConfig(N_recent=4))
    clean = read(tiny_llama, forget)
    torch.testing.assert_close(read(tiny_llama, forget, spoil=slice(0, 6)), clean)
    assert not torch.allclose(read(tiny_llama, forget, spoil=slice(5, 7)), clean)  # position 6 is recent
    assert not torch.allclose(clean, read(tiny_llama))


def test_it_equals_attention_under_a_mask_with_the_position_numbers_kept(tiny_llama: Any) -> None:
    """Hidden in every layer, the old positions might as well be padding, if the numbers of the rest stay."""
    seen = torch.ones(2, 14, dtype=torch.long)
    seen[:, :6] = 0
    with torch.no_grad():
        cache = tiny_llama(IDS[:, :STORED], use_cache=True).past_key_values
        places = torch.arange(STORED, 14).expand(2, -1)
        masked = tiny_llama(IDS[:, STORED:], attention_mask=seen, position_ids=places, past_key_values=cache)
    forgotten = read(tiny_llama, Forget((0, 1, 2), AxesConfig(N_recent=4)))
    torch.testing.assert_close(forgotten, masked.logits, atol=1e-5, rtol=1e-4)


def test_nothing_to_hide_changes_nothing_and_an_oracle_hides_what_it_is_told(tiny_llama: Any) -> None:
    same = read(tiny_llama, Forget((0, 1, 2), AxesConfig(N_recent=STORED)))
    torch.testing.assert_close(same, read(tiny_llama), atol=1e-5, rtol=1e-4)
    heads = KVState(tiny_llama(IDS[:, :2], use_cache=True).past_key_values)[0].K.shape[1]
    told = torch.zeros(2, heads, STORED, dtype=torch.bool)
    told[:, :, 2:5] = True
    oracle = Forget((0, 1, 2), suspects=dict.fromkeys((0, 1, 2), told))
    torch.testing.assert_close(read(tiny_llama, oracle, spoil=slice(2, 5)), read(tiny_llama, oracle))


def test_an_oracle_follows_a_sequence_that_becomes_several_rows(tiny_llama: Any) -> None:
    """Choices of several tokens read one stored cache in a row each."""
    heads = KVState(tiny_llama(IDS[:, :2], use_cache=True).past_key_values)[0].K.shape[1]
    told = torch.zeros(2, heads, STORED, dtype=torch.bool)
    told[0, :, 2:5] = True
    oracle = Forget((0, 1, 2), suspects=dict.fromkeys((0, 1, 2), told))
    with torch.no_grad():
        cache = tiny_llama(IDS[:, :STORED], use_cache=True).past_key_values
        cache.batch_repeat_interleave(2)
        with medic(tiny_llama, repair=oracle):
            rows = tiny_llama(IDS[:, STORED:].repeat_interleave(2, 0), past_key_values=cache).logits
    torch.testing.assert_close(rows[::2], read(tiny_llama, oracle), atol=1e-5, rtol=1e-4)


def test_padding_does_not_count_as_old(tiny_llama: Any) -> None:
    mask = torch.ones(2, 14, dtype=torch.long)
    mask[0, :5] = 0  # five real positions are stored: one of them is old
    window = Forget((0, 1, 2), AxesConfig(time_mode="window", window=(0, 1)))
    old = Forget((0, 1, 2), AxesConfig(N_recent=4))
    torch.testing.assert_close(read(tiny_llama, window, mask=mask)[0], read(tiny_llama, old, mask=mask)[0])


def test_it_cannot_be_written_into_a_cache(tiny_llama: Any) -> None:
    cache = tiny_llama(IDS[:, :4], use_cache=True).past_key_values
    with pytest.raises(UserError, match="inside `with medic"):
        Forget((0,)).repair_cache(cache)


def test_the_first_position_can_be_kept_as_it_usually_is(tiny_llama: Any) -> None:
    levels = measure_levels(tiny_llama, IDS)
    sink = ForgetSink((0, 1, 2), AxesConfig(N_recent=4), levels=levels)
    clean = read(tiny_llama, sink)
    torch.testing.assert_close(read(tiny_llama, sink, spoil=slice(0, 6)), clean)
    assert not torch.allclose(clean, read(tiny_llama, Forget((0, 1, 2), AxesConfig(N_recent=4))))


def test_only_what_is_beyond_the_limits_is_forgotten_and_the_first_position_never(tiny_llama: Any) -> None:
    levels = measure_levels(tiny_llama, IDS)
    limits = LimitsForget((0, 1, 2), AxesConfig(N_recent=4), levels=levels)
    torch.testing.assert_close(read(tiny_llama, limits), read(tiny_llama), atol=1e-5, rtol=1e-4)
    told = torch.zeros(2, 1, STORED, dtype=torch.bool)
    told[:, :, 2:5] = True
    exact = Forget((0, 1, 2), suspects=dict.fromkeys((0, 1, 2), told))
    torch.testing.assert_close(read(tiny_llama, limits, spoil=slice(2, 5)), read(tiny_llama, exact))
    first = ForgetSink((0, 1, 2), AxesConfig(time_mode="window", window=(0, 1)), levels=levels)
    torch.testing.assert_close(read(tiny_llama, limits, spoil=slice(0, 1)), read(tiny_llama, first))
    recent = read(tiny_llama, limits, spoil=slice(7, 8))  # no damage can be there: left alone
    torch.testing.assert_close(
        recent, read(tiny_llama, Forget((0, 1, 2), AxesConfig(N_recent=STORED)), slice(7, 8))
    )
