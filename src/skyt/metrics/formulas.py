"""The repeatability metrics of one set of samples, from tallies: the protocol's formulas and nothing else.

    R_raw = max count(sig) / N      R_anchor = count(d_post == 0) / N
    mu    = sum(d) / N              rescue   = count(d_pre > 0 and d_post == 0) / N
    P_tau = count(d <= tau) / N     delta X  = X_post - X_pre

`R_anchor_pre` is 0 by definition, so `delta_R_anchor = R_anchor`; the share that already was canonical before
repair is measured too, and reported as `R_anchor_pre_measured`. Sums are exact integers, so that no metric
depends on the order of the samples.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from homeostat.core import stats
from homeostat.core.errors import UserError

Array = NDArray[np.float64]
EVIDENCE = ("identical", "rewritten", "equivalent")  # from the strongest; what is not canonical has `none`
DEFAULT_TAU = 0.10
BOOTSTRAP_LIMIT = 2000  # samples; beyond this the mean's interval is the normal one, which it then equals
_LIMB = 1 << 30


def check_tau(tau: float) -> float:
    if not 0.0 <= tau <= 1.0:  # also refuses NaN
        raise UserError(
            f"tau = {tau}: a distance threshold lies between 0 and 1 (the default is {DEFAULT_TAU})"
        )
    return tau


@dataclass(frozen=True)
class ExactSum:
    """A sum of numbers in [0, 1] as an integer multiple of 2^-90: the same in any order of addition."""

    units: int = 0

    @classmethod
    def of(cls, limbs: Sequence[int]) -> ExactSum:
        high, middle, low = limbs
        return cls((int(high) * _LIMB + int(middle)) * _LIMB + int(low))

    def __add__(self, other: ExactSum) -> ExactSum:
        return ExactSum(self.units + other.units)

    def mean(self, n: int) -> float:
        """The correctly rounded mean; 0 for an empty set."""
        return float(Fraction(self.units, n * _LIMB**3)) if n else 0.0


def limbs(values: Array) -> tuple[Array, Array, Array]:
    """Numbers in [0, 1] cut into three whole numbers of 30 bits each; what lies below 2^-90 is dropped."""
    high = np.floor(values * _LIMB)
    rest = (values * _LIMB - high) * _LIMB
    middle = np.floor(rest)
    return high, middle, np.floor((rest - middle) * _LIMB)


def exact_sum(values: Array) -> ExactSum:
    return ExactSum.of([int(part.sum()) for part in limbs(values)])


@dataclass(frozen=True)
class Tally:
    """What a set of samples adds up to. Tallies of disjoint sets add, except for the modal count."""

    n: int = 0
    modal: int = 0
    canonical_pre: int = 0
    canonical_post: int = 0
    rescued: int = 0
    within_pre: int = 0
    within_post: int = 0
    compliant_pre: int = 0
    compliant_post: int = 0
    sum_pre: ExactSum = ExactSum()
    sum_post: ExactSum = ExactSum()
    squares: tuple[ExactSum, ExactSum, ExactSum] = (ExactSum(),) * 3  # of d_pre, d_post, d_post - d_pre
    evidence: tuple[int, int, int] = (0, 0, 0)  # canonical samples by EVIDENCE
    pairs: tuple[tuple[float, float], ...] | None = ()  # (d_pre, d_post), sorted; None when too many to keep

    def __add__(self, other: Tally) -> Tally:
        together = None
        if self.pairs is not None and other.pairs is not None and self.n + other.n <= BOOTSTRAP_LIMIT:
            together = tuple(sorted(self.pairs + other.pairs))
        return Tally(
            n=self.n + other.n,
            modal=self.modal + other.modal,
            canonical_pre=self.canonical_pre + other.canonical_pre,
            canonical_post=self.canonical_post + other.canonical_post,
            rescued=self.rescued + other.rescued,
            within_pre=self.within_pre + other.within_pre,
            within_post=self.within_post + other.within_post,
            compliant_pre=self.compliant_pre + other.compliant_pre,
            compliant_post=self.compliant_post + other.compliant_post,
            sum_pre=self.sum_pre + other.sum_pre,
            sum_post=self.sum_post + other.sum_post,
            squares=_add3(self.squares, other.squares),
            evidence=_add3(self.evidence, other.evidence),
            pairs=together,
        )


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
    mu_pre, mu_post = tally.sum_pre.mean(n), tally.sum_post.mean(n)
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
    if not signatures:
        return Tally()
    pre, post = np.asarray(d_pre, dtype=np.float64), np.asarray(d_post, dtype=np.float64)
    identical = int(np.count_nonzero(pre == 0.0))
    canonical = int(np.count_nonzero(post == 0.0))
    return Tally(
        n=len(signatures),
        modal=max(Counter(signatures).values()),
        canonical_pre=identical,
        canonical_post=canonical,
        rescued=int(np.count_nonzero((pre > 0.0) & (post == 0.0))),
        within_pre=int(np.count_nonzero(pre <= tau)),
        within_post=int(np.count_nonzero(post <= tau)),
        sum_pre=exact_sum(pre),
        sum_post=exact_sum(post),
        squares=(exact_sum(pre**2), exact_sum(post**2), exact_sum((post - pre) ** 2)),
        evidence=(identical, canonical - identical, 0),
        pairs=tuple(sorted(zip(d_pre, d_post, strict=True))) if len(d_pre) <= BOOTSTRAP_LIMIT else None,
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
        pre_mean, post_mean = tally.sum_pre.mean(n), tally.sum_post.mean(n)
        for name, mean, square in zip(
            means, (pre_mean, post_mean, post_mean - pre_mean), tally.squares, strict=True
        ):
            found[name] = {**_normal(mean, square.mean(n), n).as_record(), "method": "normal"}
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


def _normal(mean: float, mean_square: float, n: int) -> stats.Interval:
    spread = 1.959963984540054 * math.sqrt(max(0.0, mean_square - mean * mean) / n)
    return stats.Interval(mean, mean - spread, mean + spread)


def _share(count: int, n: int) -> float:
    return count / n if n else 0.0


def _add3(a: tuple[Any, Any, Any], b: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])
