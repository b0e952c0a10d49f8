"""The guard in an engine: with damage at any moment, every answer is the clean one and the engine ends."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cachemedicpp.engines.fake import NAN, SIZE, FakeEngine, Request

PREFIX = list(range(100, 100 + 4 * SIZE))


def answers(engine: FakeEngine, requests: list[Request], limit: int = 400) -> list[list[int]]:
    while engine.running:
        engine.step()
        assert engine.steps < limit, "the engine does not end"
    return [request.output for request in requests]


def shared(engine: FakeEngine, sharers: int, wanted: int = 6) -> list[Request]:
    """A prefix is computed; then requests come in that share it."""
    answers(engine, [engine.add("first", PREFIX, 1)])
    return [engine.add(f"r{i}", [*PREFIX, i, i + 1], wanted) for i in range(sharers)]


def clean(sharers: int, wanted: int = 6) -> list[list[int]]:
    engine = FakeEngine(guard=False)
    return answers(engine, shared(engine, sharers, wanted))


def damage(engine: FakeEngine, request: Request, index: int, place: int = 1) -> None:
    engine.cache.content[request.blocks[index], place] ^= 1 << 9


def test_without_the_guard_damage_to_a_shared_block_changes_answers() -> None:
    engine = FakeEngine(guard=False)
    requests = shared(engine, 4)
    damage(engine, requests[0], 1)
    assert answers(engine, requests) != clean(4)


@given(
    sharers=st.integers(1, 6),
    chunk=st.sampled_from([0, SIZE, SIZE + 1, 2 * SIZE + 3]),
    hits=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, SIZE - 1)), min_size=1, max_size=4, unique=True
    ),
    nan=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_sharers_of_damaged_blocks_get_clean_answers(
    sharers: int, chunk: int, hits: list[tuple[int, int]], nan: bool
) -> None:
    engine = FakeEngine(guard=True, chunk=chunk)
    requests = shared(engine, sharers)
    for index, place in hits:
        damage(engine, requests[0], index, place)
        if nan:
            engine.cache.content[requests[0].blocks[index], place] = NAN
    assert answers(engine, requests) == clean(sharers)
    assert engine.watch is not None and engine.watch.events.counts.bad > 0


@given(
    chunk=st.sampled_from([0, SIZE, SIZE + 1]),
    moments=st.lists(
        st.tuples(st.integers(1, 12), st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=3
    ),
)
@settings(max_examples=60, deadline=None)
def test_damage_between_any_two_steps_is_found_before_a_token_is_taken(
    chunk: int, moments: list[tuple[int, int, int]]
) -> None:
    """With a look after every step, tokens are right whenever damage comes, unfinished blocks included."""
    engine = FakeEngine(guard=True, chunk=chunk, every=1)
    requests = shared(engine, 3, wanted=9)
    while engine.running:
        engine.step()
        for moment, index, which in moments:
            request = requests[which % 3]
            if engine.steps == moment and request in engine.running and index * SIZE < request.computed:
                damage(engine, request, min(index, len(request.blocks) - 1), 0)
        assert engine.steps < 400
    assert [request.output for request in requests] == clean(3, wanted=9)


def test_without_damage_nothing_is_reported_and_nothing_slows_down() -> None:
    bare, guarded = FakeEngine(guard=False, chunk=5), FakeEngine(guard=True, chunk=5)
    assert answers(bare, shared(bare, 4)) == answers(guarded, shared(guarded, 4))
    assert bare.steps == guarded.steps
    assert guarded.watch is not None
    counts = guarded.watch.events.counts
    assert counts.bad == counts.suspect == counts.recomputed == counts.failed_steps == 0
    assert counts.verified > 0 and counts.fingerprinted > 0


def test_a_request_that_is_aborted_while_it_rewrites_leaves_the_block_in_quarantine() -> None:
    engine = FakeEngine(guard=True, chunk=SIZE)
    requests = shared(engine, 2)
    damage(engine, requests[0], 0)
    engine.step()
    engine.abort(requests[0])
    late = engine.add("late", [*PREFIX, 1, 2], 6)
    assert answers(engine, [requests[1], late]) == [clean(2)[1]] * 2


def test_found_late_everything_computed_since_is_computed_again() -> None:
    """With a look every eight steps, tokens in between may be wrong; what is stored afterwards is not."""
    engine = FakeEngine(guard=True, every=8)
    (request,) = shared(engine, 1, wanted=20)
    while engine.steps % 8 != 1:
        engine.step()
    damage(engine, request, 0)
    answers(engine, [request])
    again = FakeEngine(guard=False)
    (replayed,) = [again.add("again", request.tokens[:-1], 1)]
    answers(again, [replayed])
    kept = [engine.cache.content[b].tolist() for b in request.blocks[: len(replayed.tokens) // SIZE - 1]]
    assert kept == [again.cache.content[b].tolist() for b in replayed.blocks[: len(kept)]]


def test_blocks_at_rest_are_verified_in_turn_and_a_changed_one_is_not_served() -> None:
    engine = FakeEngine(guard=True)
    (first,) = [engine.add("first", PREFIX, 1)]
    answers(engine, [first])
    assert engine.watch is not None
    damage(engine, first, 2)
    seen = sum(engine.watch.rest(2) for _ in range(3))
    assert seen >= 4 and engine.watch.events.counts.bad == 1
    request = engine.add("r0", [*PREFIX, 0, 1], 6)
    assert answers(engine, [request]) == clean(1)
