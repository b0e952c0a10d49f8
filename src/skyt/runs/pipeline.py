"""The batch pipeline: generations in, canons and records out, the same whatever was interrupted and resumed.

All canons are fixed before the first sample is recorded, each by a compliant output of its prompt. Samples
are then added in input order, a block at a time; a resumed run goes on after the last.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from homeostat.core.progress import progress
from homeostat.core.records import utc_now
from homeostat.core.rundir import RunDir
from skyt.canon import CanonStore
from skyt.contracts.contract import Contract
from skyt.generators.base import Generation
from skyt.records import Durability, RunRow, RunStore, Sample
from skyt.runs.canons import Policy
from skyt.runs.fixing import fix_canons
from skyt.runs.judging.assess import versions
from skyt.runs.judging.pool import JudgePool

_BLOCK, _BLOCK_S = 200, 5.0  # samples or seconds in one transaction


def measure(
    run: RunDir,
    generations: Sequence[Generation],
    contracts: Mapping[str, Contract],
    pool: JudgePool,
    *,
    mode: str,
    given: Mapping[str, str] | None = None,
    shared: CanonStore | None = None,
    policy: Policy = "first",
    durability: Durability = "process",
) -> None:
    """Measure every generation against its prompt's canon and record what is not on record yet.

    `given` are canons brought along (source text by contract id); other prompts are anchored by an output of
    their own, which `policy` chooses. `shared` is a store of canons that outlives the run; the run keeps a
    copy.
    """
    stores = [CanonStore(run.path / "canon", versions())]
    if shared is not None:
        stores.insert(0, shared)
    cells = _cells(run, generations, pool, mode)
    with RunStore(run.path, durability) as store:
        left = generations[store.count() :]
        if not left:
            return
        canons = fix_canons(generations, contracts, pool, stores, given or {}, policy)
        jobs = [(output, contracts[output.contract_id], canons.get(output.contract_id)) for output in left]
        arrived: dict[int, Sample] = {}
        block: list[tuple[str, Sample]] = []
        since, following = time.monotonic(), 0
        done = len(generations) - len(left)
        with progress("judging", total=len(generations), done=done, unit="samples") as bar:
            for number, sample in pool.samples(jobs):
                arrived[number] = sample
                while following in arrived:
                    block.append((cells[left[following].cell].run_id, arrived.pop(following)))
                    following += 1
                if len(block) >= _BLOCK or time.monotonic() - since > _BLOCK_S:
                    store.append(cells.values(), block)
                    block, since = [], time.monotonic()
                bar.advance()
            store.append(cells.values(), block)


def _cells(
    run: RunDir, generations: Sequence[Generation], pool: JudgePool, mode: str
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
            seed=pool.settings.seed,
            oracle_version=current.oracle_version,
            normalization_version=current.normalization_version,
            contract_id=cell[0],
            distance_version=pool.distance.id,
        )
        for number, cell in enumerate(dict.fromkeys(generation.cell for generation in generations))
    }
