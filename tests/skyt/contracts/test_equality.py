"""Results are equal as people mean it, decided on texts in time that grows with their length."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyt.contracts import codec
from skyt.contracts.equality import EXACT, Equality

AS_CONTRACTS_DO = Equality(ordered=False, signed_zero=False)
ORDERED = Equality(ordered=True, signed_zero=False)
CLOSE = Equality(ordered=False, signed_zero=False, atol=1e-6)
NAN, INF = math.nan, math.inf


def _equal(first: Any, second: Any, equality: Equality) -> bool:
    answer = equality.equal(equality.dumps(first), equality.dumps(second))
    assert equality.equal(equality.dumps(second), equality.dumps(first)) == answer
    return answer


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({1: "a", 2: "b"}, {2: "b", 1: "a"}),
        ([{"x": {"a": 1, "b": 2}}], [{"x": {"b": 2, "a": 1}}]),
        (({"k": (1, {3: 0, 2: 0})},), ({"k": (1, {2: 0, 3: 0})},)),
        ({(1, 2): {}, "1": [], 1: 0}, {1: 0, (1, 2): {}, "1": []}),
        ({NAN: 1, 2.0: 3}, {2.0: 3, NAN: 1}),
    ],
)
def test_order_of_dicts_counts_only_where_the_contract_says_so(first: Any, second: Any) -> None:
    assert _equal(first, second, AS_CONTRACTS_DO)
    assert not _equal(first, second, ORDERED)
    assert not _equal(first, second, EXACT)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1, 2], [2, 1]),
        ((1, 2), [1, 2]),
        (1, True),
        (1, 1.0),
        ({1: 2}, {True: 2}),
        ({1: 2}, {1: 2.0}),
        ({1: 1, 2: 2}, {1: 2, 2: 1}),
        ({1, 2}, frozenset({1, 2})),
        ("a", b"a"),
        (0.1 + 0.2, 0.3),
        (INF, -INF),
        ("", None),
    ],
)
@pytest.mark.parametrize("equality", [AS_CONTRACTS_DO, ORDERED, EXACT])
def test_types_and_values_stay_exact(first: Any, second: Any, equality: Equality) -> None:
    assert not _equal(first, second, equality)


@pytest.mark.parametrize("equality", [AS_CONTRACTS_DO, ORDERED, EXACT, CLOSE])
@pytest.mark.parametrize("value", [NAN, [NAN, {NAN}], {"x": NAN}, complex(NAN, 1), {1, 2}, -INF])
def test_nan_equals_nan(value: Any, equality: Equality) -> None:
    assert _equal(value, value, equality)
    assert _equal(-NAN, NAN, equality)


@pytest.mark.parametrize(
    ("first", "second"), [(0.0, -0.0), ([{1: -0.0}], [{1: 0.0}]), (complex(0.0, -0.0), 0j), ({-0.0}, {0.0})]
)
def test_zeros_of_both_signs_are_equal_to_a_contract(first: Any, second: Any) -> None:
    assert _equal(first, second, AS_CONTRACTS_DO)
    assert _equal(first, second, CLOSE)
    assert not _equal(first, second, EXACT)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (0.1 + 0.2, 0.3),
        ([0.3, {"x": (0.1 + 0.2, 1)}], [0.1 + 0.2, {"x": (0.3, 1)}]),
        ({0.3, 7.5}, {7.5, 0.1 + 0.2}),
        ({0.3: 1}, {0.1 + 0.2: 1}),
        (complex(0.3, 1), complex(0.1 + 0.2, 1)),
        ({"a": 1e-7, "b": 2}, {"b": 2, "a": 0.0}),
    ],
)
def test_floats_are_close_within_the_tolerance_wherever_they_stand(first: Any, second: Any) -> None:
    assert _equal(first, second, CLOSE)
    assert not _equal(first, second, AS_CONTRACTS_DO)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1.0, 1.1),
        (1.0, 1),
        ([1.0], [1.0, 1.0]),
        (1.0, NAN),
        (INF, 1e308),
        (INF, -INF),
        ("0.3", "0.30000001"),
        (1.0, complex(1.0, 0)),
        ('{"f":"0x1.0p+0"}', '{"f":"0x1.0000001p+0"}'),
    ],
)
def test_tolerance_excuses_nothing_else(first: Any, second: Any) -> None:
    assert not _equal(first, second, CLOSE)


def test_relative_tolerance_is_that_of_the_standard_library() -> None:
    rough = Equality(ordered=False, signed_zero=False, rtol=0.01)
    assert _equal(100.0, 101.0, rough)
    assert not _equal(100.0, 101.1, rough)
    assert not _equal(0.0, 1e-12, rough)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text() | st.floats(), inner)
        | st.sets(st.integers() | st.floats())
    ),
    max_leaves=20,
)


@given(plain)
def test_every_value_equals_itself_and_its_reordered_self(value: Any) -> None:
    for equality in (EXACT, ORDERED, AS_CONTRACTS_DO, CLOSE):
        assert _equal(value, codec.loads(codec.dumps(value)), equality)
    assert _equal(value, _reordered(value), AS_CONTRACTS_DO)


def _reordered(value: Any) -> Any:
    if type(value) is dict:
        return {key: _reordered(item) for key, item in reversed(value.items())}
    return type(value)(map(_reordered, value)) if type(value) in (list, tuple) else value


@pytest.mark.parametrize(
    "unit",
    ['{"f":"0x1.8p+1"},', '{"f":"', '{"f":"0x1.8p+1"}', "[", '{"c":["0x1p+0","', '"\\\\', '{"f":"zz"},'],
)
def test_forged_texts_are_compared_in_linear_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    started = time.process_time()
    assert not CLOSE.equal(text + "1", text + "2")
    assert time.process_time() - started < 2


def test_strings_too_long_to_travel_are_compared_by_digest() -> None:
    long = "a" * (codec.MAX_TEXT + 1)
    assert _equal(long, "a" * len(long), AS_CONTRACTS_DO)
    assert not _equal(long, long[:-1] + "b", AS_CONTRACTS_DO)
    assert not _equal([long], [long + "a"], EXACT)
    assert len(AS_CONTRACTS_DO.dumps([long])) < 200
