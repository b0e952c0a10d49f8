"""Between what the calls of a comparison lay: beyond it, the record of an equality promises nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from skyt.contracts.contract import Contract
from skyt.contracts.domain import Call, bound

_BULK = 50  # one in so many at each end is told apart from the rest: listed cases may lie far out


def covered(contract: Contract, calls: Iterable[Call]) -> dict[str, str]:
    """For each parameter between what its numbers or sizes lay; for objects also the number of operations."""
    names = list(contract.domain.parameters)
    numbers: dict[str, list[float]] = {}
    sizes: dict[str, list[float]] = {}
    for call in calls:
        for name, value in zip(names, bound(contract, call), strict=False):
            _add(numbers, sizes, name, value)
        if call.operations is not None:
            _add(numbers, sizes, "operations", call.operations)
    told = {name: _between(values) for name, values in numbers.items()}
    for name, values in sizes.items():
        told[name] = "; ".join([*([told[name]] if name in told else []), f"size {_between(values)}"])
    return told


def _add(numbers: dict[str, list[float]], sizes: dict[str, list[float]], name: str, value: Any) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        numbers.setdefault(name, []).append(value)
    elif hasattr(value, "__len__"):
        sizes.setdefault(name, []).append(len(value))


def _between(values: list[float]) -> str:
    """Where nearly all values lie, and the least and the greatest where they are further out."""
    values = sorted(values)
    few = len(values) // _BULK
    low, high = values[few], values[-1 - few]
    outside = [value for value in (values[0], values[-1]) if not low <= value <= high]
    single = f", single ones at {' and '.join(map(_shown, outside))}" if outside else ""
    return f"{_shown(low)} to {_shown(high)}{single}"


def _shown(number: float) -> str:
    if not isinstance(number, int):
        return f"{number:.3g}"
    if abs(number) < 10**15:
        return str(number)
    return f"{'-' * (number < 0)}2^{abs(number).bit_length() - 1}"
