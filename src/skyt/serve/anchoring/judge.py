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
from homeostat.core.records import utc_now, validate
from skyt.canon import Canon
from skyt.contracts.contract import Contract
from skyt.records import Sample, Versions
from skyt.runs.config import MeasureConfig
from skyt.runs.judging.assess import UNPLACED, versions
from skyt.runs.judging.judges import Judges, Patience
from skyt.serve.config import Limits
from skyt.serve.telemetry import log
from skyt.text.distance import get_distance
from skyt.text.signature import signature

_REMEMBER = 20_000
_NICENESS = 5  # the service itself comes first
Key = tuple[str, str, str | None, str]


@dataclass(frozen=True)
class Output:
    """A text that a model wrote, and where it came from."""

    text: str
    model: str
    temperature: float


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
        current = versions()
        distance = get_distance(settings.distance).id
        self.versions = Versions(current.normalization_version, current.oracle_version, distance)
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
        outputs: Sequence[Output],
        canon: Canon | None,
        evidence: str,
        *,
        may_fix: bool,
    ) -> Measured:
        """Measure outputs against the canon; without one, the first compliant output becomes it if it may."""
        fixes = False
        if canon is None and not may_fix:
            alone = await asyncio.gather(
                *(self._fresh(contract, output, None, evidence, may_fix=False) for output in outputs)
            )
            return Measured([record for record, _ in alone], None, False)
        if canon is None:
            samples = []
            for output in outputs:
                record, canon = await self._fresh(contract, output, None, evidence, may_fix=True)
                samples.append(record)
                if canon is not None:
                    fixes = True
                    break
            else:
                return Measured(samples, None, False)
        found = await asyncio.gather(*(self.sample(contract, output, canon, evidence) for output in outputs))
        return Measured(list(found), canon, fixes)

    async def sample(self, contract: Contract, output: Output, canon: Canon, evidence: str) -> Sample:
        """Measure one output against the canon there is."""
        known = self._recall(contract, output, canon, evidence)
        if known is not None:
            return known
        return (await self._fresh(contract, output, canon, evidence, may_fix=False))[0]

    async def faults(self, contract: Contract, canon: Canon, evidence: str) -> list[str]:
        """What speaks against using a canon; see `skyt.runs.canons.faults`."""
        request = {"task": "examine", "contract": contract.id, "evidence": evidence, "canon": asdict(canon)}
        reply = await self._judges.ask(request)
        if reply.answer is None or "faults" not in reply.answer:
            problem = (reply.answer or {}).get("refused") or reply.why or "no verdict"
            raise UserError(f"the canon of {contract.id!r} could not be judged: {problem}")
        return list(reply.answer["faults"])

    async def _fresh(
        self, contract: Contract, output: Output, canon: Canon | None, evidence: str, *, may_fix: bool
    ) -> tuple[Sample, Canon | None]:
        """A sample that is not remembered, and its canon, which may be new."""
        request = {
            "task": "measure",
            "contract": contract.id,
            "evidence": evidence,
            "canon": None if canon is None else asdict(canon),
            "may_fix": may_fix,
            "text": output.text,
            "model": output.model,
            "temperature": output.temperature,
        }
        reply = await self._judges.ask(request)
        answer = reply.answer
        if answer is None or "sample" not in answer:
            problem = reply.why if answer is None else answer.get("refused") or answer["failed"]
            return self._not_judged(contract, output, canon, reply.prepared, problem), canon
        sample = Sample({**answer["sample"], "raw_output": output.text}, answer["timestamp"])
        validate(sample.record, "sample")
        if answer["canon"] is not None and canon is None:
            canon = Canon(**answer["canon"])
        if canon is not None:
            self._memory[self._key(contract, output, canon, evidence)] = sample
            if len(self._memory) > _REMEMBER:
                self._memory.popitem(last=False)
        return sample, canon

    def _not_judged(
        self,
        contract: Contract,
        output: Output,
        canon: Canon | None,
        prepared: Mapping[str, Any] | None,
        problem: str,
    ) -> Sample:
        """The record of a sample without a verdict: measured if that was done in time, else at distance 1."""
        text = output.text if prepared is None else prepared["text"]
        d, method = (1.0, "not_measured") if prepared is None else (prepared["d"], prepared["method"])
        if canon is not None and text == canon.normalized_code:
            d = 0.0
        verdict = {"compliant": False, "failures": [f"not judged: {problem}"], "counterexample": None}
        record = {
            "run_id": UNPLACED,
            "sample_id": "000000",
            "prompt_id": contract.id,
            "contract_id": contract.id,
            "model": output.model,
            "temperature": output.temperature,
            "sample": 0,
            "raw_output": output.text,
            "normalized_pre": text,
            "normalized_post": text,
            "parsed": prepared is not None and prepared["parsed"],
            "signature_pre": signature(text),
            "signature_post": signature(text),
            "d_pre": d,
            "d_post": d,
            "distance_method": "no_canon" if canon is None else method,
            "evidence": "identical" if d == 0.0 else "none",
            "reason": f"not judged: {problem}",
            "repair_steps": [],
            "oracle_pre": verdict,
            "oracle_post": verdict,
            "canon_signature": None if canon is None else canon.canon_signature,
            "equivalence": None,
            "judged": False,
            **self.versions._asdict(),
        }
        validate(record, "sample")
        return Sample(record, utc_now())

    def _recall(self, contract: Contract, output: Output, canon: Canon, evidence: str) -> Sample | None:
        sample = self._memory.get(self._key(contract, output, canon, evidence))
        if sample is None:
            return None
        cell = {"model": output.model, "temperature": output.temperature}
        return Sample({**sample.record, **cell}, sample.timestamp)

    def _key(self, contract: Contract, output: Output, canon: Canon, evidence: str) -> Key:
        """Contracts do not change while the service runs, so an id stands for its contract."""
        return contract.id, evidence, canon.canon_signature, output.text


def _did_not_start(problem: str) -> None:
    log("a judge did not start", logging.WARNING, error=problem)
