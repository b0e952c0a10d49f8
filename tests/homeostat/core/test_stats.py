"""Each statistic against a value worked out by hand or published."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeostat.core import stats


def test_auc_of_a_hand_drawn_curve() -> None:
    # trapezoids: (1 + 0.5)/2 · 0.1 + (0.5 + 0.2)/2 · 0.4 = 0.075 + 0.14
    assert stats.auc([0, 0.1, 0.5], [1, 0.5, 0.2]) == pytest.approx(0.215)


def test_auc_needs_increasing_x() -> None:
    with pytest.raises(ValueError, match="increase"):
        stats.auc([0, 0], [1, 1])


def test_wilson_matches_the_closed_form() -> None:
    # p = 8/10, z = 1.959964: centre (p + z²/2n)/(1 + z²/n), half-width z·sqrt(p(1-p)/n + z²/4n²)/(1 + z²/n)
    z, p, n = 1.959963984540054, 0.8, 10
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    found = stats.wilson(8, 10)
    assert (found.estimate, found.low, found.high) == pytest.approx((0.8, centre - half, centre + half))
    assert (round(found.low, 4), round(found.high, 4)) == (0.4902, 0.9433)


def test_wilson_of_no_trials_is_the_whole_range() -> None:
    assert (stats.wilson(0, 0).low, stats.wilson(0, 0).high) == (0.0, 1.0)


def test_fisher_on_the_lady_tasting_tea() -> None:
    # 3 of 4 cups right: two-sided p = 34/70 (Fisher, 1935)
    assert stats.fisher_exact(3, 1, 1, 3) == pytest.approx(34 / 70)


def test_holm_by_hand() -> None:
    # sorted .01 .02 .03 .04 times 4 3 2 1 = .04 .06 .06 .04, then made monotone: .04 .06 .06 .06
    assert stats.holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert stats.holm([]) == []


def test_bootstrap_interval_covers_the_standard_error_of_a_mean() -> None:
    values = np.random.default_rng(1).normal(size=400)
    found = stats.bootstrap(values)
    assert found.estimate == pytest.approx(values.mean())
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert found.high - found.low == pytest.approx(2 * half, rel=0.1)


def test_pairing_removes_what_the_pairs_share() -> None:
    rng = np.random.default_rng(2)
    shared = rng.normal(size=50) * 100
    found = stats.paired_bootstrap(shared + 1 + 0.01 * rng.normal(size=50), shared)
    assert 0.9 < found.low < found.high < 1.1


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.integers(0, 5))
def test_bootstrap_is_deterministic_and_brackets_its_samples(values: list[float], seed: int) -> None:
    first = stats.bootstrap(values, resamples=99, seed=seed)
    assert first == stats.bootstrap(values, resamples=99, seed=seed)
    assert min(values) - 1e-6 <= first.low <= first.high <= max(values) + 1e-6


@given(st.integers(0, 200), st.integers(0, 200))
def test_wilson_brackets_its_estimate(successes: int, more: int) -> None:
    found = stats.wilson(successes, successes + more)
    assert 0 <= found.low <= found.estimate + 1e-12 and found.estimate <= found.high + 1e-12 <= 1 + 1e-9
