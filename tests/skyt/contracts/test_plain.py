"""`equality: python` says of encoded texts what `==` says of the values, and tolerates what EvalPlus does."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyt.contracts.equality import Equality

PLAIN = Equality(ordered=False, signed_zero=False, plain=True)
CLOSE = Equality(ordered=False, signed_zero=False, atol=1e-4, plain=True)
Point = namedtuple("Point", "x y")

_hashable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0, -0.0, 2.0, 0.5])
    | st.sampled_from("ab"),
    lambda inside: st.lists(inside, max_size=3).map(tuple) | st.frozensets(inside, max_size=3),
    max_leaves=4,
)
_values = st.recursive(
    _hashable,
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(_hashable, inside, max_size=3)
        | st.sets(_hashable, max_size=3)
        | st.lists(inside, max_size=3).map(tuple)
    ),
    max_leaves=6,
)


def _equal(first: Any, second: Any, equality: Equality = PLAIN) -> bool:
    answer = equality.equal(equality.dumps(first), equality.dumps(second))
    assert equality.equal(equality.dumps(second), equality.dumps(first)) == answer
    return answer


@given(_values, _values)
def test_texts_are_equal_where_the_values_are(first: Any, second: Any) -> None:
    assert _equal(first, second) == (first == second)
    assert _equal(first, first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Counter("aab"), {"b": 1, "a": 2}),
        (defaultdict(list, {1: [2]}), {1: [2]}),
        (OrderedDict(a=1, b=2), {"b": 2, "a": 1}),
        (Point(1, 2), (1, 2)),
        ([True, 2.0], [1, 2]),
        (2**70, float(2**70)),
        (1 + 0j, 1),
    ],
)
def test_equal_values_of_other_types_are_equal(first: Any, second: Any) -> None:
    assert first == second
    assert _equal(first, second)


@pytest.mark.parametrize(
    ("first", "second", "equality", "close"),
    [
        (0.1 + 0.2, 0.3, PLAIN, True),  # a float that is expected has 1e-6
        (0.3, 0.30001, PLAIN, False),
        ([0.1 + 0.2, 1.0], [0.3, 1.0], PLAIN, True),  # and so has a flat list of them
        ([[0.1 + 0.2]], [[0.3]], PLAIN, False),  # but not a nested one
        ([[0.1 + 0.2], [1]], [[0.3], [1]], CLOSE, True),  # which has `atol`
        ((1, 0.30001), (1, 0.3), CLOSE, True),
        ([0.3], (0.3,), CLOSE, False),  # the outermost types must agree
        (1, 1.00001, CLOSE, False),
        ("a", "b", CLOSE, False),
        ({"a": 0.30001}, {"a": 0.3}, CLOSE, False),  # numpy compares no dicts
        ([1.0], [1.0, 1.0], CLOSE, False),
    ],
)
def test_numbers_are_close_where_evalplus_finds_them_close(
    first: Any, second: Any, equality: Equality, close: bool
) -> None:
    assert _equal(first, second, equality) == close


@pytest.mark.parametrize(
    "text", ["[" * 5000, '{"f":"zz"}', '{"i":"0x"}', "1" * 5000, '{"d":[1]}', '{"a":1,"b":2}', "nope"]
)
def test_a_text_that_encodes_nothing_equals_nothing(text: str) -> None:
    assert not PLAIN.equal(text, "1")
    assert not CLOSE.equal("[1.5]", text)
