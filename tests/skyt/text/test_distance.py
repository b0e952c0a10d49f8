from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeostat.core.errors import UserError
from skyt.text import distance as module
from skyt.text.distance import LEVENSHTEIN, Distance, Measured, get_distance, register

SHORT = st.text(alphabet="ab\nc", max_size=12)


def _edits(a: str, b: str) -> int:
    """Wagner and Fischer's table, for comparison."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def test_kitten_and_sitting_are_three_sevenths_apart() -> None:
    assert LEVENSHTEIN("kitten", "sitting") == Measured(3 / 7, "exact")


def test_empty_text_is_at_one_from_any_other_and_at_zero_from_itself() -> None:
    assert LEVENSHTEIN("", "x = 1").d == 1.0
    assert LEVENSHTEIN("x = 1", "").d == 1.0
    assert LEVENSHTEIN("", "").d == 0.0


@given(SHORT, SHORT)
def test_levenshtein_is_edits_over_the_longer_length_and_symmetric(a: str, b: str) -> None:
    expected = _edits(a, b) / max(len(a), len(b)) if a or b else 0.0
    assert LEVENSHTEIN(a, b).d == LEVENSHTEIN(b, a).d == expected
    assert 0.0 <= expected <= 1.0


@given(st.text(alphabet="abc", max_size=60), st.text(alphabet="abc", max_size=60))
def test_very_long_texts_get_a_marked_upper_bound_that_is_zero_only_for_equal_texts(a: str, b: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "EXACT_CELLS", 20)
        patch.setattr(module, "_CHUNK", 7)
        bound = LEVENSHTEIN(a, b)
        assert bound.d == LEVENSHTEIN(b, a).d
    exact = LEVENSHTEIN(a, b)
    assert exact.d <= bound.d <= 1.0
    assert (bound.d == 0.0) == (a == b)
    if a and b and a != b:
        assert bound.method == ("upper_bound" if len(a) * len(b) > 20 else "exact")


def test_an_insertion_in_a_very_long_text_costs_one_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT_CELLS", 1000)
    text = "x = 1\n" * 10_000
    found = LEVENSHTEIN(text, text[:30_000] + "!" + text[30_000:])
    assert found == Measured(1 / 60_001, "upper_bound")


def test_distances_are_pluggable_by_name_and_versioned() -> None:
    half = register(Distance("always_half", "3", lambda a, b: Measured(0.5)))
    try:
        assert get_distance("always_half").id == "always_half-3"
        assert half("a", "b").d == 0.5
        assert half("a", "a").d == 0.0  # identical text is at 0 whatever the function says
        with pytest.raises(UserError, match="registered already"):
            register(half)
    finally:
        del module._REGISTRY["always_half"]
    with pytest.raises(UserError, match="levenshtein"):
        get_distance("levenstein")


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda a, b: Measured(float(a.split() != b.split())), "puts 'x = 1' and 'x  = 1' 0.0 apart"),
        (lambda a, b: Measured(abs(len(a) - len(b)) + 0.5), "apart: different texts are"),
        (lambda a, b: Measured(float("nan")), "nan apart"),
        (lambda a, b: Measured(0.2 if a < b else 0.4), "is not symmetric"),
    ],
)
def test_what_is_no_distance_is_refused_when_it_is_registered(function: Any, says: str) -> None:
    with pytest.raises(UserError, match=says):
        register(Distance("mine", "1", function))
    with pytest.raises(UserError, match="unknown distance"):
        get_distance("mine")
