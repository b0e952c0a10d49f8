"""The repeatability metrics of one set of samples, from tallies: the protocol's formulas and nothing else.

    R_raw = max count(sig) / N      R_anchor = count(d_post == 0) / N
    mu    = sum(d) / N              rescue   = count(d_pre > 0 and d_post == 0) / N
    P_tau = count(d <= tau) / N     delta X  = X_post - X_pre

`R_anchor_pre` is 0 by definition, so `delta_R_anchor = R_anchor`; the share that already was canonical before
repair is measured too, and reported as `R_anchor_pre_measured`. Means are correctly rounded, so that no
metric depends on the order of the samples.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from homeostat.core import stats
from homeostat.core.errors import UserError
from skyt.contracts.defaults import DEFAULT_TAU

Array = NDArray[np.float64]
EVIDENCE = ("identical", "rewritten", "equivalent")  # from the strongest; what is not canonical has `none`
BOOTSTRAP_LIMIT = 2000  # samples; beyond this the mean's interval is the normal one, which it then equals


def check_tau(tau: float) -> float:
    if not 0.0 <= tau <= 1.0:  # also refuses NaN
        raise UserError(
            f"tau = {tau}: a distance threshold lies between 0 and 1 (the default is {DEFAULT_TAU})"
        )
    return tau


def mean(values: Array) -> float:
    """The correctly rounded mean, the same in any order; 0 for an empty set."""
    n = len(values)
    if not n:
        return 0.0
    rounded = math.fsum(values) / n
    product = Fraction(rounded) * n
    high = float(product)
    rest = math.fsum(chain(values, (-high, -float(product - Fraction(high)))))
    return rounded + rest / n


@dataclass(frozen=True)
class Tally:
    """What the metrics of a set of samples are computed from."""

    n: int = 0
    modal: int = 0
    canonical_pre: int = 0
    canonical_post: int = 0
    rescued: int = 0
    within_pre: int = 0
    within_post: int = 0
    compliant_pre: int = 0
    compliant_post: int = 0
    mean_pre: float = 0.0
    mean_post: float = 0.0
    mean_squares: tuple[float, float, float] = (0.0, 0.0, 0.0)  # of d_pre, d_post, d_post - d_pre
    evidence: tuple[int, int, int] = (0, 0, 0)  # canonical samples by EVIDENCE
    pairs: tuple[tuple[float, float], ...] | None = ()  # (d_pre, d_post), sorted; None when too many to keep


@dataclass(frozen=True)
class Metrics:
    """One row of `metrics_summary.csv`, without the prompt's name."""

    N: int
    R_raw: float
    R_anchor: float
    mu_pre: float
    mu_post: float
    delta_R_anchor: float  # noqa: N815
    delta_mu: float
    P_tau_pre: float
    P_tau_post: float
    delta_P_tau: float  # noqa: N815
    rescue_rate: float
    tau: float


def metrics(tally: Tally, tau: float) -> Metrics:
    """The protocol's formulas. Every figure of an empty set is 0.0."""
    n = tally.n
    r_anchor = _share(tally.canonical_post, n)
    r_anchor_pre = 0.0  # by definition: no canon exists before repair
    mu_pre, mu_post = tally.mean_pre, tally.mean_post
    p_pre, p_post = _share(tally.within_pre, n), _share(tally.within_post, n)
    return Metrics(
        N=n,
        R_raw=_share(tally.modal, n),
        R_anchor=r_anchor,
        mu_pre=mu_pre,
        mu_post=mu_post,
        delta_R_anchor=r_anchor - r_anchor_pre,
        delta_mu=mu_post - mu_pre,
        P_tau_pre=p_pre,
        P_tau_post=p_post,
        delta_P_tau=p_post - p_pre,
        rescue_rate=_share(tally.rescued, n),
        tau=tau,
    )


def tally_of(
    signatures: Sequence[str], d_pre: Sequence[float], d_post: Sequence[float], tau: float = DEFAULT_TAU
) -> Tally:
    """The tally of samples held in memory: raw signatures and distances before and after repair."""
    if not len(signatures) == len(d_pre) == len(d_post):
        raise ValueError("each sample needs a signature, a distance before and a distance after repair")
    pre, post = np.asarray(d_pre, dtype=np.float64), np.asarray(d_post, dtype=np.float64)
    return tally_distances(pre, post, tau, modal=max(Counter(signatures).values(), default=0))


