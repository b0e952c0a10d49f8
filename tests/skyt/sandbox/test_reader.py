"""The reader keeps what it is asked for, in pieces of any size, and stops at its limits."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyt.sandbox.reader import Reader
from skyt.sandbox.results import CallResult

ENDING = CallResult("crash", "exit code 0")
GOOD = b'R\nL\tnull\nv\t[1,2]\t\nx\t"ValueError"\nv\t3\t[[4]]\n'
RESULTS = [CallResult("value", "[1,2]"), CallResult("raise", "ValueError"), CallResult("value", "3", "[[4]]")]


def _read(
    output: bytes, count: int = 3, piece: int = 1 << 20, line: int = 1000, total: int = 100_000
) -> Reader:
    reader = Reader(count, line, total)
    for at in range(0, len(output), piece):
        reader.feed(output[at : at + piece])
    return reader


@pytest.mark.parametrize("piece", [1, 2, 7, 1000])
def test_results_do_not_depend_on_how_the_output_is_cut(piece: int) -> None:
    reader = _read(GOOD, piece=piece)
    assert reader.results(ENDING) == RESULTS
    assert reader.complete
    assert not reader.problem


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_output_gives_one_result_per_call(output: bytes, piece: int) -> None:
    for start in (b"", b"R\n", b"R\nL\tnull\n", GOOD[:-3]):
        whole, cut = _read(start + output), _read(start + output, piece=piece)
        assert whole.results(ENDING) == cut.results(ENDING)
        assert len(whole.results(ENDING)) == 3


def test_line_that_is_too_long_ends_the_reading() -> None:
    reader = _read(GOOD[:19] + b"v\t" + b"1" * 2000)
    assert reader.problem == "a line too long"
    assert reader.results(CallResult("crash", reader.problem))[1:] == [
        CallResult("crash", "a line too long"),
        CallResult("unrun"),
    ]


def test_too_much_output_ends_the_reading_even_when_nothing_more_is_expected() -> None:
    reader = _read(GOOD + b"v\t1\t\n" * 30_000)
    assert reader.problem == "too much output"
    assert reader.results(ENDING) == RESULTS


@pytest.mark.parametrize(
    "junk", [b"\n", b"v\t1\n", b"v\t1\t\t\n", b"\xff\n", b"t \n", b"x\t1\n", b'x\t"\n', b"L\tnull\n"]
)
def test_malformed_line_ends_the_reading(junk: bytes) -> None:
    reader = _read(b"R\nL\tnull\nv\t1\t\n" + junk + GOOD)
    assert reader.problem == "malformed output"
    assert [result.kind for result in reader.results(ENDING)] == ["value", "crash", "unrun"]


def test_broken_constraint_ends_the_results_before_or_after_loading() -> None:
    forbidden = CallResult("forbidden", "calls sorted")
    assert _read(b'R\nf\t"calls sorted"\n').results(ENDING) == [forbidden] * 3
    assert _read(b'R\nL\tnull\nv\t1\t\nf\t"calls sorted"\n').results(ENDING) == [
        CallResult("value", "1"),
        forbidden,
        CallResult("unrun"),
    ]


def test_memory_is_bounded_by_the_limits_whatever_is_written() -> None:
    tracemalloc.start()
    try:
        for output in (b"\n" * 256_000, b"x" * 256_000, b"v\t1\t\n" * 50_000, b"R\n" + b"v" * 256_000):
            reader = Reader(200, 1 << 20, 4 << 20)
            for _ in range(60):
                reader.feed(output)
            reader.results(ENDING)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
