"""Generated calls that keep the whole domain: drawn inside the types and bounds, then filtered by the
precondition, which is source code and therefore runs in the sandbox."""

from __future__ import annotations

from typing import Any

from skyt.contracts.contract import Contract
from skyt.contracts.domain import Call, generate_inputs
from skyt.oracle.properties import admitted
from skyt.sandbox.pool import SandboxPool

_FACTORS = (2, 6)  # how many calls are drawn for each one that is wanted
_AT_ONCE = 2000
_KNOWN: dict[tuple[str, int, int], list[Call]] = {}


def inputs(contract: Contract, n: int, seed: int, pool: SandboxPool) -> list[Call]:
    """At most `n` calls of which the precondition is true; fewer where it seldom is."""
    if contract.domain.where is None:
        return generate_inputs(contract, n, seed)
    key = (contract.hash, n, seed)
    if key not in _KNOWN:
        kept: list[Call] = []
        for factor in _FACTORS if n else ():
            drawn = generate_inputs(contract, n * factor, seed)
            distinct = list({repr(call): call for call in drawn}.values())
            kept = filtered(contract, distinct, pool)[:n]
            if len(kept) == n or len(distinct) < len(drawn):
                break
        _KNOWN[key] = kept
    return _KNOWN[key]


def telling(calls: list[Call], count: int) -> list[Call]:
    """The first calls, which examples tend to be, and then the largest: one of those finds out at once that a
    program takes for ever, and many smaller ones only slowly."""
    first = calls[: count // 2]
    return first + sorted(calls[count // 2 :], key=lambda call: -_extent(call.args))[: count - len(first)]


def _extent(value: Any) -> int:
    """The largest number or length inside a value."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return max([len(value), *map(_extent, value.values())])
    if isinstance(value, list | tuple | set | frozenset):
        return max([len(value), *map(_extent, value)])
    return abs(int(value)) if isinstance(value, int | float) and abs(value) < 1e300 else 0


def filtered(contract: Contract, calls: list[Call], pool: SandboxPool) -> list[Call]:
    """The calls of which the precondition is true."""
    if contract.domain.where is None:
        return calls
    kept: list[Call] = []
    for at in range(0, len(calls), _AT_ONCE):
        some = calls[at : at + _AT_ONCE]
        kept += [call for call, good in zip(some, admitted(contract, some, pool), strict=True) if good]
    return kept
