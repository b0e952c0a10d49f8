"""The batch pipeline: generations in, canons and records out, the same whatever was interrupted and resumed.

All canons are fixed before the first row is written, each by a compliant output of its prompt. Rows are
then appended in input order, a block at a time; a resumed run goes on after the last.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from homeostat.core.progress import progress
from homeostat.core.records import Record, utc_now
from homeostat.core.rundir import RunDir
from skyt.canon import Canon, CanonStore
from skyt.contracts.contract import Contract
from skyt.generators.base import Generation
from skyt.records import Durability, RunRow, RunStore, Sample
from skyt.repair.repair import Repair
from skyt.runs.assess import Assessor, Prepared, versions
from skyt.runs.canons import Policy, fix_canons
from skyt.text.signature import signature

UNPLACED = "unplaced"  # a run_id until the sample is part of a run
_BLOCK, _BLOCK_S = 200, 5.0  # samples or seconds in one transaction


def measure(
    run: RunDir,
    generations: Sequence[Generation],
    contracts: Mapping[str, Contract],
    bench: Assessor,
    *,
    mode: str,
    given: Mapping[str, str] | None = None,
    shared: CanonStore | None = None,
    policy: Policy = "first",
    durability: Durability = "process",
) -> None:
    """Measure every generation against its prompt's canon and append what is not on record yet.

    `given` are canons brought along (source text by contract id); other prompts are anchored by an output of
    their own, which `policy` chooses. `shared` is a store of canons that outlives the run; the run keeps a
    copy.
    """
    stores = [CanonStore(run.path / "canon", versions())]
    if shared is not None:
        stores.insert(0, shared)
    cells = _cells(run, generations, bench, mode)
    with RunStore(run.path, durability) as store:
        done = store.count()
        if done < len(generations):
            _prepare(generations, contracts, bench)
            canons = fix_canons(generations, contracts, bench, stores, given or {}, policy)
            _prepare_repairs(generations[done:], contracts, bench, canons)
            _record(store, generations, done, contracts, canons, cells, bench)


def _record(
    store: RunStore,
    generations: Sequence[Generation],
    done: int,
    contracts: Mapping[str, Contract],
    canons: Mapping[str, Canon],
    cells: Mapping[tuple[str, str, float], RunRow],
    bench: Assessor,
) -> None:
    with progress("repairing", total=len(generations), done=done, unit="samples") as bar:
        block: list[tuple[str, Sample]] = []
        since = time.monotonic()
        for generation in generations[done:]:
            contract, canon = contracts[generation.contract_id], canons.get(generation.contract_id)
            sample = judge_and_repair(generation, contract, canon, bench)
            block.append((cells[generation.cell].run_id, sample))
            if len(block) == _BLOCK or time.monotonic() - since > _BLOCK_S:
                store.append(cells.values(), block)
                bench.keep_repairs()
                block, since = [], time.monotonic()
            bar.advance()
        store.append(cells.values(), block)
        bench.keep_repairs()


def judge_and_repair(
    generation: Generation, contract: Contract, canon: Canon | None, bench: Assessor
) -> Sample:
    """Everything about one output: judged, measured, repaired, measured again. Its run gives it a place."""
    prepared = bench.prepare(generation.raw_output, contract)
    verdict = bench.verdict(contract, prepared.text)
    done = _without_canon(prepared) if canon is None else bench.repair(contract, prepared.text, canon)
    after = verdict if done.text == prepared.text else bench.verdict(contract, done.text)
    record: Record = {
        "run_id": UNPLACED,
        "sample_id": "000000",
        "prompt_id": contract.id,
        "contract_id": contract.id,
        "model": generation.model,
        "temperature": generation.temperature,
        "sample": generation.sample,
        "raw_output": generation.raw_output,
        "normalized_pre": prepared.text,
        "normalized_post": done.text,
        "parsed": prepared.parsed,
        "signature_pre": prepared.signature,
        "signature_post": signature(done.text),
        "d_pre": done.d_before,
        "d_post": done.d_after,
        "distance_method": done.method,
        "evidence": done.evidence,
        "reason": done.reason,
        "repair_steps": list(done.steps),
        "oracle_pre": verdict.to_json(),
        "oracle_post": after.to_json(),
        "canon_signature": None if canon is None else canon.canon_signature,
        "same_normal_form": done.same_normal_form,
        "same_verdict": done.same_verdict,
        "equivalence": done.comparison,
        "oracle_version": versions().oracle_version,
        "normalization_version": versions().normalization_version,
        "distance_version": bench.distance.id,
    }
    return Sample(record, utc_now())


def _cells(
    run: RunDir, generations: Sequence[Generation], bench: Assessor, mode: str
) -> dict[tuple[str, str, float], RunRow]:
    current = versions()
    return {
        cell: RunRow(
            run_id=f"{run.run_id}.{number:04d}",
            prompt_id=cell[0],
            mode=mode,
            timestamp=utc_now(),
            model=cell[1],
            temperature=cell[2],
            seed=bench.settings.seed,
            oracle_version=current.oracle_version,
            normalization_version=current.normalization_version,
            contract_id=cell[0],
            distance_version=bench.distance.id,
        )
        for number, cell in enumerate(dict.fromkeys(generation.cell for generation in generations))
    }


def _prepare(generations: Sequence[Generation], contracts: Mapping[str, Contract], bench: Assessor) -> None:
    used = [(contracts[g.contract_id], g.raw_output) for g in generations]
    bench.warm_verdicts([(contract, bench.prepare(raw, contract).text) for contract, raw in used])


def _prepare_repairs(
    generations: Sequence[Generation],
    contracts: Mapping[str, Contract],
    bench: Assessor,
    canons: Mapping[str, Canon],
) -> None:
    programs = [
        (contract, bench.prepare(raw, contract).text, canons[contract.id].normalized_code)
        for contract, raw in ((contracts[g.contract_id], g.raw_output) for g in generations)
        if contract.id in canons
    ]
    bench.warm_verdicts([(contract, canon) for contract, _, canon in programs])
    away = bench.recall_repairs([job for job in programs if job[1] != job[2]])
    bench.warm_repairs(away)
    bench.warm_comparisons(away)


def _without_canon(prepared: Prepared) -> Repair:
    """Missing canon: every distance is 1.0 by definition, and there is nothing to repair towards."""
    return Repair(prepared.text, 1.0, 1.0, "none", "no canon", "no_canon")
