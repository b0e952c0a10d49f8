from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeostat.core.errors import UserError
from skyt.metrics.formulas import (
    BOOTSTRAP_LIMIT,
    Metrics,
    Tally,
    check_tau,
    details,
    metrics,
    tally_of,
)

# Ten samples of one prompt, worked out by hand:
#   signature  A A A A B B C D E F      (A is the canon)
#   d_pre      0 0 0 0 .05 .05 .1 .2 .5 1
#   d_post     0 0 0 0 0   0   0  .1 .5 1
SIGNATURES = list("AAAABBCDEF")
D_PRE = [0.0, 0.0, 0.0, 0.0, 0.05, 0.05, 0.1, 0.2, 0.5, 1.0]
D_POST = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.5, 1.0]


def computed(signatures: list[str], d_pre: list[float], d_post: list[float], tau: float = 0.1) -> Metrics:
    return metrics(tally_of(signatures, d_pre, d_post, tau), tau)


def test_every_metric_equals_the_hand_worked_table() -> None:
    found = computed(SIGNATURES, D_PRE, D_POST)
    assert found == Metrics(
        N=10,
        R_raw=0.4,
        R_anchor=0.7,
        mu_pre=0.19,
        mu_post=0.16,
        delta_R_anchor=0.7,
        delta_mu=pytest.approx(-0.03),
        P_tau_pre=0.7,
        P_tau_post=0.8,
        delta_P_tau=pytest.approx(0.1),
        rescue_rate=0.3,
        tau=0.1,
    )
    assert found.delta_mu == found.mu_post - found.mu_pre


def test_details_have_the_measured_share_evidence_and_intervals() -> None:
    found = details(tally_of(SIGNATURES, D_PRE, D_POST))
    assert found["R_anchor_pre_measured"] == 0.4
    assert found["r_anchor"] == {"identical": 0.4, "rewritten": 0.7, "equivalent": 0.7}
    assert found["evidence_counts"] == {"identical": 4, "rewritten": 3, "equivalent": 0, "none": 3}
    wilson = found["intervals"]["R_anchor"]
    assert (wilson["low"], wilson["high"]) == (
        pytest.approx(0.3968, abs=1e-4),
        pytest.approx(0.8922, abs=1e-4),
    )
    for name in ("mu_pre", "mu_post", "delta_mu", "delta_P_tau", "delta_R_anchor_measured"):
        interval = found["intervals"][name]
        assert interval["low"] <= interval["estimate"] <= interval["high"]
    assert found["intervals"]["delta_mu"]["high"] <= 0.0


def test_r_raw_of_an_empty_output_set_is_zero() -> None:
    found = computed([], [], [])
    assert found.R_raw == 0.0
    assert found.N == 0
    assert all(value == 0 for value in (found.R_anchor, found.mu_pre, found.P_tau_post, found.rescue_rate))
    assert details(Tally())["intervals"] == {}


def test_r_raw_of_a_single_output_is_one() -> None:
    assert computed(["A"], [1.0], [1.0]).R_raw == 1.0


def test_r_raw_of_all_unique_outputs_is_one_over_n() -> None:
    assert computed(list("ABCDE"), [0.5] * 5, [0.5] * 5).R_raw == 1 / 5


def test_r_raw_of_identical_outputs_is_one() -> None:
    assert computed(["A"] * 7, [0.5] * 7, [0.5] * 7).R_raw == 1.0


def test_r_anchor_without_a_canon_is_zero() -> None:
    found = computed(list("AAB"), [1.0] * 3, [1.0] * 3)  # missing canon: every distance is 1.0
    assert found.R_anchor == found.delta_R_anchor == found.rescue_rate == 0.0
    assert found.mu_pre == found.mu_post == 1.0


def test_delta_r_anchor_is_r_anchor_because_r_anchor_pre_is_zero_by_definition() -> None:
    found = computed(["A"] * 4, [0.0] * 4, [0.0] * 4)
    assert found.R_anchor == found.delta_R_anchor == 1.0


