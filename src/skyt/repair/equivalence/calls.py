"""The calls on which two programs are compared.

Oracle cases and the contract's generated inputs (boundary, structure-aware, random, mutated), then calls
outside the domain. `constants` adds calls made from what the two programs write down.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from skyt.contracts.contract import Case, Contract
from skyt.contracts.domain import Call, Operation, generate_inputs, generate_outside

OUTSIDE = 60


@dataclass(frozen=True)
class Battery:
    """Calls inside the domain, in the order in which they are tried, and calls outside."""

    inside: tuple[Call, ...]
    outside: tuple[Call, ...]


@lru_cache(maxsize=64)
def _shared(key: str, n: int, seed: int, holder: _Holder) -> tuple[tuple[Call, ...], tuple[Call, ...]]:
    contract = holder.contract
    cases = tuple(_call(case) for case in contract.oracle.cases)
    listed = tuple(_call(case) for case in contract.out_of_domain.calls)
    inside = (*cases, *generate_inputs(contract, n, seed))
    return inside, (*listed, *generate_outside(contract, OUTSIDE, seed))


@dataclass(frozen=True)
class _Holder:
    """A contract as part of a cache key, by its hash."""

    contract: Contract

    def __hash__(self) -> int:
        return hash(self.contract.hash)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Holder) and other.contract.hash == self.contract.hash


def battery(contract: Contract, n: int, seed: int) -> Battery:
    """At least `n` generated calls; the same for the same contract, number and seed."""
    inside, outside = _shared(contract.hash, n, seed, _Holder(contract))
    return Battery(inside, outside)


def _call(case: Case) -> Call:
    operations = case.operations
    ops = None if operations is None else tuple(Operation(op.method, tuple(op.args)) for op in operations)
    return Call(tuple(case.args), {}, ops)
