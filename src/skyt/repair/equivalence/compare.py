"""Differential testing of a program against the canon, in the sandbox. What is equal, the contract says.

The result says on how many calls the two agreed and with which seed they were made, or gives the first call
that tells them apart. No difference found is evidence, not proof, and is recorded as such.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from skyt.contracts.contract import Contract
from skyt.contracts.defaults import DEFAULT_INPUTS
from skyt.contracts.domain import Call, affordable
from skyt.contracts.drawing.cache import drawn_with
from skyt.oracle.inputs import filtered
from skyt.repair.equivalence.branches import Explored, explored
from skyt.repair.equivalence.calls import battery
from skyt.repair.equivalence.constants import Harvest, harvested
from skyt.repair.equivalence.covered import covered
from skyt.sandbox.job import EncodedCalls, Job, Limits, encode_calls
from skyt.sandbox.pool import SandboxPool
from skyt.sandbox.results import CallResult, same

EQUIVALENCE_VERSION = "6"
FIRST = 120  # calls tried before the rest: most different programs are found out here
BASE = 40  # drawn calls into which constants are put
START = 60  # calls from which the search for branches starts
FAR_LIMITS = Limits(call_seconds=0.5, cpu_seconds=2.0)
MADE = 3  # at least one in so many of the planned calls must be made before the time for them is used up
_MORE = '{"w":"more"}'  # a generator that goes on where the harness stops
FAR_RESTARTS = 4  # calls without an end, each of which costs a process


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
    against them). `undecided` counts calls on which neither program came to an end. `from_constants` are the
    calls among `inputs` that the programs' constants suggested. `unreached` counts calls that are not held
    against either: those beyond the sizes that the contract generates on which a program did not end in time,
    and those for which both had no time left. `covered` says between what the calls lay. `branches` says how
    many outcomes of its tests each program reached; `from_branches` are the calls that were made for that.
    """

    equal: bool
    inputs: int
    seed: int
    counterexample: Counterexample | None = None
    outside: Counterexample | None = None
    undecided: int = 0
    from_constants: int = 0
    from_branches: int = 0
    branches: tuple[Explored, Explored] = (Explored(), Explored())
    unreached: int = 0
    covered: dict[str, str] = field(default_factory=dict)
    method: str = "differential testing"
    version: str = EQUIVALENCE_VERSION
    drawn_with: str = field(default_factory=drawn_with)

    @property
    def weak(self) -> bool:
        """Whether the calls leave more of one of the programs unseen than evidence should."""
        return self.equal and not all(found.enough for found in self.branches)

    def as_record(self) -> dict[str, Any]:
        program, canon = map(str, self.branches)
        return {
            "equal": self.equal,
            "weak": self.weak,
            "inputs": self.inputs,
            "from_constants": self.from_constants,
            "from_branches": self.from_branches,
            "branches": {"program": program, "canon": canon},
            "seed": self.seed,
            "method": self.method,
            "version": self.version,
            "drawn_with": self.drawn_with,
            "undecided": self.undecided,
            "unreached": self.unreached,
            "covered": self.covered,
            "counterexample": self.counterexample.as_record() if self.counterexample else None,
            "outside": self.outside.as_record() if self.outside else None,
        }


def compare(
    code: str,
    canon: str,
    contract: Contract,
    inputs: int = DEFAULT_INPUTS,
    seed: int = 0,
    pool: SandboxPool | None = None,
) -> Equivalence:
    """Compare a program with the canon on at least `inputs` generated calls and the oracle's cases."""
    if pool is None:
        with SandboxPool(workers=1) as own:
            return compare(code, canon, contract, inputs, seed, own)
    calls = battery(contract, inputs, seed, pool)
    made = harvested(contract, (code, canon), seed, calls.drawn[:BASE])
    made = Harvest(*(tuple(filtered(contract, list(some), pool)) for some in (made.near, made.far)))
    run = _Run(code, canon, contract, seed, pool)
    from_constants = 0
    for part in (calls.inside[:FIRST], made.near, calls.inside[FIRST:]):
        before = run.tried
        if found := run.told_apart(part):
            return found
        from_constants += (run.tried - before) * (part is made.near)
    first, second = (
        explored(text, contract, calls.inside[:START], calls.outside, pool) for text in (code, canon)
    )
    suggested = filtered(contract, [*first.calls, *second.calls], pool)
    near = [call for call in suggested if affordable(contract, call)]
    if found := run.told_apart(near):
        return found
    enough = run.undecided <= run.tried // 100 and run.tried >= run.unreached // (MADE - 1)
    before = run.tried
    if found := run.told_apart_far(made.far):
        return found
    from_constants += run.tried - before
    before = run.tried - len(near)
    if found := run.told_apart_far([call for call in suggested if call not in near]):
        return found
    if found := run.told_apart_elsewhere(calls.inside[:FIRST]):
        return found
    outside = _first_outside(code, list(calls.outside), run.reference, contract, pool)
    binding = contract.out_of_domain.policy != "any"
    return Equivalence(
        equal=enough and not (binding and outside is not None),
        inputs=run.tried,
        seed=seed,
        counterexample=outside if binding else None,
        outside=outside,
        undecided=run.undecided,
        from_constants=from_constants,
        from_branches=run.tried - before,
        branches=(first, second),
        unreached=run.unreached,
        covered=covered(contract, run.agreed) | ({"result": "the first 1000 items"} if run.cut else {}),
    )


