"""Differential testing of a program against the canon, in the sandbox.

The result says on how many calls the two agreed and with which seed they were made, or gives the first call
that tells them apart. No difference found is evidence, not proof, and is recorded as such.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from skyt.contracts.contract import Contract
from skyt.contracts.domain import Call
from skyt.repair.equivalence.calls import battery, harvested
from skyt.sandbox.job import EncodedCalls, encode_calls
from skyt.sandbox.pool import SandboxPool
from skyt.sandbox.results import CallResult, same

EQUIVALENCE_VERSION = "1"
FIRST = 120  # calls tried before the rest: most different programs are found out here


@dataclass(frozen=True)
class Counterexample:
    """A call on which program and canon differ."""

    call: Call
    shown: str
    program: str
    canon: str
    domain: Literal["inside", "outside"]

    def as_record(self) -> dict[str, Any]:
        return {
            "call": self.call.to_json(),
            "shown": self.shown,
            "program": self.program,
            "canon": self.canon,
            "domain": self.domain,
        }


@dataclass(frozen=True)
class Equivalence:
    """What comparing two programs found.

    `equal`: no difference inside the domain, nor outside where the contract's policy binds. `outside` is a
    call outside the domain on which they differ although nothing is promised there (for the record, not
    against them). `undecided` counts calls on which neither program came to an end.
    """

    equal: bool
    inputs: int
    seed: int
    counterexample: Counterexample | None = None
    outside: Counterexample | None = None
    undecided: int = 0
    method: str = "differential testing"
    version: str = EQUIVALENCE_VERSION

    def as_record(self) -> dict[str, Any]:
        return {
            "equal": self.equal,
            "inputs": self.inputs,
            "seed": self.seed,
            "method": self.method,
            "version": self.version,
            "undecided": self.undecided,
            "counterexample": self.counterexample.as_record() if self.counterexample else None,
            "outside": self.outside.as_record() if self.outside else None,
        }


def compare(
    code: str,
    canon: str,
    contract: Contract,
    inputs: int = 1000,
    seed: int = 0,
    pool: SandboxPool | None = None,
) -> Equivalence:
    """Compare a program with the canon on at least `inputs` generated calls and the oracle's cases."""
    if pool is None:
        with SandboxPool(workers=1) as own:
            return compare(code, canon, contract, inputs, seed, own)
    calls = battery(contract, inputs, seed)
    special = harvested(contract, (code, canon), seed)
    reference = _Reference(canon, contract, pool)
    tried = undecided = 0
    for part in (special + list(calls.inside[:FIRST]), list(calls.inside[FIRST:])):
        encoded = encode_calls(part)
        expected = reference.results(encoded)
        results = pool.run(code, contract.entry_point, encoded)
        for call, got, wanted in zip(part, results, expected, strict=True):
            tried += 1
            if same(got, wanted):
                continue
            if not got.comparable and not wanted.comparable and got.kind == wanted.kind:
                undecided += 1
                continue
            return Equivalence(
                False, tried, seed, _example(call, got, wanted, contract, "inside"), None, undecided
            )
    outside = _first_outside(code, list(calls.outside), reference, contract, pool)
    binding = contract.out_of_domain.policy != "any"
    enough = undecided <= tried // 100
    return Equivalence(
        equal=enough and not (binding and outside is not None),
        inputs=tried,
        seed=seed,
        counterexample=outside if binding else None,
        outside=outside,
        undecided=undecided,
    )


def compare_many(
    pairs: Sequence[tuple[str, str, Contract]], pool: SandboxPool, inputs: int = 1000, seed: int = 0
) -> list[Equivalence]:
    """Compare many pairs, in order, on all workers of the pool."""
    with ThreadPoolExecutor(pool.workers) as threads:
        return list(threads.map(lambda p: compare(p[0], p[1], p[2], inputs, seed, pool), pairs))


def _first_outside(
    code: str, calls: list[Call], reference: _Reference, contract: Contract, pool: SandboxPool
) -> Counterexample | None:
    if not calls:
        return None
    encoded = encode_calls(calls)
    for call, got, wanted in zip(
        calls, pool.run(code, contract.entry_point, encoded), reference.results(encoded), strict=True
    ):
        if not same(got, wanted) and (got.comparable or wanted.comparable):
            return _example(call, got, wanted, contract, "outside")
    return None


def _example(
    call: Call, got: CallResult, wanted: CallResult, contract: Contract, domain: Literal["inside", "outside"]
) -> Counterexample:
    return Counterexample(call, call.show(contract.entry_point.name), got.show(), wanted.show(), domain)


class _Reference:
    """The canon's results, computed once for each list of calls in this process."""

    _known: dict[tuple[str, str, str], list[CallResult]] = {}  # noqa: RUF012 - shared on purpose, see below
    _lock = threading.Lock()
    _most = 256

    def __init__(self, canon: str, contract: Contract, pool: SandboxPool) -> None:
        self.canon, self.contract, self.pool = canon, contract, pool

    def results(self, calls: EncodedCalls) -> list[CallResult]:
        key = (self.contract.hash, _digest(self.canon.encode()), _digest(calls.data))
        with self._lock:
            known = self._known.get(key)
        if known is None:
            known = self.pool.run(self.canon, self.contract.entry_point, calls)
            with self._lock:
                if len(self._known) >= self._most:
                    self._known.clear()
                self._known[key] = known
        return known


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
