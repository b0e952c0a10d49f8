"""The state: forks share what they do not change, and rotation can be taken off and put back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache, StaticCache

from cachemedicpp.cache.rotary import Rotary
from cachemedicpp.cache.state import Geometry, KVState, first_positions, fork, positions, stack, write
from homeostat.core.errors import UserError


def prefill(model: Any, batch: int = 2, length: int = 12, seed: int = 0) -> tuple[torch.Tensor, KVState]:
    ids = torch.randint(3, 256, (batch, length), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return ids, KVState(model(input_ids=ids, use_cache=True).past_key_values)


def test_geometry_reads_grouped_heads_and_learned_position_models(tiny_llama: Any, tiny_gpt2: Any) -> None:
    assert Geometry.of(tiny_llama) == Geometry(layers=3, heads=4, kv_heads=2, head_dim=16)
    assert Geometry.of(tiny_llama).groups == 2
    assert Geometry.of(tiny_gpt2) == Geometry(layers=3, heads=4, kv_heads=4, head_dim=16)


def test_a_fork_shares_every_tensor_until_a_layer_is_replaced(tiny_llama: Any) -> None:
    _, state = prefill(tiny_llama)
    changed = state.replace({1: (state[1].K + 1, state[1].V)})
    assert changed[0].K is state[0].K and changed[1].V is state[1].V
    assert torch.equal(changed[1].K, state[1].K + 1)


def test_running_the_model_on_a_fork_leaves_the_state_as_it_was(tiny_llama: Any) -> None:
    ids, state = prefill(tiny_llama)
    before = [(k.clone(), v.clone()) for k, v in state]
    with torch.no_grad():
        tiny_llama(input_ids=ids[:, :3], past_key_values=state.cache())
    assert state.length == 12
    assert all(
        torch.equal(a, b)
        for pair, kv in zip(before, state, strict=True)
        for a, b in zip(pair, kv, strict=True)
    )


def test_norm_and_rms_by_hand() -> None:
    cache = DynamicCache()
    cache.update(torch.tensor([[[[3.0, 0.0]]]]), torch.tensor([[[[0.0, 4.0]]]]), 0)
    state = KVState(cache)
    assert state.norm().tolist() == [5.0]
    assert state.rms(0).tolist() == [2.5]  # sqrt((9 + 16) / 4)


def test_repeat_keeps_forks_of_one_sequence_together_and_stack_keeps_the_order(tiny_llama: Any) -> None:
    _, state = prefill(tiny_llama)
    K = state[0].K
    assert torch.equal(state.repeat(2)[0].K, torch.stack([K[0], K[0], K[1], K[1]]))
    assert torch.equal(stack([state, state.rows([1, 0])])[0].K, torch.stack([K[0], K[1], K[1], K[0]]))


def test_stacking_forks_of_one_sequence_does_not_copy_shared_layers(tiny_llama: Any) -> None:
    _, state = prefill(tiny_llama, batch=1)
    changed = state.replace({1: (state[1].K + 1, state[1].V)})
    joined = stack([state, changed, changed])
    assert joined.batch == 3
    assert joined[0].K.data_ptr() == state[0].K.data_ptr()


def test_a_static_cache_is_refused(tiny_llama: Any) -> None:
    with pytest.raises(UserError, match="StaticLayer"):
        fork(StaticCache(config=tiny_llama.config, max_cache_len=8))


def test_writing_another_shape_is_refused(tiny_llama: Any) -> None:
    _, state = prefill(tiny_llama)
    with pytest.raises(UserError, match=r"\[2, 2, 12, 16\].*\[2, 2, 11, 16\]"):
        write(state.cache(), {0: (state[0].K[:, :, 1:], state[0].V[:, :, 1:])})


def test_positions_count_from_the_first_real_token() -> None:
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    assert first_positions(4, mask, 2) == [2, 0]
    assert positions(5, mask, 2, torch.device("cpu"))[0, 2:].tolist() == [0, 1, 2]


def test_unrotated_keys_are_the_projections_of_the_layer_input(tiny_llama: Any) -> None:
    ids, _ = prefill(tiny_llama)
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    where = positions(12, mask, 2, ids.device)
    with torch.no_grad():
        out = tiny_llama(input_ids=ids, attention_mask=mask, position_ids=where, use_cache=True)
        layer = tiny_llama.model.layers[0]
        hidden = layer.input_layernorm(tiny_llama.model.embed_tokens(ids))
        plain = layer.self_attn.k_proj(hidden).view(2, 12, 2, 16).transpose(1, 2)
    stored = KVState(out.past_key_values)[0].K
    rotary = Rotary(tiny_llama)
    assert not rotary.is_identity
    torch.testing.assert_close(rotary.unrotate(stored, where), plain, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(rotary.rotate(plain, where), stored, atol=1e-5, rtol=1e-5)


def test_partial_rotation_leaves_the_other_channels_alone() -> None:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    model = GPTNeoXForCausalLM(config).eval()  # rotates a quarter of each head's 16 channels
    K = torch.randn(1, 2, 6, 16)
    where = torch.arange(6)[None]
    turned = Rotary(model).rotate(K, where)
    assert torch.equal(turned[..., 4:], K[..., 4:]) and not torch.equal(turned[..., :4], K[..., :4])
    torch.testing.assert_close(Rotary(model).unrotate(turned, where), K)


def test_learned_positions_need_no_rotation(tiny_gpt2: Any) -> None:
    _, state = prefill(tiny_gpt2)
    rotary = Rotary(tiny_gpt2)
    assert rotary.is_identity
    assert rotary.unrotate(state[0].K, torch.arange(12)[None]) is state[0].K
