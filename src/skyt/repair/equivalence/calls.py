"""The calls on which two programs are compared.

Oracle cases, the contract's inputs and generated calls (edges first), then calls outside the domain.
`constants` adds calls made from what the two programs write down.
"""

from __future__ import annotations

from dataclasses import dataclass

from skyt.contracts.contract import Contract
from skyt.contracts.domain import Call, generate_outside
from skyt.oracle.inputs import inputs
from skyt.sandbox.pool import SandboxPool

OUTSIDE = 60


@dataclass(frozen=True)
class Battery:
    """Calls inside the domain, in the order in which they are tried, and calls outside."""

    inside: tuple[Call, ...]
    outside: tuple[Call, ...]
    drawn: tuple[Call, ...]


_KNOWN: dict[tuple[str, int, int], Battery] = {}


def battery(contract: Contract, n: int, seed: int, pool: SandboxPool) -> Battery:
    """The listed calls and `n` drawn ones; the same for the same contract, number and seed."""
    key = (contract.hash, n, seed)
    if key not in _KNOWN:
        if len(_KNOWN) >= 64:
            _KNOWN.clear()
        oracle = contract.oracle
        listed = [Call.of(given) for given in (*oracle.cases, *oracle.inputs)]
        outside = [Call.of(case) for case in contract.out_of_domain.calls]
        drawn = inputs(contract, n, seed, pool)
        beyond = generate_outside(contract, OUTSIDE, seed)
        _KNOWN[key] = Battery((*listed, *drawn), (*outside, *beyond), tuple(drawn))
    return _KNOWN[key]