def tally_distances(
    pre: Array,
    post: Array,
    tau: float,
    *,
    modal: int,
    compliant: tuple[int, int] = (0, 0),
    evidence: tuple[int, int] | None = None,
) -> Tally:
    """The tally of samples by their distances. `evidence`: how many were rewritten and equivalent."""
    identical, canonical = (int(np.count_nonzero(d == 0.0)) for d in (pre, post))
    few = len(pre) <= BOOTSTRAP_LIMIT
    return Tally(
        n=len(pre),
        modal=modal,
        canonical_pre=identical,
        canonical_post=canonical,
        rescued=int(np.count_nonzero((pre > 0.0) & (post == 0.0))),
        within_pre=int(np.count_nonzero(pre <= tau)),
        within_post=int(np.count_nonzero(post <= tau)),
        compliant_pre=compliant[0],
        compliant_post=compliant[1],
        mean_pre=mean(pre),
        mean_post=mean(post),
        mean_squares=(mean(pre**2), mean(post**2), mean((post - pre) ** 2)),
        evidence=(identical, *(evidence or (canonical - identical, 0))),
        pairs=tuple(sorted(zip(pre.tolist(), post.tolist(), strict=True))) if few else None,
    )


def details(tally: Tally) -> dict[str, Any]:
    """What is reported beyond the protocol: measured pre-repair share, evidence, compliance, intervals."""
    n = tally.n
    reached = np.cumsum(tally.evidence)
    return {
        "R_anchor_pre_measured": _share(tally.canonical_pre, n),
        "r_anchor": {level: _share(int(count), n) for level, count in zip(EVIDENCE, reached, strict=True)},
        "evidence_counts": {
            **dict(zip(EVIDENCE, tally.evidence, strict=True)),
            "none": n - int(sum(tally.evidence)),
        },
        "compliant_pre": _share(tally.compliant_pre, n),
        "compliant_post": _share(tally.compliant_post, n),
        "intervals": _intervals(tally) if n else {},
    }


def _intervals(tally: Tally) -> dict[str, dict[str, Any]]:
    """Wilson's for shares; the bootstrap over samples (paired for differences) for means and deltas."""
    n = tally.n
    shares = {
        "R_anchor": tally.canonical_post,
        "R_anchor_pre_measured": tally.canonical_pre,
        "P_tau_pre": tally.within_pre,
        "P_tau_post": tally.within_post,
        "rescue_rate": tally.rescued,
    }
    found = {name: {**stats.wilson(hits, n).as_record(), "method": "wilson"} for name, hits in shares.items()}
    means = ("mu_pre", "mu_post", "delta_mu")
    if tally.pairs is not None:
        pre, post = (np.array(side) for side in zip(*tally.pairs, strict=True))
        values = (stats.bootstrap(pre), stats.bootstrap(post), stats.paired_bootstrap(post, pre))
        found |= {
            name: {**interval.as_record(), "method": "bootstrap"}
            for name, interval in zip(means, values, strict=True)
        }
    else:
        estimates = (tally.mean_pre, tally.mean_post, tally.mean_post - tally.mean_pre)
        for name, estimate, square in zip(means, estimates, tally.mean_squares, strict=True):
            found[name] = {**_normal(estimate, square, n).as_record(), "method": "normal"}
    improved = tally.within_post - tally.within_pre
    found["delta_P_tau"] = {**_paired_share(improved, n).as_record(), "method": "bootstrap"}
    gained = tally.canonical_post - tally.canonical_pre
    found["delta_R_anchor_measured"] = {**_paired_share(gained, n).as_record(), "method": "bootstrap"}
    return found


def _paired_share(gained: int, n: int) -> stats.Interval:
    """Bootstrap of a paired difference of shares that only rises: of `gained` ones among `n`, drawn directly.

    Repair is monotone, so a sample's difference is 0 or 1 and the mean of a resample is binomial.
    """
    if n == 1:
        return stats.Interval(float(gained), float(gained), float(gained))
    draws = np.random.default_rng(0).binomial(n, gained / n, size=2000) / n
    low, high = np.quantile(draws, (0.025, 0.975))
    return stats.Interval(gained / n, float(low), float(high))


def _normal(estimate: float, mean_square: float, n: int) -> stats.Interval:
    spread = 1.959963984540054 * math.sqrt(max(0.0, mean_square - estimate * estimate) / n)
    return stats.Interval(estimate, estimate - spread, estimate + spread)


def _share(count: int, n: int) -> float:
    return count / n if n else 0.0
