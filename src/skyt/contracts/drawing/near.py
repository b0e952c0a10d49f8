"""Calls near those that a contract lists: arguments of two of them together, or one value changed a little.

Listed inputs look like what the prompt speaks of, and keep preconditions that chance seldom meets.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

from skyt.contracts.contract import Contract
from skyt.contracts.domain import Call


def near(contract: Contract, seed: int) -> Iterator[Call]:
    """Calls near the listed inputs of a function, without end; the same for the same seed."""
    given = [given.args for given in contract.oracle.inputs if not given.kwargs]
    rng = random.Random(f"near:{contract.id}:{seed}")
    while given:
        arguments = list(rng.choice(given))
        for at in range(len(arguments)):
            if len(arguments) > 1 and rng.random() < 0.3:
                other = rng.choice(given)
                arguments[at] = other[at] if at < len(other) else arguments[at]
            if rng.random() < (0.9 if len(arguments) == 1 else 0.5):
                for _ in range(rng.choice((1, 1, 2, 3))):
                    arguments[at] = _changed(arguments[at], rng)
        yield Call(tuple(arguments))


def _changed(value: Any, rng: random.Random) -> Any:
    """A value of the same type, one small step away."""
    if type(value) is bool:
        return rng.random() < 0.5
    if type(value) is int:
        return value + rng.choice((-2, -1, -1, 1, 1, 2, 10, -value, value, -(value // 2)))
    if type(value) is float and math.isfinite(value):
        return rng.choice(
            (value + 1.0, value - 1.0, value * 0.5, -value, float(round(value)), round(value, 1))
        )
    if type(value) is str:
        return "".join(_rearranged(list(value), rng))
    if type(value) is list or type(value) is tuple:
        return type(value)(_rearranged(list(value), rng))
    if type(value) in (set, frozenset) and value:
        return type(value)(_rearranged(sorted(value, key=repr), rng))
    if type(value) is dict and value:
        key = rng.choice(list(value))
        if rng.random() < 0.3:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: _changed(value[key], rng)}
    return value


def _rearranged(items: list[Any], rng: random.Random) -> list[Any]:
    """One item repeated, dropped, moved or changed, or a stretch of them repeated, reversed or left out."""
    if not items:
        return items
    at, other = sorted((rng.randrange(len(items)), rng.randrange(len(items))))
    match rng.randrange(7):
        case 0:
            items.insert(other, items[at])
        case 1:
            del items[at]
        case 2:
            items[at], items[other] = items[other], items[at]
        case 3 if type(items[at]) is not str or len(items[at]) > 1:
            items[at] = _changed(items[at], rng)
        case 4:
            items[at:other] = reversed(items[at:other])
        case 5:
            items = items[at:] if rng.random() < 0.5 else items[:other]
        case _:
            items[at:at] = items[at:other][: max(1, 40 - len(items))]
    return items
