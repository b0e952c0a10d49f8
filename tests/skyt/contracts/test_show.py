"""Encoded values are shown as Python writes them, or cut short, whatever the text says."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyt.contracts import codec
from skyt.contracts.domain import Call
from skyt.contracts.show import LIMIT, show


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -5, 2**200, "é\0\n\t'\"", "\ud800", "\U0001f642", 1.5, -0.0, float("inf"), 1 + 2j,
        b"\xff", (), (1,), (1, [2, {"k": (3,)}]), set(), {1}, frozenset(), frozenset({2}),
        [], {}, {1: {2: [3]}}, [[[]]],
    ],
)  # fmt: skip
def test_shown_as_python_writes_it(value: Any) -> None:
    assert show(codec.dumps(value)) == repr(value)


@given(
    st.lists(st.integers() | st.text() | st.floats(allow_nan=False) | st.tuples(st.booleans(), st.binary()))
)
def test_short_values_are_shown_whole_and_long_ones_are_cut(value: list[Any]) -> None:
    shown, whole = show(codec.dumps(value)), repr(value)
    assert shown == whole if len(whole) <= LIMIT else shown == whole[: LIMIT - 3] + "..."


def test_large_values_are_cut() -> None:
    text, flag = "\U0001f642" * 3000, {"a" * 9000: 1}
    for value in ("x" * 10**5, list(range(10**5)), 2**70_000, b"x" * 20_000, text, flag):
        shown = show(codec.dumps(value))
        assert len(shown) == LIMIT
        assert shown.endswith("...")


def test_outcomes_of_operations_are_shown() -> None:
    assert (
        show('[{"x":"KeyError"},null,{"o":"object of type C"}]')
        == "[raises KeyError, None, <object of type C>]"
    )


def test_forged_texts_are_shown_in_bounded_time_and_space() -> None:
    texts = [
        "", "[", '{"q":1}', '{"s":[1,', "1" * 10**6, "[" * 10**6, '"' + "\\" * 10**6, '{"f":"zz"}', "NaN",
        '{"i":"0x' + "f" * 10**5 + '"}', "[1,2]junk", '{"t":[' * 10**5, '{"e":"1"}', '{"d":[[[],1]]}',
    ]  # fmt: skip
    started = time.process_time()
    assert all(len(show(text)) <= LIMIT for text in texts)
    assert time.process_time() - started < 1


def test_call_with_an_integer_that_python_does_not_write_out_can_be_shown() -> None:
    assert Call((10**5000, [1])).show("f").startswith("f(0x")
