"""The small parts: JSON from strangers, streams cut at events, answers as events, which contract matches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyt.contracts.contract import Contract
from skyt.serve.anchoring.matching import Matcher, prompt_text
from skyt.serve.protocol.answers import add_usage, events
from skyt.serve.protocol.codec import BadJsonError, read_json, write_json
from skyt.serve.protocol.errors import ApiError
from skyt.serve.upstream.gate import Gate
from skyt.serve.upstream.relay import relay

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_json_survives_the_round_trip_as_ascii(value: Any) -> None:
    data = write_json(value)
    assert data.isascii() and read_json(data) == value


@given(st.binary(max_size=200))
def test_reading_bytes_gives_json_or_the_one_error(data: bytes) -> None:
    try:
        expected = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        with pytest.raises(BadJsonError):
            read_json(data)
    else:
        assert expected != expected or read_json(data) == expected


async def _pieces(pieces: list[bytes], broken: bool) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
    if broken:
        raise aiohttp.ClientPayloadError("cut")


def _relayed(pieces: list[bytes], broken: bool = False) -> list[bytes]:
    async def collect() -> list[bytes]:
        return [part async for part in relay(_pieces(pieces, broken), "r")]

    return asyncio.run(collect())


@given(
    st.lists(st.text("ab {}:", max_size=6), min_size=1, max_size=6),
    st.sampled_from(["\n\n", "\r\n\r\n"]),
    st.lists(st.integers(0, 60), max_size=6),
    st.booleans(),
)
def test_a_stream_is_passed_on_whole_and_broken_ones_end_in_an_error_event(
    texts: list[str], end: str, cuts: list[int], broken: bool
) -> None:
    whole = "".join(f"data: {text}{end}" for text in texts).encode()
    places = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})
    pieces = [whole[a:b] for a, b in pairwise(places)]
    if not broken:
        assert b"".join(_relayed(pieces)) == whole
        return
    *parts, last = _relayed([*pieces, b'data: {"half'], broken=True)
    assert b"".join(parts) == whole and "error" in json.loads(last.removeprefix(b"data: "))


def test_events_of_several_choices_add_up_to_their_texts() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    body = {
        "id": "x",
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "one"}, "finish_reason": "stop"},
            {"index": 1, "message": {"role": "assistant", "content": None, "tool_calls": [call]}},
        ],
        "usage": {"total_tokens": 3},
        "skyt": {"contract": "gcd"},
    }
    *made, done = events(body, chat=True, include_usage=True)
    chunks = [json.loads(event.removeprefix(b"data: ")) for event in made]
    assert done == b"data: [DONE]\n\n" and {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    texts = {0: "", 1: ""}
    for chunk in chunks:
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
    assert texts == {0: "one", 1: ""}
    assert any(c["delta"].get("tool_calls", [{}])[0].get("index") == 0 for k in chunks for c in k["choices"])
    assert chunks[-1]["usage"] == {"total_tokens": 3} and chunks[-2]["skyt"] == {"contract": "gcd"}


def test_usage_of_several_attempts_adds_up_also_inside() -> None:
    first = {"total_tokens": 5, "details": {"cached": 1}, "tier": "a"}
    second = {"total_tokens": 7, "details": {"cached": 2}, "tier": "b"}
    assert add_usage(add_usage({}, first), second) == {
        "total_tokens": 12,
        "details": {"cached": 3},
        "tier": "b",
    }
    assert add_usage(first, None) == first


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"prompt": "p"}, "p"),
        ({"prompt": ["p"]}, None),
        ({"messages": [{"role": "user", "content": "p"}]}, "p"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "p"}, {"text": "q"}]}]}, "pq"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, None),
        ({"messages": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "a"}]}, None),
        ({"messages": "p"}, None),
        ({"messages": [3]}, None),
        ({}, None),
    ],
)
def test_the_prompt_of_a_request_is_one_question(body: dict[str, Any], text: str | None) -> None:
    assert prompt_text(body) == text


def test_a_header_wins_over_metadata_over_alias_over_text(contracts: dict[str, Contract]) -> None:
    matcher = Matcher(contracts)
    text = {"messages": [{"role": "user", "content": contracts["gcd"].prompt}]}
    assert matcher.match({}, text).by == "prompt"  # type: ignore[union-attr]
    alias = {**text, "model": "skyt/is_prime"}
    found = matcher.match({}, alias)
    assert found is not None and (found.by, found.contract.id) == ("model", "is_prime")
    found = matcher.match({"x-skyt-contract": "gcd"}, {**alias, "metadata": {"skyt_contract": "is_prime"}})
    assert found is not None and (found.by, found.contract.id) == ("header", "gcd")
    assert matcher.match({}, {"messages": [{"role": "user", "content": "hi"}]}) is None
    with pytest.raises(ApiError):
        matcher.match({}, {"metadata": {"skyt_contract": ["gcd"]}})


def test_the_gate_lets_so_many_in_so_many_wait_and_refuses_the_rest() -> None:
    async def scenario() -> tuple[int, int]:
        gate, inside, most = Gate(2, 3), 0, 0

        async def work() -> str:
            nonlocal inside, most
            try:
                async with gate.entered():
                    inside += 1
                    most = max(most, inside)
                    await asyncio.sleep(0.01)
                    inside -= 1
            except ApiError:
                return "refused"
            return "done"

        outcomes = await asyncio.gather(*(work() for _ in range(9)))
        return most, outcomes.count("refused")

    assert asyncio.run(scenario()) == (2, 4)
