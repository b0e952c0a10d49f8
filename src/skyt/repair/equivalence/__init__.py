"""Equivalence evidence: two programs that many calls cannot tell apart, or the call that does."""

from skyt.repair.equivalence.compare import (
    EQUIVALENCE_VERSION,
    Counterexample,
    Equivalence,
    compare,
    compare_many,
)

__all__ = ["EQUIVALENCE_VERSION", "Counterexample", "Equivalence", "compare", "compare_many"]
