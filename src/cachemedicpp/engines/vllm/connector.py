"""`GuardConnector`: the guard as a KV connector of vLLM's V1 interface.

vLLM makes two of it. The scheduler's tells the worker's what each step reads and writes; the worker's
verifies and reports bad blocks by `get_block_ids_with_load_errors`, which with
`kv_load_failure_policy="recompute"` has the scheduler discard the step's token and compute them again.

Its hooks in the order of a step: `build_connector_meta` (scheduler), `bind_connector_metadata`,
`start_load_kv`, the forward pass, `wait_for_save`, `get_block_ids_with_load_errors` (worker). Where nothing
is loaded, vLLM calls `start_load_kv` after the forward pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    SupportsHMA,
)

from cachemedicpp.engines.blocks.audit import Auditor
from cachemedicpp.engines.blocks.idle import IdleScan
from cachemedicpp.engines.blocks.paged import PagedCache
from cachemedicpp.engines.blocks.plan import RequestStep, Span, StepPlan
from cachemedicpp.engines.blocks.plausible import Judge, Plausibility
from cachemedicpp.engines.blocks.watch import Watch
from cachemedicpp.engines.events import Events
from cachemedicpp.engines.settings import GuardSettings, refuse
from cachemedicpp.engines.vllm.facts import facts
from cachemedicpp.engines.vllm.layout import probe
from cachemedicpp.engines.vllm.sources import InnerSource, make_source
from cachemedicpp.engines.vllm.stats import GuardMetrics, GuardStats


@dataclass
class GuardMetadata(KVConnectorMetadata):
    """What travels from the scheduler to the worker in a step."""

    plan: StepPlan = field(default_factory=StepPlan)
    inner: Any = None


class GuardConnector(KVConnectorBase_V1, SupportsHMA):
    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self.settings = GuardSettings.read(self._kv_transfer_config.kv_connector_extra_config)
        self.facts = facts(vllm_config, kv_cache_config)
        refuse(self.facts, self.settings)
        self.events = Events(self.settings.log)
        self.source = make_source(self.settings, vllm_config, kv_cache_config, role, self.events)
        self.watch: Watch | None = None
        self._idle: IdleScan | None = None
        self._judge: Judge | None = None
        self._plan = StepPlan()
        self._spans: list[Span] = []
        self._report: set[int] = set()

    @property
    def requires_kv_delivery(self) -> bool:
        return self.source.inner is not None and bool(self.source.inner.requires_kv_delivery)

    # The scheduler's side

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        return self.source.matched(request, num_computed_tokens)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        self.source.allocated(request, blocks, num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> GuardMetadata:
        scheduled = scheduler_output.num_scheduled_tokens
        steps = [
            RequestStep(
                new.req_id,
                tuple(new.block_ids[0]),
                new.num_computed_tokens,
                new.num_computed_tokens + scheduled[new.req_id],
                admitted=True,
                tokens=self._tokens(new.prompt_token_ids, new.num_computed_tokens),
            )
            for new in scheduler_output.scheduled_new_reqs
        ]
        old = scheduler_output.scheduled_cached_reqs
        for request, blocks, start in zip(
            old.req_ids, old.new_block_ids, old.num_computed_tokens, strict=True
        ):
            new_blocks = tuple(blocks[0]) if blocks else ()
            back = request in old.resumed_req_ids
            tokens = self._tokens(old.all_token_ids.get(request) if back else None, start)
            steps.append(RequestStep(request, new_blocks, start, start + scheduled[request], back, tokens))
        copied = tuple(int(copy[-1]) for copy in scheduler_output.kv_cache_block_copies or ())
        plan = StepPlan(steps, tuple(scheduler_output.finished_req_ids), copied=copied)
        return GuardMetadata(plan, self.source.plan(plan, scheduler_output))

    def _tokens(self, tokens: list[int] | None, count: int) -> tuple[int, ...]:
        return tuple(tokens[:count]) if self.settings.audit and tokens else ()

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        self.source.ended(request.request_id)
        if self.source.inner is not None:
            found: tuple[bool, dict[str, Any] | None] = self.source.inner.request_finished(request, block_ids)
            return found
        return False, None

    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        inner = self.source.inner
        if isinstance(inner, SupportsHMA):
            self.source.ended(request.request_id)
            found: tuple[bool, dict[str, Any] | None] = inner.request_finished_all_groups(request, block_ids)
            return found
        return self.request_finished(request, block_ids[0])

    # The worker's side

    def register_kv_caches(self, kv_caches: dict[str, Tensor]) -> None:
        blocks, size = self._kv_cache_config.num_blocks, self.facts.block_size
        name, first = next(iter(kv_caches.items()))
        layer = self._vllm_config.compilation_config.static_forward_context[name]
        cache = PagedCache(kv_caches, blocks, size, probe(layer, first, blocks, size))
        given = self.settings
        audit = partial(Auditor(given.audit).foreign, cache) if given.audit else None
        self.watch = Watch(
            cache, self.events, given.every, given.budget, self.source.vouch, audit, given.audit_hits
        )
        self._idle = IdleScan(self.watch, self.settings.idle_after)
        if self.settings.plausible:
            plausible = Plausibility(self.settings.plausible)
            self._judge = Judge(plausible, cache, self.events, self.settings.plausible_every)
        if self.source.inner is not None:
            self.source.inner.register_kv_caches(kv_caches)

    def bind_connector_metadata(self, connector_metadata: KVConnectorMetadata) -> None:
        super().bind_connector_metadata(connector_metadata)
        assert isinstance(connector_metadata, GuardMetadata)  # noqa: S101
        if self._idle is not None:
            self._idle.busy()
        self._plan = connector_metadata.plan
        self._spans = self._watching.begin(self._plan)
        if self.source.inner is not None:
            self.source.inner.bind_connector_metadata(connector_metadata.inner)

    def clear_connector_metadata(self) -> None:
        super().clear_connector_metadata()
        if self.source.inner is not None:
            self.source.inner.clear_connector_metadata()
        if self._idle is not None:
            self._idle.done()

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        with self.events.timed():
            self.source.load(self._plan, self._spans, self._watching, forward_context)

    def wait_for_layer_load(self, layer_name: str) -> None:
        if self.source.inner is not None:
            self.source.inner.wait_for_layer_load(layer_name)

    def save_kv_layer(self, layer_name: str, kv_layer: Tensor, attn_metadata: Any, **kwargs: Any) -> None:
        if self.source.inner is not None:
            self.source.inner.save_kv_layer(layer_name, kv_layer, attn_metadata, **kwargs)

    def wait_for_save(self) -> None:
        watch = self._watching
        if isinstance(self.source, InnerSource):
            self.source.arrived(self._plan, self._spans, watch)
        self._report = watch.end(self._spans)
        with self.events.timed():
            if self._judge is not None:
                self._judge.look(watch)
            self.source.save(self._plan, watch)
        if self.source.inner is not None:
            self.source.inner.wait_for_save()

    def get_block_ids_with_load_errors(self) -> set[int]:
        report, self._report = self._report, set()
        if self.source.inner is not None:
            report |= self.source.inner.get_block_ids_with_load_errors()
        return report

    def get_kv_connector_stats(self) -> GuardStats | None:
        new = self.events.take()
        if self.watch is None or not new:
            return None
        return GuardStats(data={**new, "quarantine": len(self.watch.quarantine)})

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> GuardStats:
        return GuardStats(data=data or {})

    @classmethod
    def build_prom_metrics(
        cls, vllm_config: Any, metric_types: Any, labelnames: list[str], per_engine_labelvalues: Any
    ) -> GuardMetrics:
        return GuardMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    # Sleep, since vLLM 0.33: memory goes away, and other memory comes back at the same place

    @classmethod
    def supports_sleep_mode(cls, kv_transfer_config: Any) -> bool:
        inner = GuardSettings.read(kv_transfer_config.kv_connector_extra_config).inner
        if inner is None:
            return True
        from vllm.config import KVTransferConfig
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

        config = KVTransferConfig(**{"kv_role": kv_transfer_config.kv_role, **inner})
        return bool(KVConnectorFactory.get_connector_class(config).supports_sleep_mode(config))

    def unregister_kv_caches(self) -> None:
        if self._idle is not None:
            self._idle.busy()  # it reads no memory that is not there
        if self.watch is not None:
            self.watch.ledger.forget(range(self.watch.cache.blocks))
        if self.source.inner is not None:
            self.source.inner.unregister_kv_caches()

    def restore_kv_caches(self) -> None:
        if self.source.inner is not None:
            self.source.inner.restore_kv_caches()
        if self._idle is not None:
            self._idle.done()

    def shutdown(self) -> None:
        if self._idle is not None:
            self._idle.stop()
        if self.source.inner is not None:
            self.source.inner.shutdown()

    @property
    def _watching(self) -> Watch:
        if self.watch is None:
            raise RuntimeError("the engine runs a step before it has registered its KV cache")
        return self.watch


def _passed_on(name: str) -> Any:
    """A hook that the guard has nothing to do with: the wrapped connector's, or vLLM's default."""
    default = getattr(KVConnectorBase_V1, name)

    def hook(self: GuardConnector, *given: Any, **named: Any) -> Any:
        inner = self.source.inner
        return getattr(inner, name)(*given, **named) if inner is not None else default(self, *given, **named)

    hook.__name__ = name
    return hook


for _name in (
    "on_new_request",
    "update_connector_output",
    "take_events",
    "has_pending_block_frees",
    "has_pending_push_work",
    "get_finished_count",
    "get_transfer_results",
    "get_finished",
    "handle_preemptions",
    "finish_forward",
    "set_host_xfer_buffer_ops",
    "get_handshake_metadata",
    "set_xfer_handshake_metadata",
    "build_connector_worker_meta",
    "get_kv_connector_kv_cache_events",
    "bind_kv_cache_manager",
    "reset_cache",
    "get_external_cache_hit_sources",
    "get_loaded_kv_cache_group_ids",
):
    if hasattr(KVConnectorBase_V1, _name):
        setattr(GuardConnector, _name, _passed_on(_name))
