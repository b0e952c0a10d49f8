"""Where blocks come from besides the engine itself: nowhere, a folder, or a connector that is wrapped."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import numpy as np

from cachemedicpp.engines.blocks.ledger import Sums
from cachemedicpp.engines.blocks.paged import PagedCache
from cachemedicpp.engines.blocks.plan import Loaded, Span, StepPlan
from cachemedicpp.engines.blocks.watch import Watch
from cachemedicpp.engines.events import Events
from cachemedicpp.engines.keys import chain, model_identity
from cachemedicpp.engines.settings import GuardSettings
from cachemedicpp.engines.store import BlockStore, RefusedError

_REMEMBERED = 100_000  # fingerprints by key that a worker keeps in mode wrap


class Source:
    """Mode paged: nothing comes from outside."""

    vouch = False  # whether what leaves the engine must be verified down to its first block
    inner: Any = None

    def matched(self, request: Any, computed: int) -> tuple[int | None, bool]:
        return 0, False

    def allocated(self, request: Any, blocks: Any, external: int) -> None:
        return

    def plan(self, plan: StepPlan, scheduler_output: Any) -> Any:
        """Add to the plan what the worker's side needs; returns the wrapped connector's own metadata."""
        return None

    def ended(self, request: str) -> None:
        return

    def load(self, plan: StepPlan, spans: list[Span], watch: Watch, context: Any) -> None:
        return

    def save(self, plan: StepPlan, watch: Watch) -> None:
        return


class KeyedSource(Source):
    """Blocks that have names: the scheduler's side knows which requests load which."""

    def __init__(self, root: str, size: int) -> None:
        self._root = root
        self._size = size
        self._keys: dict[str, tuple[str, ...]] = {}
        self._local: dict[str, int] = {}  # tokens the engine's own cache had, by request
        self._loads: list[Loaded] = []
        self._of: dict[str, tuple[str, ...]] = {}  # the worker's side

    def keys(self, request: Any) -> tuple[str, ...]:
        special = (
            request.lora_request or request.mm_features or getattr(request, "prompt_embeds", None) is not None
        )
        if special:
            return ()
        return chain(list(request.all_token_ids), self._size, self._root, request.cache_salt or "")

    def allocated(self, request: Any, blocks: Any, external: int) -> None:
        name = request.request_id
        if external:
            first, ids = self._local[name] // self._size, blocks.get_block_ids()[0]
            last = first + -(-external // self._size)
            keys = self._keys[name] + ("",) * last  # a block without a key is loaded and cannot be verified
            self._loads += [Loaded(name, ids[i], keys[i]) for i in range(first, last)]

    def plan(self, plan: StepPlan, scheduler_output: Any) -> Any:
        plan.loads, self._loads = self._loads, []
        plan.keys = {
            s.request: self._keys[s.request] for s in plan.steps if s.admitted and s.request in self._keys
        }
        return None

    def ended(self, request: str) -> None:
        self._keys.pop(request, None)
        self._local.pop(request, None)
        self._loads = [load for load in self._loads if load.request != request]

    def remember(self, plan: StepPlan) -> None:
        for request in plan.finished:
            self._of.pop(request, None)
        self._of.update(plan.keys)

    def key(self, span: Span, index: int) -> str:
        keys = self._of.get(span.request, ())
        return keys[index] if index < len(keys) else ""


class StoreSource(KeyedSource):
    """Mode store: a folder."""

    vouch = True

    def __init__(self, settings: GuardSettings, root: str, size: int, events: Events) -> None:
        super().__init__(root, size)
        self.store = BlockStore(settings.store, events, settings.store_limit)
        self._loaded: dict[int, str] = {}  # blocks that hold what was stored under a key
        self._events = events

    def matched(self, request: Any, computed: int) -> tuple[int | None, bool]:
        keys = self._keys[request.request_id] = self.keys(request)
        self._local[request.request_id] = computed
        first = computed // self._size
        last = (request.num_tokens - 1) // self._size  # one token at least is left to compute
        found = first
        while found < min(last, len(keys)) and keys[found] in self.store:
            found += 1
        return (found - first) * self._size, False

    def load(self, plan: StepPlan, spans: list[Span], watch: Watch, context: Any) -> None:
        self.remember(plan)
        cache, by_name = watch.cache, {span.request: span for span in spans}
        assert isinstance(cache, PagedCache)  # noqa: S101
        for load in plan.loads:
            span = by_name[load.request]
            try:
                content, expected = self.store.load(load.key, cache.layout)
                if not np.array_equal(cache.sums_of(content), expected):
                    self.store.remove(load.key)
                    raise RefusedError("its content was damaged")
            except RefusedError as why:
                self._events.counts.refused += 1
                self._events.say(
                    "refused", key=load.key, request=load.request, block=load.block, why=str(why)
                )
                watch.load(span, load.block, None, broken=True)
                continue
            cache.write(load.block, content)
            self._loaded[load.block] = load.key
            watch.load(span, load.block, expected, broken=False)
            self._events.counts.loaded += 1

    def save(self, plan: StepPlan, watch: Watch) -> None:
        cache = watch.cache
        assert isinstance(cache, PagedCache)  # noqa: S101
        for block in watch.foreign & self._loaded.keys():  # intact, and another text's
            self.store.remove(self._loaded.pop(block))
            self._events.counts.refused += 1
        for span, write in watch.filled:
            self._loaded.pop(write.block, None)
            key = self.key(span, write.number)
            if key and key not in self.store:
                self.store.save(
                    key, cache.layout, cache.read(write.block), watch.ledger.sums[write.block].copy()
                )


class InnerSource(KeyedSource):
    """Mode wrap: another connector loads and stores; what it loads must be what was once computed here."""

    def __init__(self, settings: GuardSettings, root: str, size: int, events: Events, make: Any) -> None:
        super().__init__(root, size)
        self.inner = make(settings.inner)
        self._events = events
        self._seen: OrderedDict[str, Sums] = OrderedDict()

    def matched(self, request: Any, computed: int) -> tuple[int | None, bool]:
        self.ended(request.request_id)  # it begins anew; what it waited for did not come
        self._keys[request.request_id] = self.keys(request)
        self._local[request.request_id] = computed
        found: tuple[int | None, bool] = self.inner.get_num_new_matched_tokens(request, computed)
        return found

    def allocated(self, request: Any, blocks: Any, external: int) -> None:
        super().allocated(request, blocks, external)
        self.inner.update_state_after_alloc(request, blocks, external)

    def plan(self, plan: StepPlan, scheduler_output: Any) -> Any:
        running = {step.request for step in plan.steps}
        waiting = [load for load in self._loads if load.request not in running]  # loads between steps
        super().plan(plan, scheduler_output)
        plan.loads = [load for load in plan.loads if load.request in running]
        self._loads = waiting
        plan.copied += tuple(load.block for load in waiting)  # what was in them is no longer there
        return self.inner.build_connector_meta(scheduler_output)

    def load(self, plan: StepPlan, spans: list[Span], watch: Watch, context: Any) -> None:
        self.remember(plan)
        self.inner.start_load_kv(context)

    def arrived(self, plan: StepPlan, spans: list[Span], watch: Watch) -> None:
        """After the forward pass: what was loaded for this step is in its place.

        Where a whole prompt was loaded, its last token is computed again into the last block, which then has
        no fingerprint to be compared with: it is computed again. Blocks that did not come are computed.
        """
        by_name = {span.request: span for span in spans}
        for load in plan.loads:
            span = by_name[load.request]
            first = {block: i * self._size for i, block in enumerate(span.blocks)}.get(load.block, span.start)
            if first < span.start:
                rewritten = span.start < first + self._size
                seen = self._seen.get(load.key)
                watch.load(span, load.block, seen, broken=rewritten, vouched=seen is not None)
                self._events.counts.loaded += 1

    def save(self, plan: StepPlan, watch: Watch) -> None:
        for span, write in watch.filled:
            if key := self.key(span, write.number):
                self._seen[key] = watch.ledger.sums[write.block].copy()
                self._seen.move_to_end(key)
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)


def make_source(
    settings: GuardSettings, vllm_config: Any, kv_cache_config: Any, role: Any, events: Events
) -> Source:
    if settings.mode == "paged":
        return Source()
    spec = kv_cache_config.kv_cache_groups[0].kv_cache_spec
    model = vllm_config.model_config
    if settings.mode == "store":
        identity = model_identity(model.model, settings.model_id)
        root = f"{identity}\0{spec.dtype}\0{spec.block_size}\0{spec.num_kv_heads}x{spec.head_size}"
        return StoreSource(settings, root, spec.block_size, events)

    def make(inner: Any) -> Any:
        from vllm.config import KVTransferConfig
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

        config = copy.copy(vllm_config)
        outer = vllm_config.kv_transfer_config
        about = {
            "kv_role": outer.kv_role,
            "engine_id": outer.engine_id,
            "kv_load_failure_policy": "recompute",
        }
        config.kv_transfer_config = KVTransferConfig(**{**about, **inner})
        return KVConnectorFactory.create_connector(config, role, kv_cache_config)

    return InnerSource(settings, model.model, spec.block_size, events, make)
