"""The statistics both systems report: thin over scipy and statsmodels, so that the method has a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval."""

    estimate: float
    low: float
    high: float
    level: float = 0.95

    def as_record(self) -> dict[str, float]:
        return asdict(self)


def auc(x: ArrayLike, y: ArrayLike) -> float:
    """Area under a curve by the trapezoid rule; `x` must increase."""
    xs, ys = _vector(x, "x"), _vector(y, "y")
    if xs.shape != ys.shape:
        raise ValueError(f"x has {xs.size} points and y has {ys.size}")
    if np.any(np.diff(xs) <= 0):
        raise ValueError("x must increase")
    return float(np.trapezoid(ys, xs))


def bootstrap(
    values: ArrayLike,
    statistic: Callable[..., Any] = np.mean,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap of a statistic over examples. `statistic` takes an array and an `axis`."""
    return _bootstrap((_vector(values, "values"),), statistic, level, resamples, seed)


def paired_bootstrap(
    a: ArrayLike,
    b: ArrayLike,
    statistic: Callable[..., Any] | None = None,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap over pairs; by default of the mean difference `a - b`."""
    first, second = _vector(a, "a"), _vector(b, "b")
    if first.shape != second.shape:
        raise ValueError(f"pairs need equal lengths, not {first.size} and {second.size}")
    return _bootstrap((first, second), statistic or _mean_difference, level, resamples, seed)


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
    """Wilson's score interval for a proportion; [0, 1] when there are no trials."""
    if not 0 <= successes <= n:
        raise ValueError(f"successes = {successes} of n = {n}: not a proportion")
    if n == 0:
        return Interval(0.0, 0.0, 1.0, level)
    from scipy.stats import binomtest

    found = binomtest(successes, n).proportion_ci(confidence_level=level, method="wilson")
    return Interval(successes / n, float(found.low), float(found.high), level)


def fisher_exact(a_hits: int, a_misses: int, b_hits: int, b_misses: int) -> float:
    """Two-sided p-value that two proportions differ."""
    from scipy import stats

    return float(stats.fisher_exact(np.array([[a_hits, a_misses], [b_hits, b_misses]])).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment for many tests, in the order given."""
    if not p_values:
        return []
    from statsmodels.stats.multitest import multipletests

    return [float(p) for p in multipletests(list(p_values), method="holm")[1]]


def _bootstrap(
    samples: tuple[Array, ...], statistic: Callable[..., Any], level: float, resamples: int, seed: int
) -> Interval:
    estimate = float(statistic(*samples, axis=-1))
    if samples[0].size == 1:  # one example says nothing about spread
        return Interval(estimate, estimate, estimate, level)
    from scipy import stats

    found = stats.bootstrap(
        samples,
        statistic,
        paired=len(samples) > 1,
        vectorized=True,
        confidence_level=level,
        n_resamples=resamples,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(estimate, float(found.low), float(found.high), level)


def _mean_difference(a: Array, b: Array, axis: int = -1) -> Any:
    return np.mean(a - b, axis=axis)


def _vector(values: ArrayLike, name: str) -> Array:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(f"{name} must be a non-empty list of numbers, not an array of shape {vector.shape}")
    return vector