class _Run:
    """The calls made so far to two programs."""

    def __init__(self, code: str, canon: str, contract: Contract, seed: int, pool: SandboxPool) -> None:
        self.code, self.contract, self.seed, self.pool = code, contract, seed, pool
        self.reference = _Reference(canon, contract, pool)
        self.limits = self.reference.limits
        self.tried = self.undecided = self.unreached = 0
        self.agreed: list[Call] = []
        self.cut = False  # whether a generator went on

    def told_apart(self, calls: Sequence[Call]) -> Equivalence | None:
        """The finding, if one of these calls shows a difference. What neither came to is not tried."""
        if not calls:
            return None
        encoded = encode_calls(calls)
        equality = self.contract.equality
        entry = self.contract.entry_point
        results = self.pool.run(self.code, entry, encoded, self.limits, equality=equality)
        for call, got, wanted in zip(calls, results, self.reference.results(encoded), strict=True):
            if got.kind == wanted.kind == "unrun":
                self.unreached += 1
                continue
            self.tried += 1
            self.cut = self.cut or _MORE in got.text
            if same(got, wanted, equality):
                self.agreed.append(call)
                continue
            if not got.comparable and not wanted.comparable and got.kind == wanted.kind:
                self.undecided += 1
                continue
            return self._refuted(call, got, wanted)
        return None

    def told_apart_elsewhere(self, calls: Sequence[Call]) -> Equivalence | None:
        """The same in another process, as a user would run the program, with a hash seed that nobody knows:
        the program must agree with itself there, and no result may change after it was given."""
        encoded, equality = encode_calls(calls), self.contract.equality
        job = Job(self.code, self.contract.entry_point, encoded, equality, apart=True)
        *results, seen = self.pool.run_job(job, self.limits)
        for call, got, wanted in zip(calls, results, self.reference.results(encoded), strict=True):
            if got.comparable and wanted.comparable and not same(got, wanted, equality):
                return self._refuted(call, got, wanted)
        if '"changed",true' in seen.text:
            return self._refuted(calls[0], CallResult("crash", "its result changes later"), results[0])
        return None

    def told_apart_far(self, calls: Sequence[Call]) -> Equivalence | None:
        """The same beyond the sizes that the contract generates, where a program may take for ever: such
        calls are left out, and so is the rest when there are several of them."""
        entry, equality, left = self.contract.entry_point, self.contract.equality, list(calls)
        for _ in range(FAR_RESTARTS):
            if not left:
                return None
            encoded = encode_calls(left)
            pairs = zip(
                self.pool.run(self.code, entry, encoded, FAR_LIMITS, equality=equality),
                self.pool.run(self.reference.canon, entry, encoded, FAR_LIMITS, equality=equality),
                strict=True,
            )
            ended = 0
            for call, (got, wanted) in zip(left, pairs, strict=True):
                if not (got.comparable and wanted.comparable):
                    break
                self.tried += 1
                if not same(got, wanted, equality):
                    return self._refuted(call, got, wanted)
                self.agreed.append(call)
                ended += 1
            self.unreached += ended < len(left)
            left = left[ended + 1 :]
        self.unreached += len(left)
        return None

    def _refuted(self, call: Call, got: CallResult, wanted: CallResult) -> Equivalence:
        example = _example(call, got, wanted, self.contract, "inside")
        return Equivalence(
            False, self.tried, self.seed, example, undecided=self.undecided, unreached=self.unreached
        )


def compare_many(
    pairs: Sequence[tuple[str, str, Contract]], pool: SandboxPool, inputs: int = DEFAULT_INPUTS, seed: int = 0
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
    limits = reference.limits
    results = pool.run(code, contract.entry_point, encoded, limits, equality=contract.equality)
    for call, got, wanted in zip(calls, results, reference.results(encoded), strict=True):
        if not same(got, wanted, contract.equality) and (got.comparable or wanted.comparable):
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
        self.limits = pool.limits.lasting(contract.oracle.seconds)

    def results(self, calls: EncodedCalls) -> list[CallResult]:
        key = (self.contract.hash, _digest(self.canon.encode()), _digest(calls.data))
        with self._lock:
            known = self._known.get(key)
        if known is None:
            contract = self.contract
            entry, equality = contract.entry_point, contract.equality
            known = self.pool.run(self.canon, entry, calls, self.limits, equality=equality)
            with self._lock:
                if len(self._known) >= self._most:
                    self._known.clear()
                self._known[key] = known
        return known


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
