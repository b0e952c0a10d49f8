"""Distances between normalised programs: 0.0 for the same text, at most 1.0, never 0.0 for different texts.

A distance is a named, versioned function; its version is in every run's metrics. `levenshtein` is the
definition; beyond `EXACT_CELLS` of dynamic programming it gives an upper bound and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from rapidfuzz.distance import Levenshtein

from homeostat.core.errors import UserError, nearest

EXACT_CELLS = 4_000_000_000  # len(a) * len(b): about a second of rapidfuzz's bit-parallel algorithm
MAX_MEASURED_CHARS = 1_000_000  # of the longer text; beyond, the bound is 1
_CHUNK = 20_000  # characters per side in the bounded form


@dataclass(frozen=True)
class Measured:
    """A distance and how it was found: `exact`, or `upper_bound` where the texts were too long for that."""

    d: float
    method: str = "exact"


DistanceFunction = Callable[[str, str], Measured]


@dataclass(frozen=True)
class Distance:
    """A distance with the name and version that records carry."""

    name: str
    version: str
    function: DistanceFunction

    @property
    def id(self) -> str:
        return f"{self.name}-{self.version}"

    def __call__(self, a: str, b: str) -> Measured:
        if a == b:
            return Measured(0.0)
        if not a or not b:
            return Measured(1.0)
        return self.function(a, b)


def _levenshtein(a: str, b: str) -> Measured:
    """Edits divided by the longer length; by pieces, as an upper bound, when the texts are very long."""
    longest = max(len(a), len(b))
    if longest > MAX_MEASURED_CHARS:
        return Measured(1.0, "upper_bound")
    if len(a) * len(b) <= EXACT_CELLS:
        return Measured(Levenshtein.distance(a, b) / longest)
    return Measured(min(1.0, _edits_by_pieces(a, b) / longest), "upper_bound")


def _edits_by_pieces(a: str, b: str) -> int:
    """Edits of an alignment that respects a common grid of cuts: never fewer than the true number.

    Common ends are cut off first, which changes nothing. What is left is cut at the same fractions of both
    texts, and each pair of pieces is aligned exactly.
    """
    head = _common_prefix(a, b)
    a, b = a[head:], b[head:]
    tail = _common_prefix(a[::-1], b[::-1])
    a, b = a[: len(a) - tail], b[: len(b) - tail]
    pieces = max(1, -(-max(len(a), len(b)) // _CHUNK))
    cut = [(i * len(a) // pieces, i * len(b) // pieces) for i in range(pieces + 1)]
    return sum(Levenshtein.distance(a[i:k], b[j:m]) for (i, j), (k, m) in pairwise(cut))


def _common_prefix(a: str, b: str) -> int:
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


_REGISTRY: dict[str, Distance] = {}
# Different texts that a distance may take for equal, or for farther apart than anything.
_PROBES = (
    *(("x = 1", "x = 2"), ("x = 1", "X = 1"), ("x = 1", "x  = 1"), ("x", "x = 1\ny = 2"), ("xy", "yx")),
    ("return a", "def f(a, b):\n    while b:\n        a, b = (b, a % b)\n    return a"),
)


def register(distance: Distance) -> Distance:
    """Make a distance available by name in configurations, if it is one; a name is taken once."""
    if distance.name in _REGISTRY:
        raise UserError(f"distance {distance.name!r} is registered already: choose another name")
    for a, b in _PROBES:
        there, back = distance(a, b).d, distance(b, a).d
        if not 0.0 < there <= 1.0:
            raise UserError(
                f"distance {distance.name!r} puts {a!r} and {b!r} {there} apart: different texts are more "
                f"than 0 and at most 1 apart"
            )
        if there != back:
            raise UserError(
                f"distance {distance.name!r} is not symmetric: {there} from {a!r} to {b!r}, and {back} back"
            )
    _REGISTRY[distance.name] = distance
    return distance


def get_distance(name: str) -> Distance:
    if name not in _REGISTRY:
        raise UserError(f"unknown distance {name!r}; {nearest(name, _REGISTRY)}")
    return _REGISTRY[name]


LEVENSHTEIN = register(Distance("levenshtein", "1", _levenshtein))
