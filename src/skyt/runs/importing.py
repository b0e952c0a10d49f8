"""`homeostat code contracts import`: files of tasks to a folder of contracts whose references pass them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
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
    """What was written, what was not, with the reason, and what was written with something less."""

    folder: Path
    written: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)


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
            for found, note, why in _checked((f for f in batch if isinstance(f, Imported)), pool):
                where = f"{found.where} ({found.contract.id})"
                if why:
                    report.problems.append(Problem(where, f"the reference does not pass: {why}"))
                    continue
                report.notes += [Problem(where, note)] if note else []
                report.written.append(write_contract(found.contract, folder))
            bar.advance(len(batch))
    return report


def _checked(batch: Iterable[Imported], pool: SandboxPool) -> Iterator[tuple[Imported, str, str]]:
    """Each contract, what it had to give up to be one, and what keeps its reference from passing it."""
    with ThreadPoolExecutor(pool.workers) as threads:
        tried = list(threads.map(lambda found: _tried(found, pool), batch))
    verdicts = Oracle(pool).check_many([(found.reference, found.contract) for found, _, _ in tried])
    for (found, note, raised), verdict in zip(tried, verdicts, strict=True):
        yield found, note, ("; ".join(verdict.failures) or raised) if found.reference else ""


def _tried(found: Imported, pool: SandboxPool) -> tuple[Imported, str, str]:
    """The contract without listed inputs whose results no program could show; where its reference raises.

    Such a reference would make every program right that raises, too.
    """
    contract, entry = found.contract, found.contract.entry_point
    calls = [Call.of(given) for given in contract.oracle.inputs]
    if not calls:
        return found, "", ""
    results = pool.run(found.reference, entry, calls, pool.limits.lasting(contract.oracle.seconds))
    for call, result in zip(calls, results, strict=True):
        if result.kind != "value":
            return found, "", f"{short(call.show(entry.name))} {result.show()}"
    kept = [at for at, result in enumerate(results) if not result.too_large]
    if not 0 < len(kept) < len(calls):
        return found, "", ""
    oracle = contract.oracle.model_copy(update={"inputs": tuple(contract.oracle.inputs[at] for at in kept)})
    first = next(call for call, result in zip(calls, results, strict=True) if result.too_large)
    note = (
        f"imported without {len(calls) - len(kept)} of {len(calls)} inputs whose results are too large to "
        f"compare, such as {short(first.show(entry.name))}"
    )
    return replace(found, contract=contract.model_copy(update={"oracle": oracle})), note, ""
