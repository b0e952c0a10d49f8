"""What vLLM's configuration says about an engine, in the guard's words."""

from __future__ import annotations

from typing import Any

from cachemedicpp.engines.settings import EngineFacts


def facts(vllm_config: Any, kv_cache_config: Any) -> EngineFacts:
    parallel, scheduler = vllm_config.parallel_config, vllm_config.scheduler_config
    groups = kv_cache_config.kv_cache_groups
    spec = groups[0].kv_cache_spec if len(groups) == 1 else None
    return EngineFacts(
        failure_policy=vllm_config.kv_transfer_config.kv_load_failure_policy,
        cache_groups=len(groups),
        block_size=spec.block_size if spec is not None else vllm_config.cache_config.block_size,
        cache_dtype=str(getattr(spec, "dtype", "")),
        device=str(vllm_config.device_config.device_type),
        runner="v2" if vllm_config.use_v2_model_runner else "v1",
        async_scheduling=bool(scheduler.async_scheduling),
        speculative=vllm_config.speculative_config is not None,
        ranks=parallel.world_size * getattr(parallel, "decode_context_parallel_size", 1),
        attention=_kind(spec),
        step_tokens=scheduler.max_num_batched_tokens,
        step_requests=scheduler.max_num_seqs,
        chunk=scheduler.long_prefill_token_threshold,
    )


def _kind(spec: Any) -> str:
    """ "full" for plain attention over everything; otherwise what it is."""
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    if spec is None:
        return "of several kinds"
    if type(spec) is not FullAttentionSpec:
        return f"a {type(spec).__name__}"
    if (
        getattr(spec, "sliding_window", None) is not None
        or getattr(spec, "attention_chunk_size", None) is not None
    ):
        return "windowed attention"
    return "full"
