"""Judging outputs off the event loop, through the very functions that measure file-based runs.

What was measured once is remembered by contract, canon and raw text, and then costs a dictionary look-up.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from homeostat.core.records import validate
from skyt.canon import Canon
from skyt.contracts.contract import Contract
from skyt.generators.base import Generation
from skyt.records import SampleRecord
from skyt.runs.assess import Assessor
from skyt.runs.canons import new_canon
from skyt.runs.config import MeasureConfig
from skyt.runs.pipeline import sample_record
from skyt.serve.database.store import Store

_REMEMBER = 20_000
_UNPLACED = "unplaced"  # a run_id until the store has numbered the sample
Key = tuple[str, str, str | None, str]


@dataclass(frozen=True)
class Measured:
    """Samples measured against `canon`, which is new if `fixes`."""

    samples: list[SampleRecord]
    canon: Canon | None
    fixes: bool


class Judge:
    """A assessor for each level of evidence in use, a few threads, and a memory of results."""

    def __init__(self, settings: MeasureConfig, evidence: Sequence[str], threads: int) -> None:
        self._benches = {
            level: Assessor(settings.model_copy(update={"evidence": level}), workers=threads)
            for level in sorted(set(evidence))
        }
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="judge")
        self._memory: OrderedDict[Key, SampleRecord] = OrderedDict()
        self._lock = threading.Lock()
        self._hashes: dict[str, str] = {}

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        for bench in self._benches.values():
            bench.__exit__(None, None, None)

    async def measure(
        self,
        contract: Contract,
        texts: Sequence[str],
        model: str,
        temperature: float,
        canon: Canon | None,
        evidence: str,
    ) -> Measured:
        """Measure outputs against the canon; without one, the first compliant output becomes it."""
        generations = [Generation(contract.id, model, temperature, 0, text) for text in texts]
        if canon is not None:
            known = [self._recall(contract, generation, canon, evidence) for generation in generations]
            found = [record for record in known if record is not None]
            if len(found) == len(generations):
                return Measured(found, canon, False)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, self._measure, contract, generations, canon, evidence
        )

    def measure_now(
        self, contract: Contract, generation: Generation, canon: Canon, evidence: str
    ) -> SampleRecord:
        """Measure one output in the calling thread."""
        return self._sample(contract, generation, canon, evidence)

    def _measure(
        self, contract: Contract, generations: Sequence[Generation], canon: Canon | None, evidence: str
    ) -> Measured:
        fixes = False
        if canon is None:
            canon = self._first_compliant(contract, generations, evidence)
            fixes = canon is not None
        samples = [self._sample(contract, generation, canon, evidence) for generation in generations]
        return Measured(samples, canon, fixes)

    def _first_compliant(
        self, contract: Contract, generations: Sequence[Generation], evidence: str
    ) -> Canon | None:
        bench = self._benches[evidence]
        for generation in generations:
            text = bench.prepare(generation.raw_output).text
            if bench.verdict(contract, text).compliant:
                return new_canon(
                    contract,
                    text,
                    origin="first_compliant",
                    model=generation.model,
                    temperature=generation.temperature,
                )
        return None

    def _sample(
        self, contract: Contract, generation: Generation, canon: Canon | None, evidence: str
    ) -> SampleRecord:
        if canon is not None:
            known = self._recall(contract, generation, canon, evidence)
            if known is not None:
                return known
        record = sample_record(_UNPLACED, 0, generation, contract, canon, self._benches[evidence])
        validate(record.sample, "sample")
        if canon is not None:
            with self._lock:
                self._memory[self._key(contract, generation, canon, evidence)] = record
                if len(self._memory) > _REMEMBER:
                    self._memory.popitem(last=False)
        return record

    def _recall(
        self, contract: Contract, generation: Generation, canon: Canon, evidence: str
    ) -> SampleRecord | None:
        with self._lock:
            record = self._memory.get(self._key(contract, generation, canon, evidence))
        if record is None:
            return None
        cell = {"model": generation.model, "temperature": generation.temperature}
        return record._replace(sample={**record.sample, **cell})

    def _key(self, contract: Contract, generation: Generation, canon: Canon, evidence: str) -> Key:
        """Contracts do not change while the service runs, so an id stands for its contract."""
        return contract.id, evidence, canon.canon_signature, generation.raw_output


def settle(store: Store, judge: Judge, contract: Contract, evidence: str) -> int:
    """Measure samples from before the prompt had a canon against it, as a file-based run would have."""
    done = 0
    while waiting := store.unsettled(contract.id):
        canon = store.get(contract.id)
        if canon is None:
            break
        by_ledger: dict[str, list[tuple[int, SampleRecord]]] = {}
        for ledger, number, record in waiting:
            by_ledger.setdefault(ledger, []).append(
                (number, _again(judge, contract, canon, record, evidence))
            )
        for ledger, measured in by_ledger.items():
            store.settle(ledger, measured)
            done += len(measured)
    return done


def _again(
    judge: Judge, contract: Contract, canon: Canon, record: SampleRecord, evidence: str
) -> SampleRecord:
    from skyt.serve.database.rows import numbered

    sample = record.sample
    generation = Generation(
        contract.id, sample["model"], sample["temperature"], sample["sample"], sample["raw_output"]
    )
    return numbered(
        judge.measure_now(contract, generation, canon, evidence),
        run_id=sample["run_id"],
        number=int(sample["sample_id"]),
        sample=sample["sample"],
        timestamp=record.pre.timestamp,
    )
