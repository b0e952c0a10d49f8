"""The batch pipeline: generations in, canons and records out, the same whatever was interrupted and resumed.

All canons are fixed before the first row is written, each by the first compliant output of its prompt in
input order. Rows are then appended in input order, a block at a time; a resumed run goes on after the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from homeostat.core.progress import progress
from homeostat.core.records import Record, utc_now
from homeostat.core.rundir import RunDir
from skyt.canon import Canon, CanonStore
from skyt.contracts.contract import Contract
from skyt.generators.base import Generation
from skyt.records import DistanceRow, Ledger, RepairRow, RunRow, SampleRecord
from skyt.repair.repair import Repair
from skyt.runs.assess import Assessor, Prepared, versions
from skyt.text.signature import signature

_BLOCK = 200  # samples per transaction


def measure(
    run: RunDir,
    generations: Sequence[Generation],
    contracts: Mapping[str, Contract],
    bench: Assessor,
    *,
    mode: str,
    given: Mapping[str, str] | None = None,
    shared: CanonStore | None = None,
) -> None:
    """Measure every generation against its prompt's canon and append what is not on record yet.

    `given` are canons brought along (source text by contract id); prompts without one are anchored by their
    first compliant output. `shared` is a store of canons that outlives the run; the run keeps a copy.
    """
    ledger = Ledger(run.path)
    stores = [CanonStore(run.path / "canon", versions())]
    if shared is not None:
        stores.insert(0, shared)
    run_ids = _register_cells(ledger, run, generations, bench, mode)
    done = ledger.count()
    if done >= len(generations):
        return
    _prepare(generations, contracts, bench)
    canons = _fix_canons(generations, contracts, bench, stores, given or {})
    _prepare_repairs(generations[done:], contracts, bench, canons)
    with progress("repairing", total=len(generations), done=done) as bar:
        for start in range(done, len(generations), _BLOCK):
            block = generations[start : start + _BLOCK]
            ledger.append(
                [
                    sample_record(
                        run_ids[generation.cell],
                        number,
                        generation,
                        contracts[generation.contract_id],
                        canons.get(generation.contract_id),
                        bench,
                    )
                    for number, generation in enumerate(block, start=start)
                ]
            )
            bar.advance(len(block))


def sample_record(
    run_id: str,
    number: int,
    generation: Generation,
    contract: Contract,
    canon: Canon | None,
    bench: Assessor,
) -> SampleRecord:
    """Everything about one sample: judged, measured, repaired, measured again."""
    prepared = bench.prepare(generation.raw_output)
    verdict = bench.verdict(contract, prepared.text)
    done = _without_canon(prepared) if canon is None else bench.repair(contract, prepared.text, canon)
    after = verdict if done.text == prepared.text else bench.verdict(contract, done.text)
    post_signature = signature(done.text)
    now = utc_now()
    sample_id = f"{number:06d}"
    row = DistanceRow(
        run_id=run_id,
        sample_id=sample_id,
        prompt_id=contract.id,
        stage="pre",
        signature=prepared.signature,
        d=done.d_before,
        compliant=verdict.compliant,
        normalization_version=versions().normalization_version,
        timestamp=now,
    )
    attempted = canon is not None and done.d_before > 0.0
    repair_row = RepairRow(
        run_id=run_id,
        sample_id=sample_id,
        before_signature=prepared.signature,
        after_signature=post_signature,
        d_before=done.d_before,
        d_after=done.d_after,
        steps=len(done.steps),
        success=done.success,
        reason=f"{done.evidence}: {done.reason}",
        timestamp=now,
    )
    sample: Record = {
        "run_id": run_id,
        "sample_id": sample_id,
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
        "signature_post": post_signature,
        "d_pre": done.d_before,
        "d_post": done.d_after,
        "distance_method": done.method,
        "evidence": done.evidence,
        "reason": done.reason,
        "repair_steps": list(done.steps),
        "oracle_pre": verdict.to_json(),
        "oracle_post": after.to_json(),
        "canon_signature": None if canon is None else canon.canon_signature,
        "equivalence": done.equivalence,
    }
    post = row._replace(stage="post", signature=post_signature, d=done.d_after, compliant=after.compliant)
    return SampleRecord(row, post, repair_row if attempted else None, sample)


def new_canon(
    contract: Contract, text: str, *, origin: str, model: str | None, temperature: float | None
) -> Canon:
    entry = contract.entry_point
    current = versions()
    return Canon(
        contract_id=contract.id,
        canon_signature=signature(text),
        oracle_version=current.oracle_version,
        normalization_version=current.normalization_version,
        fixed_at_timestamp=utc_now(),
        prompt_id=contract.id,
        model=model,
        temperature=temperature,
        function_signatures=function_signatures(contract) or [entry.name],
        constraints_snapshot=contract.snapshot(),
        normalized_code=text,
        origin=origin,
    )


def function_signatures(contract: Contract) -> list[str]:
    """The public callables a canon stands for, as the contract declares them."""

    def line(name: str, parameters: Iterable[object], returns: str | None) -> str:
        inside = ", ".join(f"{getattr(p, 'name', '')}: {getattr(p, 'type', '')}" for p in parameters)
        return f"{name}({inside})" + (f" -> {returns}" if returns else "")

    entry = contract.entry_point
    methods = [line(f"{entry.name}.{m.name}", m.parameters, m.returns) for m in entry.methods]
    return [line(entry.name, entry.parameters, entry.returns), *methods]


def _register_cells(
    ledger: Ledger, run: RunDir, generations: Sequence[Generation], bench: Assessor, mode: str
) -> dict[tuple[str, str, float], str]:
    cells = list(dict.fromkeys(generation.cell for generation in generations))
    run_ids = {cell: f"{run.run_id}.{number:04d}" for number, cell in enumerate(cells)}
    current = versions()
    ledger.append_runs(
        [
            RunRow(
                run_id=run_ids[cell],
                prompt_id=cell[0],
                mode=mode,
                timestamp=utc_now(),
                model=cell[1],
                temperature=cell[2],
                seed=bench.settings.seed,
                oracle_version=current.oracle_version,
                normalization_version=current.normalization_version,
                contract_id=cell[0],
            )
            for cell in cells
        ]
    )
    return run_ids


def _prepare(generations: Sequence[Generation], contracts: Mapping[str, Contract], bench: Assessor) -> None:
    bench.warm_prepared(generation.raw_output for generation in generations)
    bench.warm_verdicts([(contracts[g.contract_id], bench.prepare(g.raw_output).text) for g in generations])


def _fix_canons(
    generations: Sequence[Generation],
    contracts: Mapping[str, Contract],
    bench: Assessor,
    stores: Sequence[CanonStore],
    given: Mapping[str, str],
) -> dict[str, Canon]:
    canons: dict[str, Canon] = {}
    for contract_id in dict.fromkeys(generation.contract_id for generation in generations):
        contract = contracts[contract_id]
        if contract_id in given:
            text = bench.prepare(given[contract_id]).text
            canon = new_canon(contract, text, origin="given", model=None, temperature=None)
            stores[0].set(canon)
        fixed = stores[0].get(contract_id) or _first_compliant(contract, generations, bench, stores[0])
        if fixed is not None:
            for store in stores[1:]:
                store.set(fixed)
            canons[contract_id] = fixed
    return canons


def _first_compliant(
    contract: Contract, generations: Sequence[Generation], bench: Assessor, store: CanonStore
) -> Canon | None:
    for generation in generations:
        if generation.contract_id != contract.id:
            continue
        text = bench.prepare(generation.raw_output).text
        if bench.verdict(contract, text).compliant:
            return store.fix(
                new_canon(
                    contract,
                    text,
                    origin="first_compliant",
                    model=generation.model,
                    temperature=generation.temperature,
                )
            )
    return None


def _prepare_repairs(
    generations: Sequence[Generation],
    contracts: Mapping[str, Contract],
    bench: Assessor,
    canons: Mapping[str, Canon],
) -> None:
    programs = [
        (contracts[g.contract_id], bench.prepare(g.raw_output).text, canons[g.contract_id].normalized_code)
        for g in generations
        if g.contract_id in canons
    ]
    bench.warm_verdicts([(contract, canon) for contract, _, canon in programs])
    away = [job for job in programs if job[1] != job[2]]
    bench.warm_repairs(away)
    bench.warm_equivalences(away)


def _without_canon(prepared: Prepared) -> Repair:
    """Missing canon: every distance is 1.0 by definition, and there is nothing to repair towards."""
    return Repair(prepared.text, 1.0, 1.0, "none", "no canon", "no_canon")
