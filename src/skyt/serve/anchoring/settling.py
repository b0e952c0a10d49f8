"""Measuring samples from before their prompt had a canon against it, as a file-based run would have."""

from __future__ import annotations

import asyncio

from skyt.canon import Canon
from skyt.contracts.contract import Contract
from skyt.generators.base import Generation
from skyt.records import Sample
from skyt.serve.anchoring.judge import Judge
from skyt.serve.database.store import Store


async def settle(store: Store, judge: Judge, contract: Contract, evidence: str) -> int:
    """Measure what waits, one sample after another, so that requests come first."""
    done = 0
    while waiting := await asyncio.to_thread(store.unsettled, contract.id):
        canon = await asyncio.to_thread(store.get, contract.id)
        if canon is None:
            break
        by_ledger: dict[str, list[tuple[int, Sample]]] = {}
        for ledger, number, sample in waiting:
            measured = await _again(judge, contract, canon, sample, evidence)
            by_ledger.setdefault(ledger, []).append((number, measured))
        for ledger, found in by_ledger.items():
            await asyncio.to_thread(store.settle, ledger, found)
            done += len(found)
    return done


async def _again(judge: Judge, contract: Contract, canon: Canon, sample: Sample, evidence: str) -> Sample:
    output = Generation(contract.id, sample["model"], sample["temperature"], 0, sample["raw_output"])
    measured = await judge.sample(contract, output, canon, evidence)
    request = {name: value for name, value in sample.record.items() if name in ("attempt", "usage")}
    measured = Sample({**measured.record, **request}, measured.timestamp)
    return measured.placed(sample["run_id"], int(sample["sample_id"]), sample["sample"], sample.timestamp)
