"""One sample's way, `raw → code → normalised → verdict → repair`; each distinct program is done once.

An assessor holds the tools (sandbox pool, oracle, rules) and remembers results by contract and signature. The
batch pipeline fills it in parallel and then assembles rows from it; the middleware uses it call by call.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar

from homeostat.core.progress import progress
from skyt.canon import Canon, Versions
from skyt.contracts.contract import Contract
from skyt.oracle.oracle import ORACLE_VERSION, Oracle, Verdict
from skyt.repair.equivalence.store import compare_once
from skyt.repair.repair import MAX_ROUNDS, NEARER_INPUTS, Approach, Form, Repair, approach, repair
from skyt.repair.rules import RULES, Facts, NormalForm, normal_form
from skyt.runs.cache import ResultCache, key
from skyt.runs.config import MeasureConfig
from skyt.sandbox import SandboxPool
from skyt.text.distance import Distance, get_distance
from skyt.text.extract import extract_code
from skyt.text.normalise import NORMALIZATION_VERSION, normalise
from skyt.text.signature import signature
from skyt.text.trim import trimmed

V = TypeVar("V")
_REMEMBER = 200_000  # results of each kind
_AT_ONCE = 16  # programs that are judged or compared together, for each worker


def versions() -> Versions:
    return Versions(NORMALIZATION_VERSION, ORACLE_VERSION)


@dataclass(frozen=True)
class Prepared:
    """A raw output as a normalised program."""

    text: str
    parsed: bool
    signature: str


def prepare(raw: str, contract: Contract | None = None) -> Prepared:
    """The program in a raw output; of a prompt that is code to continue, the part that is asked for."""
    code = extract_code(raw)
    if contract is not None and contract.continued:
        code = trimmed(code, contract.entry_point.name)
    normalised = normalise(code)
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
        self._comparisons: Memory[dict[str, Any]] = Memory()
        self._repairs: Memory[Repair] = Memory()
        self._new_repairs: dict[str, Any] = {}
        self._cache = ResultCache.from_environment()

    def __exit__(self, *exception: object) -> None:
        self.pool.close()
        self._cache.close()

    def accepts_equivalent(self, contract: Contract) -> bool:
        """Whether a comparison alone is evidence enough: as the contract says, else as the settings do."""
        return (contract.evidence or self.settings.evidence) == "equivalent"

    def prepare(self, raw: str, contract: Contract) -> Prepared:
        known = (raw, contract.entry_point.name if contract.continued else None)
        return self._prepared.remember(known, lambda: prepare(raw, contract))

    def verdict(self, contract: Contract, text: str) -> Verdict:
        if (contract.id, text) not in self._verdicts:
            self.warm_verdicts([(contract, text)], quiet=True)
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
        """What becomes of a program, worked out once and kept for later runs."""
        name = (contract.id, text, canon.normalized_code)
        if name not in self._repairs:
            self.recall_repairs([(contract, text, canon.normalized_code)])
        if name not in self._repairs:
            made = repair(text, canon.normalized_code, self.distance, _ContractTools(self, contract))
            self._new_repairs[self._repair_key(contract, text, canon.normalized_code)] = asdict(made)
            self._repairs.remember(name, lambda: made)
        return self._repairs[name]

    def recall_repairs(
        self, programs: Sequence[tuple[Contract, str, str]]
    ) -> list[tuple[Contract, str, str]]:
        """Take what earlier runs kept of these repairs (contract, program, canon); returns the others."""
        wanted = {
            self._repair_key(*job): job for job in programs if (job[0].id, *job[1:]) not in self._repairs
        }
        found = self._cache.find(wanted)
        for key_, value in found.items():
            contract, text, canon = wanted[key_]
            self._repairs[contract.id, text, canon] = Repair(**{**value, "steps": tuple(value["steps"])})
        return [job for job in programs if (job[0].id, *job[1:]) not in self._repairs]

    def keep_repairs(self) -> None:
        """Put on disk what has been worked out since the last time."""
        self._cache.keep(self._new_repairs)
        self._new_repairs.clear()

    def _repair_key(self, contract: Contract, text: str, canon: str) -> str:
        chosen = self.settings
        how = [chosen.evidence, chosen.inputs, chosen.seed, self.distance.id]
        return key("repair", contract.hash, text, canon, *how)

    def comparison(self, contract: Contract, text: str, other: str, inputs: int) -> dict[str, Any]:
        """What running both on the same calls finds. A record is shared: treat it as read-only."""
        pair = (text, other, contract)
        return self._comparisons.remember(
            (contract.id, text, other, inputs),
            lambda: compare_once([pair], self.pool, inputs, self.settings.seed)[0],
        )

    def warm_verdicts(self, programs: Sequence[tuple[Contract, str]], *, quiet: bool = False) -> None:
        """Put all programs that have no verdict yet before the oracle at once: the pool works in parallel."""
        new = {
            key("verdict", contract.hash, text): (text, contract)
            for contract, text in programs
            if (contract.id, text) not in self._verdicts
        }
        for name, record in self._cache.find(new).items():
            text, contract = new.pop(name)
            self._verdicts[contract.id, text] = Verdict(**record)
        if not new:
            return
        programs_of, size = list(new.items()), _AT_ONCE * self.workers
        with nullcontext() if quiet else progress("judging", total=len(new), unit="programs") as bar:
            for at in range(0, len(new), size):
                some = programs_of[at : at + size]
                verdicts = self.oracle.check_many([program for _, program in some])
                for (_, (text, contract)), verdict in zip(some, verdicts, strict=True):
                    self._verdicts[contract.id, text] = verdict
                names = [name for name, _ in some]
                self._cache.keep({n: v.to_json() for n, v in zip(names, verdicts, strict=True)})
                if bar is not None:
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

    def warm_comparisons(self, programs: Sequence[tuple[Contract, str, str]]) -> None:
        """Make the comparisons that repair will ask for, on all workers of the pool: of samples with their
        canons, then of those that stay away with the programs on the way, which the oracle sees as well."""
        inputs, fewer = self.settings.inputs, min(self.settings.inputs, NEARER_INPUTS)
        self._compare_new([job for job in programs if self._comparable(*job)], inputs)
        nearer = []
        for contract, text, canon in programs:
            known = self._comparisons.get((contract.id, text, canon, inputs), {"equal": False})
            if not known["equal"]:
                nearer += [(contract, text, near) for near in self._way(contract, text, canon)]
        self._compare_new(nearer, fewer)
        same = [job for job in nearer if self._comparisons[job[0].id, *job[1:], fewer]["equal"]]
        self.warm_verdicts([(contract, near) for contract, _, near in same])

    def _way(self, contract: Contract, text: str, canon: str) -> Iterator[str]:
        """The programs that rules lead to one after the other, as far as that is known already."""
        for _ in range(MAX_ROUNDS):
            near = self._approaches.get((contract.id, text, canon))
            if near is None or near.text == text:
                return
            text = near.text
            yield text

    def _comparable(self, contract: Contract, text: str, canon: str) -> bool:
        """Whether everything but the comparison speaks for replacing this sample by the canon."""
        accepted = self.verdict(contract, text).compliant
        if accepted != self.verdict(contract, canon).compliant:
            return False
        if self.normal_form(contract, text).text == self.normal_form(contract, canon).text:
            return True
        return accepted and self.accepts_equivalent(contract)

    def _compare_new(self, jobs: Sequence[tuple[Contract, str, str]], inputs: int) -> None:
        new = {(contract.id, text, other, inputs): (text, other, contract) for contract, text, other in jobs}
        todo = [(key, pair) for key, pair in new.items() if key not in self._comparisons]
        if not todo:
            return
        size = _AT_ONCE * self.workers
        with progress("comparing", total=len(todo), unit="programs") as bar:
            for at in range(0, len(todo), size):
                some = todo[at : at + size]
                found = compare_once([pair for _, pair in some], self.pool, inputs, self.settings.seed)
                self._comparisons.update(zip((key for key, _ in some), found, strict=True))
                bar.advance(len(some))


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

    @property
    def accepts_equivalent(self) -> bool:
        return self._bench.accepts_equivalent(self._contract)

    def normal_form(self, code: str) -> Form:
        form = self._bench.normal_form(self._contract, code)
        return Form(form.text, [applied.rule for applied in form.trace], form.failure)

    def approach(self, code: str, canon: str) -> Approach:
        return self._bench.approach(self._contract, code, canon)

    def verdict(self, code: str) -> tuple[bool, str]:
        verdict = self._bench.verdict(self._contract, code)
        return verdict.compliant, json.dumps([verdict.compliant, list(verdict.failures)])

    def comparison(self, code: str, other: str, most: int | None = None) -> dict[str, Any]:
        inputs = self._bench.settings.inputs
        return self._bench.comparison(
            self._contract, code, other, inputs if most is None else min(inputs, most)
        )
