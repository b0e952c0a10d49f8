"""Mode wrap: what another connector loads is what was computed here, or it is computed again."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from tests.cachemedicpp.engines.fake import SIZE, FakeCache

from cachemedicpp.engines.blocks.plan import Loaded, RequestStep, StepPlan
from cachemedicpp.engines.blocks.watch import Watch
from cachemedicpp.engines.events import Events
from cachemedicpp.engines.settings import GuardSettings
from cachemedicpp.engines.vllm.sources import InnerSource

COMPUTED, TARGET, NEXT = 1, 5, 6  # blocks


class Wrapped:
    """A cache, its guard and a wrapped connector that does what the test says."""

    def __init__(self) -> None:
        events = Events()
        self.cache = FakeCache(8)
        self.watch = Watch(self.cache, events)
        settings = GuardSettings.read({"mode": "wrap", "inner": {"kv_connector": "X"}})
        inner = SimpleNamespace(build_connector_meta=lambda scheduler_output: None)
        self.source = InnerSource(settings, "model", SIZE, events, lambda _: inner)
        plan = StepPlan([RequestStep("a", (COMPUTED,), 0, SIZE, admitted=True)], keys={"a": ("key",)})
        spans = self.watch.begin(plan)
        self.cache.content[COMPUTED] = np.arange(SIZE) + 7
        self.source.remember(plan)
        assert self.watch.end(spans) == set()
        self.source.save(plan, self.watch)

    def load(self, key: str = "key", spoil: int = 0, start: int = SIZE) -> set[int]:
        """Another request has the block loaded; what is reported after its first step."""
        self.cache.content[TARGET] = self.cache.content[COMPUTED]
        self.cache.content[TARGET, 1] ^= spoil
        steps = [RequestStep("b", (TARGET, NEXT), start, SIZE + 1, admitted=True)]
        plan = StepPlan(steps, loads=[Loaded("b", TARGET, key)])
        spans = self.watch.begin(plan)
        self.source.arrived(plan, spans, self.watch)
        return self.watch.end(spans)


@pytest.mark.parametrize("held", [False, True], ids=["free", "in quarantine before"])
def test_a_load_is_served_if_it_is_what_was_computed_and_reported_if_not(held: bool) -> None:
    for spoil, reported, bad in ((0, set(), 0), (1 << 9, {TARGET}, 1)):
        wrapped = Wrapped()
        if held:
            wrapped.watch.quarantine.put(TARGET)
        assert wrapped.load(spoil=spoil) == reported
        assert wrapped.watch.events.counts.bad == bad
        assert (TARGET in wrapped.watch.quarantine) == bool(bad)


def test_a_load_without_a_fingerprint_does_not_leave_quarantine() -> None:
    wrapped = Wrapped()
    wrapped.watch.quarantine.put(TARGET)
    assert wrapped.load(key="never seen") == {TARGET}


def test_a_loaded_block_that_its_first_step_writes_to_is_computed_again() -> None:
    assert Wrapped().load(start=SIZE - 1, spoil=1 << 9) == {TARGET}


def test_a_block_that_did_not_come_and_was_computed_is_left_alone() -> None:
    wrapped = Wrapped()
    assert wrapped.load(start=0) == set()
    assert wrapped.cache.content[TARGET].all() and wrapped.watch.events.counts.bad == 0


def test_blocks_that_wait_for_a_load_are_not_compared_with_what_they_held() -> None:
    wrapped, plan = Wrapped(), StepPlan()
    request, blocks = SimpleNamespace(request_id="b"), SimpleNamespace(get_block_ids=lambda: [[COMPUTED]])
    wrapped.source._keys["b"], wrapped.source._local["b"] = ("other",), 0
    super(InnerSource, wrapped.source).allocated(request, blocks, SIZE)
    wrapped.source.plan(plan, None)
    wrapped.watch.begin(plan)
    wrapped.cache.content[COMPUTED] = 0
    wrapped.watch.rest(10)
    assert wrapped.watch.events.counts.bad == 0
    wrapped.source.ended("b")
    wrapped.source.plan(later := StepPlan(), None)
    assert later.copied == (), "a request that ended waits no longer"
