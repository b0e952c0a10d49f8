"""Judging outputs through the very functions that measure file-based runs, in processes of their own.

What was measured once is remembered by contract, canon and raw text, and then costs a dictionary look-up.
What could not be judged in time is recorded as not judged: not compliant, not repaired, answered as it came.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from homeostat.core.errors import UserError
from homeostat.core.records import validate
from skyt.canon import Canon
from skyt.contracts.contract import Contract
from skyt.generators.base import Generation
from skyt.oracle.oracle import Verdict
from skyt.records import Sample, Versions
from skyt.repair.repair import Repair
from skyt.runs.config import MeasureConfig
from skyt.runs.judging.assess import Program, sample_of, versions
from skyt.runs.judging.judges import Judges, Patience
from skyt.serve.config import Limits
from skyt.serve.telemetry import log
from skyt.text.distance import get_distance
from skyt.text.signature import signature

_REMEMBER = 20_000
_NICENESS = 5  # the service itself comes first
Key = tuple[str, str, str | None, str]


@dataclass(frozen=True)
class Measured:
    """Samples measured against `canon`, which is new if `fixes`."""

    samples: list[Sample]
    canon: Canon | None
    fixes: bool


class Judge:
    """Judge processes, and a memory of their results."""

    def __init__(
        self,
        settings: MeasureConfig,
        contracts: Mapping[str, Contract],
        evidence: Sequence[str],
        judges: int,
        limits: Limits,
    ) -> None:
        self._distance = get_distance(settings.distance)
        current = versions()
        self.versions = Versions(current.normalization_version, current.oracle_version, self._distance.id)
        patience = Patience(
            limits.judge_s, limits.judge_busy_s, limits.slow_judges, _NICENESS, _did_not_start
        )
        self._judges = Judges(settings, contracts, sorted(set(evidence)), judges, patience)
        self._memory: OrderedDict[Key, Sample] = OrderedDict()
        self.start, self.close = self._judges.start, self._judges.close
        self.stop_by = self._judges.stop_by

    async def measure(
        self,
        contract: Contract,
        outputs: Sequence[Generation],
        canon: Canon | None,
        evidence: str,
        *,
        may_fix: bool,
    ) -> Measured:
        """Measure outputs against the canon; without one, the first compliant output becomes it if it may."""
        if canon is not None or not may_fix:
            samples = (self.sample(contract, output, canon, evidence) for output in outputs)
            return Measured(await asyncio.gather(*samples), canon, fixes=False)
        before = []
        for output in outputs:
            sample, fixed = await self._judged(contract, output, None, evidence, may_fix=True)
            if fixed is not None:
                measured = await self.measure(contract, outputs, fixed, evidence, may_fix=False)
                return Measured(measured.samples, fixed, fixes=True)
            before.append(sample)
        return Measured(before, None, fixes=False)

    async def sample(
        self, contract: Contract, output: Generation, canon: Canon | None, evidence: str
    ) -> Sample:
        """Measure one output against the canon there is."""
        known = None if canon is None else self._memory.get(_key(output, canon, evidence))
        if known is None:
            return (await self._judged(contract, output, canon, evidence, may_fix=False))[0]
        return Sample(
            {**known.record, "model": output.model, "temperature": output.temperature}, known.timestamp
        )

    async def faults(self, contract: Contract, canon: Canon, evidence: str) -> list[str]:
        """What speaks against using a canon; see `skyt.runs.canons.faults`."""
        request = {"task": "examine", "contract": contract.id, "evidence": evidence, "canon": asdict(canon)}
        reply = await self._judges.ask(request)
        if reply.answer is None or "faults" not in reply.answer:
            problem = (reply.answer or {}).get("refused") or reply.why or "no verdict"
            raise UserError(f"the canon of {contract.id!r} could not be judged: {problem}")
        return list(reply.answer["faults"])

    async def _judged(
        self, contract: Contract, output: Generation, canon: Canon | None, evidence: str, *, may_fix: bool
    ) -> tuple[Sample, Canon | None]:
        """The sample of an output that is not remembered, and its canon, which may be new."""
        request = {
            "task": "measure",
            "contract": contract.id,
            "evidence": evidence,
            "canon": None if canon is None else asdict(canon),
            "may_fix": may_fix,
            "text": output.raw_output,
            "model": output.model,
            "temperature": output.temperature,
        }
        reply = await self._judges.ask(request)
        answer = reply.answer
        if answer is None or "sample" not in answer:
            problem = reply.why if answer is None else answer.get("refused") or answer["failed"]
            return self._not_judged(output, canon, reply.prepared, problem), canon
        sample = Sample({**answer["sample"], "raw_output": output.raw_output}, answer["timestamp"])
        validate(sample.record, "sample")
        if answer["canon"] is not None and canon is None:
            canon = Canon(**answer["canon"])
        if canon is not None:
            self._memory[_key(output, canon, evidence)] = sample
            if len(self._memory) > _REMEMBER:
                self._memory.popitem(last=False)
        return sample, canon

    def _not_judged(
        self, output: Generation, canon: Canon | None, prepared: Mapping[str, Any] | None, problem: str
    ) -> Sample:
        """The record of a sample without a verdict: measured if that was done in time, else at distance 1."""
        text = output.raw_output if prepared is None else prepared["text"]
        d, method = (1.0, "not_measured") if prepared is None else (prepared["d"], prepared["method"])
        if canon is not None and text == canon.normalized_code:
            d = 0.0
        reason, evidence = f"not judged: {problem}", "identical" if d == 0.0 else "none"
        program = Program(text, prepared is not None and prepared["parsed"], signature(text))
        left = Repair(text, d, d, evidence, reason, "no_canon" if canon is None else method)
        verdict = Verdict(compliant=False, failures=[reason])
        sample = sample_of(output, canon, program, verdict, left, verdict, self._distance)
        record = {**sample.record, "judged": False}
        validate(record, "sample")
        return Sample(record, sample.timestamp)


def _key(output: Generation, canon: Canon, evidence: str) -> Key:
    """Contracts do not change while the service runs, so an id stands for its contract."""
    return output.contract_id, evidence, canon.canon_signature, output.raw_output


def _did_not_start(problem: str) -> None:
    log("a judge did not start", logging.WARNING, error=problem)
