"""Calls near those that a contract lists: arguments of two of them together, or one value changed a little.

Listed inputs look like what the prompt speaks of, and keep preconditions that chance seldom meets.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from skyt.contracts.contract import Contract
from skyt.contracts.domain import Call
from skyt.contracts.kinds.kind import VALUES


def near(contract: Contract, seed: int) -> Iterator[Call]:
    """Calls near the listed inputs of a function, without end; the same for the same seed."""
    listed = [call.args for call in contract.oracle.inputs if not call.kwargs]
    rng = random.Random(f"near:{contract.id}:{seed}")
    while listed:
        arguments = list(rng.choice(listed))
        for at in range(len(arguments)):
            if len(arguments) > 1 and rng.random() < 0.3:
                other = rng.choice(listed)
                arguments[at] = other[at] if at < len(other) else arguments[at]
            if rng.random() < (0.9 if len(arguments) == 1 else 0.5):
                for _ in range(rng.choice((1, 1, 2, 3))):
                    arguments[at] = _varied(arguments[at], rng)
        yield Call(tuple(arguments))


def _varied(value: Any, rng: random.Random) -> Any:
    """A value of the same type, one small step away; what is of no kind stays as it is."""
    kind = VALUES.get(type(value))
    return value if kind is None else kind.varied(value, rng, lambda inner: _varied(inner, rng))
