"""The guard over transformers' continuous batching: a changed block is found between two steps."""

from __future__ import annotations

import time

import pytest
import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaConfig, LlamaForCausalLM

from cachemedicpp.engines.batching import BatchGuard
from homeostat.core.errors import UserError


def test_a_block_that_changed_between_two_steps_names_the_requests_that_read_it() -> None:
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "max_position_embeddings": 1024,
    }
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=64, **sizes, **heads)).eval()
    generation = GenerationConfig(max_new_tokens=900, do_sample=False, eos_token_id=-1, pad_token_id=0)
    batching = ContinuousBatchingConfig(page_size=16, num_blocks=160, max_batch_tokens=256)
    with model.continuous_batching_context_manager(
        generation_config=generation, continuous_batching_config=batching, warmup=False
    ) as manager:
        guard = BatchGuard(manager)
        first = manager.add_request(list(range(1, 41)), max_new_tokens=900)
        other = manager.add_request(list(range(5, 60)), max_new_tokens=900)
        deadline = time.monotonic() + 60
        checks = 0
        while checks < 5 and time.monotonic() < deadline:
            try:
                assert guard.check() == {}, "a false alarm"
            except UserError:  # the loop has not made its cache yet
                time.sleep(0.01)
                continue
            checks += len(guard._seen) > 3
        assert checks == 5
        with manager.pause():
            allocator = guard._allocator()
            block = allocator.block_table[first][0]
            allocator._copy_view[block][5] ^= 1
        assert guard.check() == {first: [block]}
        manager.cancel_request(first)
        manager.cancel_request(other)


def test_before_anything_runs_there_is_nothing_to_guard() -> None:
    class Idle:
        batch_processor = None

        def pause(self) -> torch.no_grad:
            return torch.no_grad()

    with pytest.raises(UserError, match="has not started"):
        BatchGuard(Idle()).check()