def test_rescue_rate_is_zero_when_all_inputs_are_canonical_already() -> None:
    assert computed(["A"] * 4, [0.0] * 4, [0.0] * 4).rescue_rate == 0.0


def test_rescue_rate_is_zero_when_no_repair_was_attempted() -> None:
    assert computed(list("ABCD"), [0.3] * 4, [0.3] * 4).rescue_rate == 0.0


def test_rescue_rate_is_one_when_every_input_is_rescued() -> None:
    assert computed(list("ABCD"), [0.3] * 4, [0.0] * 4).rescue_rate == 1.0


def test_delta_mu_is_negative_for_improvement_and_zero_for_none() -> None:
    assert computed(list("AB"), [1.0, 1.0], [0.0, 0.0]).delta_mu == -1.0
    assert computed(list("AB"), [0.3, 0.4], [0.3, 0.4]).delta_mu == 0.0


@pytest.mark.parametrize(("tau", "share"), [(0.0, 0.4), (0.05, 0.6), (0.1, 0.7), (0.0999, 0.6), (1.0, 1.0)])
def test_p_tau_counts_distances_up_to_and_including_tau(tau: float, share: float) -> None:
    assert computed(SIGNATURES, D_PRE, D_POST, tau).P_tau_pre == share


@pytest.mark.parametrize("tau", [-0.01, 1.01, float("nan"), float("inf")])
def test_tau_outside_the_unit_interval_is_refused(tau: float) -> None:
    with pytest.raises(UserError, match="tau"):
        check_tau(tau)


SAMPLES = st.lists(
    st.tuples(st.sampled_from("ABCDE"), st.floats(0, 1), st.floats(0, 1)).map(
        lambda s: (s[0], max(s[1], s[2]), min(s[1], s[2]))
    ),
    max_size=30,
)


@given(SAMPLES, st.randoms(use_true_random=False), st.floats(0, 1))
def test_metrics_do_not_depend_on_the_order_of_samples(
    samples: list[tuple[str, float, float]], rng: random.Random, tau: float
) -> None:
    shuffled = samples.copy()
    rng.shuffle(shuffled)

    def of(rows: list[tuple[str, float, float]]) -> Tally:
        return tally_of([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows], tau)

    assert of(samples) == of(shuffled)


@given(SAMPLES, st.floats(0, 1))
def test_metrics_stay_in_their_ranges(samples: list[tuple[str, float, float]], tau: float) -> None:
    found = computed([s[0] for s in samples], [s[1] for s in samples], [s[2] for s in samples], tau)
    shares = (found.R_raw, found.R_anchor, found.mu_pre, found.mu_post, found.P_tau_pre, found.P_tau_post)
    assert all(0.0 <= share <= 1.0 for share in (*shares, found.rescue_rate, found.delta_R_anchor))
    assert -1.0 <= found.delta_mu <= 0.0
    assert 0.0 <= found.delta_P_tau <= 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_means_are_correctly_rounded(values: list[float]) -> None:
    found = metrics(tally_of(["A"] * len(values), values, values), 0.1).mu_pre
    assert found == float(sum(map(Fraction, values)) / len(values))


def test_beyond_the_bootstrap_limit_the_interval_is_the_normal_one_and_nearly_the_same() -> None:
    rng = random.Random(0)
    values = [rng.random() for _ in range(BOOTSTRAP_LIMIT)]
    small = details(tally_of(["A"] * len(values), values, values))["intervals"]["mu_pre"]
    large = details(tally_of(["A"] * (2 * len(values)), values * 2, values * 2))["intervals"]["mu_pre"]
    assert (small["method"], large["method"]) == ("bootstrap", "normal")
    narrower = (large["high"] - large["low"]) / (small["high"] - small["low"])
    assert narrower == pytest.approx(2**-0.5, rel=0.08)
