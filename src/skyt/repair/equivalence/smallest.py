"""The smallest call on which two programs differ."""

from __future__ import annotations

from dataclasses import replace

from skyt.contracts.contract import Contract
from skyt.contracts.domain import Call
from skyt.oracle.properties import admitted
from skyt.repair.equivalence.compare import FAR_LIMITS, Counterexample
from skyt.sandbox.pool import SandboxPool
from skyt.sandbox.results import CallResult, same


def smallest_difference(
    code: str, canon: str, contract: Contract, example: Counterexample, pool: SandboxPool
) -> Counterexample:
    """The counterexample shrunk; itself where it is outside the domain or nothing smaller will do."""
    from skyt.contracts.drawing.smaller import smallest

    def results(call: Call) -> tuple[CallResult, CallResult]:
        first, second = (
            pool.run(program, contract.entry_point, [call], FAR_LIMITS, equality=contract.equality)[0]
            for program in (code, canon)
        )
        return first, second

    def differ(call: Call) -> bool:
        if not admitted(contract, [call], pool)[0]:
            return False
        got, wanted = results(call)
        return got.comparable and wanted.comparable and not same(got, wanted, contract.equality)

    if example.domain == "outside" or not differ(example.call):
        return example
    found = smallest(contract, example.call, differ)
    got, wanted = results(found)
    shown = found.show(contract.entry_point.name)
    return replace(example, call=found, shown=shown, program=got.show(), canon=wanted.show())
