"""`homeostat code contracts check`: how many small changes to the reference a contract's oracle notices.

Every mutant of the reference is judged. One that is accepted is compared with the reference on inputs that
the judging did not use: where a call tells the two apart, the oracle has missed it; where none does, the
mutant may well be the same program and is not counted.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.progress import progress
from skyt.contracts.contract import Contract
from skyt.oracle.oracle import Oracle, Verdict
from skyt.repair.equivalence import compare_many
from skyt.sandbox import SandboxPool
from skyt.sandbox.results import outcome
from skyt.text.mutants import mutants
from skyt.text.normalise import normalise
from skyt.text.parsing import parse

WEAK_BELOW = 0.9  # share of the mutants that behave differently which the oracle must reject
FILE = "strength.json"
_SEED = 17  # not the one of the oracle's own inputs


@dataclass
class Strength:
    """What became of the mutants of one contract's reference."""

    contract_id: str
    contract_hash: str
    problem: str = ""  # why there is nothing to say: no reference, or one that fails
    rejected: int = 0
    missed: int = 0
    alike: int = 0
    differences: list[str] = field(default_factory=list)  # of the missed ones, the shortest call first

    @property
    def score(self) -> float | None:
        told = self.rejected + self.missed
        return self.rejected / told if told else None

    @property
    def weak(self) -> bool:
        return bool(self.problem) or self.score is None or self.score < WEAK_BELOW


def check_contracts(
    contracts: Mapping[str, Contract], pool: SandboxPool, *, count: int = 20, inputs: int = 300
) -> list[Strength]:
    """The strength of each contract, from so many mutants of its reference each."""
    oracle, found = Oracle(pool), []
    with progress("checking", total=len(contracts), unit="contracts") as bar:
        for contract in contracts.values():
            found.append(_strength(contract, oracle, pool, count, inputs))
            bar.advance()
    return found


def keep(found: list[Strength], folder: Path) -> Path:
    """Write what was found beside the contracts, where runs and reports look for it."""
    path = folder / FILE
    rows = {s.contract_id: {**asdict(s), "score": s.score, "weak": s.weak} for s in found}
    atomic.write_json(path, rows)
    return path


def weak_contracts(folder: Path | None, used: Mapping[str, Contract]) -> dict[str, str]:
    """Which of the contracts in use `contracts check` found to be weak, as they are now, and why."""
    path = None if folder is None else folder / FILE
    if path is None or not path.is_file():
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: row["problem"] or f"{row['rejected']} of {row['rejected'] + row['missed']} mutants rejected"
            for name, row in rows.items()
            if name in used and row["contract_hash"] == used[name].hash and row["weak"]
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        how = "write it anew with `homeostat code contracts check`"
        raise UserError(f"{path} cannot be read; {how}") from None


def reference_of(contract: Contract) -> str | None:
    """The source of a contract's reference: its solution, or what a property has in its place."""
    if contract.oracle.solution:
        return contract.oracle.solution
    for prop in contract.oracle.properties:
        for source in (prop.reference, *(prop.readings or {}).values(), prop.setup):
            if source and contract.entry_point.name in _defined(source):
                return source
    return None


def _strength(contract: Contract, oracle: Oracle, pool: SandboxPool, count: int, inputs: int) -> Strength:
    strength = Strength(contract.id, contract.hash)
    reference = reference_of(contract)
    if reference is None:
        strength.problem = "it has no reference to change"
        return strength
    verdict = oracle.check(reference, contract)
    if not verdict.compliant:
        strength.problem = f"its reference is rejected: {_first(verdict)}"
        return strength
    original = normalise(reference).text
    changed = [(mutant, contract) for mutant in mutants(original, count, _SEED)]
    verdicts = oracle.check_many(changed)
    strength.rejected = sum(not verdict.compliant for verdict in verdicts)
    accepted = [mutant for (mutant, _), verdict in zip(changed, verdicts, strict=True) if verdict.compliant]
    pairs = [(mutant, original, contract) for mutant in accepted]
    differences = []
    for result in compare_many(pairs, pool, inputs, _SEED):
        example: Any = result.counterexample
        if example is None:
            strength.alike += 1
            continue
        differences.append(
            f"{example.shown} {outcome(example.program)}; the reference {outcome(example.canon)}"
        )
    strength.missed = len(differences)
    strength.differences = sorted(differences, key=lambda line: (len(line), line))
    return strength


def _first(verdict: Verdict) -> str:
    return verdict.failures[0] if verdict.failures else "no reason given"


def _defined(source: str) -> set[str]:
    return {node.name for node in parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
