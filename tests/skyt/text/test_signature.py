from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from skyt.text.distance import LEVENSHTEIN
from skyt.text.signature import signature


def test_empty_normalised_text_has_the_sha256_of_the_empty_string() -> None:
    assert signature("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_signature_is_sha256_over_utf8() -> None:
    text = "def f():\n    return 'ä → ∑'"
    assert signature(text) == hashlib.sha256(text.encode("utf-8")).hexdigest()


def test_a_lone_surrogate_has_a_signature_too() -> None:
    assert signature("\ud800") != signature("\ud801")


@given(st.text(), st.text())
def test_distance_is_zero_exactly_for_equal_signatures(a: str, b: str) -> None:
    assert (LEVENSHTEIN(a, b).d == 0.0) == (signature(a) == signature(b))
