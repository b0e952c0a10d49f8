"""One output's way: `raw → program → verdict → repair → Sample`."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from homeostat.core.records import utc_now
from skyt.canon import Canon, Versions
from skyt.contracts.contract import Contract
from skyt.generators.base import Generation
from skyt.oracle.oracle import ORACLE_VERSION, Oracle, Verdict
from skyt.records import Sample
from skyt.repair.equivalence import compare
from skyt.repair.repair import Approach, Form, Repair, approach, repair
from skyt.repair.rules import RULES, Facts, NormalForm, normal_form
from skyt.runs.config import MeasureConfig
from skyt.sandbox import SandboxPool
from skyt.text.distance import Distance, get_distance
from skyt.text.extract import extract_code
from skyt.text.normalise import NORMALIZATION_VERSION, normalise
from skyt.text.signature import signature
from skyt.text.trim import trimmed

UNPLACED = "unplaced"  # a run_id until the sample is part of a run


def versions() -> Versions:
    return Versions(NORMALIZATION_VERSION, ORACLE_VERSION)


@dataclass(frozen=True)
class Program:
    """The normalised program in a raw output."""

    text: str
    parsed: bool
    signature: str


def prepare(raw: str, contract: Contract | None = None) -> Program:
    """The program in a raw output; of a prompt that is code to continue, the part that is asked for."""
    code = extract_code(raw)
    if contract is not None and contract.continued:
        code = trimmed(code, contract.entry_point.name)
    normalised = normalise(code)
    return Program(normalised.text, normalised.parsed, signature(normalised.text))


def sample_of(
    output: Generation,
    canon: Canon | None,
    program: Program,
    before: Verdict,
    done: Repair,
    after: Verdict,
    distance: Distance,
) -> Sample:
    """What is known of one output: its program, what became of that, and the verdicts before and after."""
    record = {
        "run_id": UNPLACED,
        "sample_id": "000000",
        "prompt_id": output.contract_id,
        "contract_id": output.contract_id,
        "model": output.model,
        "temperature": output.temperature,
        "sample": output.sample,
        "raw_output": output.raw_output,
        "normalized_pre": program.text,
        "normalized_post": done.text,
        "parsed": program.parsed,
        "signature_pre": program.signature,
        "signature_post": signature(done.text),
        "d_pre": done.d_before,
        "d_post": done.d_after,
        "distance_method": done.method,
        "evidence": done.evidence,
        "reason": done.reason,
        "repair_steps": list(done.steps),
        "oracle_pre": before.to_json(),
        "oracle_post": after.to_json(),
        "canon_signature": None if canon is None else canon.canon_signature,
        "same_normal_form": done.same_normal_form,
        "same_verdict": done.same_verdict,
        "equivalence": done.comparison,
        "oracle_version": ORACLE_VERSION,
        "normalization_version": NORMALIZATION_VERSION,
        "distance_version": distance.id,
    }
    return Sample(record, utc_now())


class Assessor(AbstractContextManager["Assessor"]):
    """The sandbox, the oracle and the rules, with which one process judges programs of any contract."""

    def __init__(self, settings: MeasureConfig) -> None:
        self.settings = settings
        self.distance = get_distance(settings.distance)
        self.pool = SandboxPool(workers=1, allow_uncontained=settings.allow_uncontained)
        self.oracle = Oracle(self.pool)
        self._canon_forms: dict[tuple[str, str], NormalForm] = {}

    def __exit__(self, *exception: object) -> None:
        self.pool.close()

    def judge_and_repair(self, output: Generation, contract: Contract, canon: Canon | None) -> Sample:
        """Everything about one output: judged, measured, repaired, judged again. Its run gives it a place."""
        program = prepare(output.raw_output, contract)
        verdict = self.verdict(contract, program.text)
        done = _without_canon(program) if canon is None else self.repair(contract, program.text, canon)
        after = verdict if done.text == program.text else self.verdict(contract, done.text)
        return sample_of(output, canon, program, verdict, done, after, self.distance)

    def verdict(self, contract: Contract, text: str) -> Verdict:
        return self.oracle.check(text, contract)

    def repair(self, contract: Contract, text: str, canon: Canon) -> Repair:
        tools = _ContractTools(self, contract, canon.normalized_code)
        return repair(text, canon.normalized_code, self.distance, tools)

    def canon_form(self, contract: Contract, canon: str) -> NormalForm:
        """The normal form of a canon, which every sample of its prompt is compared with."""
        key = (contract.hash, canon)
        if key not in self._canon_forms:
            self._canon_forms[key] = normal_form(canon, Facts.from_contract(contract))
        return self._canon_forms[key]


class _ContractTools:
    """`skyt.repair.repair.Tools` for the repair of one program."""

    def __init__(self, assessor: Assessor, contract: Contract, canon: str) -> None:
        self._assessor, self._contract, self._canon = assessor, contract, canon
        self._facts = Facts.from_contract(contract)
        self._forms: dict[str, NormalForm] = {canon: assessor.canon_form(contract, canon)}
        self._comparisons: dict[tuple[str, str, int], dict[str, Any]] = {}

    @property
    def accepts_equivalent(self) -> bool:
        """Whether a comparison alone is evidence enough: as the contract says, else as the settings do."""
        return (self._contract.evidence or self._assessor.settings.evidence) == "equivalent"

    def normal_form(self, code: str) -> Form:
        form = self._form(code)
        return Form(form.text, [applied.rule for applied in form.trace], form.failure)

    def approach(self, code: str, canon: str) -> Approach:
        return approach(code, canon, self._form(code).rules, self._assessor.distance, self._apply)

    def verdict(self, code: str) -> tuple[bool, str]:
        verdict = self._assessor.verdict(self._contract, code)
        return verdict.compliant, json.dumps([verdict.compliant, list(verdict.failures)])

    def comparison(self, code: str, other: str, most: int | None = None) -> dict[str, Any]:
        settings, pool = self._assessor.settings, self._assessor.pool
        inputs = settings.inputs if most is None else min(settings.inputs, most)
        key = (code, other, inputs)
        if key not in self._comparisons:
            found = compare(code, other, self._contract, inputs, settings.seed, pool=pool)
            self._comparisons[key] = found.as_record()
        return self._comparisons[key]

    def _form(self, code: str) -> NormalForm:
        if code not in self._forms:
            self._forms[code] = normal_form(code, self._facts)
        return self._forms[code]

    def _apply(self, code: str, rule: str) -> str:
        return normal_form(code, self._facts, [known for known in RULES if known.name == rule]).text


def _without_canon(program: Program) -> Repair:
    """Missing canon: every distance is 1.0 by definition, and there is nothing to repair towards."""
    return Repair(program.text, 1.0, 1.0, "none", "no canon", "no_canon")
