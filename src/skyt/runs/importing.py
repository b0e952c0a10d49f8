"""`homeostat code contracts import`: files of tasks to a folder of contracts whose references pass them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from homeostat.core.progress import progress
from skyt.contracts.domain import Call
from skyt.contracts.importers import Imported, Problem, read_tasks, read_tests, write_contract
from skyt.contracts.show import short
from skyt.oracle.oracle import Oracle
from skyt.sandbox import SandboxPool
from skyt.sandbox.pool import MODULES

_AT_ONCE = 32  # contracts whose inputs and results are held at the same time


@dataclass
class ImportReport:
    """What was written, and what was not, with the reason."""

    folder: Path
    written: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def import_contracts(
    file: Path,
    folder: Path,
    *,
    function: str | None = None,
    workers: int = 1,
    allow_uncontained: bool = False,
) -> ImportReport:
    """Write a contract for every task of a file whose reference passes it; the others are problems.

    With `function`, `file` holds tests, and there is one contract: that of the function.
    """
    report = ImportReport(folder)
    tasks = read_tasks(file) if function is None else iter(read_tests(file, function, MODULES))
    with (
        SandboxPool(workers, allow_uncontained=allow_uncontained) as pool,
        progress("importing", total=None, unit="tasks") as bar,
    ):
        while batch := list(islice(tasks, _AT_ONCE)):
            report.problems += [found for found in batch if isinstance(found, Problem)]
            for imported, problem in _checked((f for f in batch if isinstance(f, Imported)), pool):
                if problem is None:
                    report.written.append(write_contract(imported.contract, folder))
                else:
                    report.problems.append(problem)
            bar.advance(len(batch))
    return report


def _checked(batch: Iterable[Imported], pool: SandboxPool) -> Iterator[tuple[Imported, Problem | None]]:
    """Each contract with what keeps its reference from passing it."""
    contracts = list(batch)
    verdicts = Oracle(pool).check_many([(found.reference, found.contract) for found in contracts])
    for found, verdict in zip(contracts, verdicts, strict=True):
        why = "; ".join(verdict.failures) or _raised(found, pool)
        problem = Problem(f"{found.where} ({found.contract.id})", f"the reference does not pass: {why}")
        yield found, problem if found.reference and why else None


def _raised(found: Imported, pool: SandboxPool) -> str:
    """The first listed input on which the reference raises: it would make every program right that does."""
    contract = found.contract
    calls = [Call.of(given) for given in contract.oracle.inputs]
    if not calls:
        return ""
    limits = pool.limits.lasting(contract.oracle.seconds)
    for call, result in zip(
        calls, pool.run(found.reference, contract.entry_point, calls, limits), strict=True
    ):
        if result.kind != "value":
            return f"{short(call.show(contract.entry_point.name))} {result.show()}"
    return ""
