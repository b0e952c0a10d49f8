"""One sample's way, `raw → code → normalised → verdict → repair`; each distinct program is done once.

An assessor holds the tools (sandbox pool, oracle, rules) and remembers results by contract and signature. The
batch pipeline fills it in parallel and then assembles rows from it; the middleware uses it call by call.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from homeostat.core.progress import progress
from skyt.canon import Canon, Versions
from skyt.contracts.contract import Contract
from skyt.oracle.oracle import ORACLE_VERSION, Oracle, Verdict
from skyt.repair.repair import MAX_ROUNDS, Approach, Repair, approach, repair
from skyt.repair.rules import RULES, Facts, NormalForm, normal_form
from skyt.runs.config import MeasureConfig
from skyt.sandbox import SandboxPool
from skyt.text.distance import Distance, get_distance
from skyt.text.extract import extract_code
from skyt.text.normalise import NORMALIZATION_VERSION, normalise
from skyt.text.signature import signature

V = TypeVar("V")
_REMEMBER = 200_000  # results of each kind
_AT_ONCE = 32  # programs before the oracle, for each worker


def versions() -> Versions:
    return Versions(NORMALIZATION_VERSION, ORACLE_VERSION)


@dataclass(frozen=True)
class Prepared:
    """A raw output as a normalised program."""

    text: str
    parsed: bool
    signature: str


def prepare(raw: str) -> Prepared:
    normalised = normalise(extract_code(raw))
    return Prepared(normalised.text, normalised.parsed, signature(normalised.text))


class Memory(OrderedDict[Hashable, V]):
    """Results by key; the oldest go when there are too many."""

    def remember(self, key: Hashable, compute: Callable[[], V]) -> V:
        if key not in self:
            self[key] = compute()
            if len(self) > _REMEMBER:
                self.popitem(last=False)
        return self[key]


class Assessor(AbstractContextManager["Assessor"]):
    """Everything needed to judge and repair programs of any contract. Use as a context manager."""

    def __init__(self, settings: MeasureConfig, workers: int = 1) -> None:
        self.settings = settings
        self.distance = get_distance(settings.distance)
        self.workers = workers
        self.pool = SandboxPool(workers=workers, allow_uncontained=settings.allow_uncontained)
        self.oracle = Oracle(self.pool)
        self._prepared: Memory[Prepared] = Memory()
        self._verdicts: Memory[Verdict] = Memory()
        self._forms: Memory[NormalForm] = Memory()
        self._approaches: Memory[Approach] = Memory()
        self._equivalences: Memory[dict[str, Any]] = Memory()
        self._repairs: Memory[Repair] = Memory()

    def __exit__(self, *exception: object) -> None:
        self.pool.close()

    def prepare(self, raw: str) -> Prepared:
        return self._prepared.remember(raw, lambda: prepare(raw))

    def verdict(self, contract: Contract, text: str) -> Verdict:
        return self._verdicts.remember((contract.id, text), lambda: self.oracle.check(text, contract))

    def normal_form(self, contract: Contract, text: str) -> NormalForm:
        facts = Facts.from_contract(contract)
        return self._forms.remember((contract.id, text), lambda: normal_form(text, facts))

    def approach(self, contract: Contract, text: str, canon: str) -> Approach:
        def compute() -> Approach:
            rules = self.normal_form(contract, text).rules
            facts = Facts.from_contract(contract)
            return approach(text, canon, rules, self.distance, partial(_apply, facts=facts))

        return self._approaches.remember((contract.id, text, canon), compute)

    def repair(self, contract: Contract, text: str, canon: Canon) -> Repair:
        return self._repairs.remember(
            (contract.id, text, canon.canon_signature),
            lambda: repair(text, canon.normalized_code, self.distance, _ContractTools(self, contract)),
        )

    def equivalence(self, contract: Contract, text: str, canon: str) -> dict[str, Any] | None:
        if self.settings.evidence != "equivalent":
            return None
        return self._equivalences.remember(
            (contract.id, text, canon), lambda: self._compare(contract, text, canon)
        )

    def _compare(self, contract: Contract, text: str, canon: str) -> dict[str, Any]:
        from skyt.repair.equivalence.store import compare_once

        settings = self.settings
        return compare_once([(text, canon, contract)], self.pool, settings.inputs, settings.seed)[0]

    def warm_prepared(self, raws: Iterable[str]) -> None:
        for raw in dict.fromkeys(raws):
            self.prepare(raw)

    def warm_verdicts(self, programs: Sequence[tuple[Contract, str]]) -> None:
        """Put all programs that have no verdict yet before the oracle at once: the pool works in parallel."""
        new = {
            (contract.id, text): (text, contract)
            for contract, text in programs
            if (contract.id, text) not in self._verdicts
        }
        if not new:
            return
        programs_of, size = list(new.items()), _AT_ONCE * self.workers
        with progress("judging", total=len(new), unit="programs") as bar:
            for at in range(0, len(new), size):
                some = programs_of[at : at + size]
                verdicts = self.oracle.check_many([program for _, program in some])
                self._verdicts.update(zip([key for key, _ in some], verdicts, strict=True))
                bar.advance(len(some))

    def warm_repairs(self, programs: Sequence[tuple[Contract, str, str]]) -> None:
        """Normal forms and approaches in worker processes, where there are enough to pay for starting them.

        `programs` are (contract, program, canon).
        """
        distinct = {(contract.id, text): (contract, text, canon) for contract, text, canon in programs}
        jobs = [job for key, job in distinct.items() if key not in self._forms]
        if self.workers < 2 or len(jobs) < 40:
            return
        from homeostat.core.engine import run_tasks

        size = max(1, len(jobs) // (self.workers * 8))
        batches = [(self.settings.distance, jobs[at : at + size]) for at in range(0, len(jobs), size)]
        for outcome in run_tasks(_rewrite_all, batches, workers=self.workers, label="rewriting"):
            for contract_id, canon, text, form, near in outcome.unwrap():
                self._forms[contract_id, text] = form
                if near is not None:
                    self._approaches[contract_id, text, canon] = near

    def warm_equivalences(self, programs: Sequence[tuple[Contract, str, str]]) -> None:
        """Compare with the canon, on all workers of the pool, what rewriting does not bring there."""
        if self.settings.evidence != "equivalent":
            return
        from skyt.repair.equivalence.store import compare_once

        pairs = {
            (contract.id, text, canon): (text, canon, contract)
            for contract, text, canon in programs
            if (contract.id, text, canon) not in self._equivalences
            and self.verdict(contract, text).compliant
            and self.verdict(contract, canon).compliant
            and self.normal_form(contract, text).text != self.normal_form(contract, canon).text
        }
        settings = self.settings
        found = compare_once(list(pairs.values()), self.pool, settings.inputs, settings.seed)
        self._equivalences.update(zip(pairs, found, strict=True))


Rewritten = tuple[str, str, str, NormalForm, Approach | None]


def _rewrite_all(batch: tuple[str, list[tuple[Contract, str, str]]]) -> list[Rewritten]:
    distance = get_distance(batch[0])
    return [found for job in batch[1] for found in _rewrite(*job, distance)]


def _rewrite(contract: Contract, text: str, canon: str, distance: Distance) -> list[Rewritten]:
    """What repair will ask about a program, and about the programs it leads to."""
    facts = Facts.from_contract(contract)
    target = _canon_form(canon, contract.id, facts)
    found: list[Rewritten] = []
    for _ in range(MAX_ROUNDS):
        form = normal_form(text, facts)
        near = None
        if form.text != target:
            near = approach(text, canon, form.rules, distance, partial(_apply, facts=facts))
        found.append((contract.id, canon, text, form, near))
        if near is None or near.text == text:
            break
        text = near.text
    return found


_CANON_FORMS: dict[tuple[str, str], str] = {}


def _canon_form(canon: str, contract_id: str, facts: Facts) -> str:
    if (contract_id, canon) not in _CANON_FORMS:
        _CANON_FORMS[contract_id, canon] = normal_form(canon, facts).text
    return _CANON_FORMS[contract_id, canon]


def _apply(code: str, rule: str, facts: Facts) -> str:
    return normal_form(code, facts, [known for known in RULES if known.name == rule]).text


class _ContractTools:
    """`skyt.repair.repair.Tools` for one contract."""

    def __init__(self, bench: Assessor, contract: Contract) -> None:
        self._bench, self._contract = bench, contract

    def normal_form(self, code: str) -> tuple[str, Sequence[str]]:
        form = self._bench.normal_form(self._contract, code)
        return form.text, [applied.rule for applied in form.trace]

    def approach(self, code: str, canon: str) -> Approach:
        return self._bench.approach(self._contract, code, canon)

    def verdict(self, code: str) -> tuple[bool, str]:
        """What counts is the program under the name that callers use: a misnamed one is judged as renamed."""
        verdict = self._bench.verdict(self._contract, code)
        if verdict.checks.get("entry_point") is False:
            named = _apply(code, "name-entry-point", Facts.from_contract(self._contract))
            verdict = self._bench.verdict(self._contract, named)
        return verdict.compliant, json.dumps([verdict.compliant, list(verdict.failures)])

    def equivalence(self, code: str, canon: str) -> dict[str, Any] | None:
        return self._bench.equivalence(self._contract, code, canon)
