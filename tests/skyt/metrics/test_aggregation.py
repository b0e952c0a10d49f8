from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.rows import CANON, cell, sample

from homeostat.core.errors import UserError
from skyt.metrics.aggregation import Cell, Tallies, aggregate
from skyt.metrics.formulas import metrics, tally_of
from skyt.records import RunRow, RunStore, Sample

CELLS = [
    cell(f"r{at}", prompt, model, contract_id=prompt)
    for at, (prompt, model) in enumerate((p, m) for p in ("gcd", "slugify") for m in ("m1", "m,2"))
]
Measured = list[tuple[str, Sample]]


def measured(count: int, seed: int = 1) -> Measured:
    """Samples of two prompts and two models; some are the canon, some are repaired to it."""
    rng, found = random.Random(seed), []
    for _ in range(count):
        own, which = rng.choice(CELLS), rng.randrange(6)
        text, d = (CANON, 0.0) if which == 0 else (f"program {which}", which / 7)
        after = 0.0 if which in (1, 2) else d
        found.append((own.run_id, sample(text, d, after, prompt_id=own.prompt_id, contract_id=own.prompt_id)))
    return found


def tallies(folder: Path, samples: Measured, cells: list[RunRow] = CELLS) -> Tallies:
    with RunStore(folder) as store:
        store.append(cells, samples)
        with store.reading() as connection:
            return aggregate(connection, 0.1)


def test_tallies_of_a_store_equal_those_computed_in_memory(tmp_path: Path) -> None:
    samples = measured(300)
    found = tallies(tmp_path, samples)
    assert len(found.cells) == 4
    for run in CELLS:
        own = [s for run_id, s in samples if run_id == run.run_id]
        columns = ([s[name] for s in own] for name in ("signature_pre", "d_pre", "d_post"))
        tally = found.cells[Cell(run.prompt_id, run.model, run.temperature)]
        assert replace(tally, compliant_pre=0, compliant_post=0) == tally_of(*columns)
        assert tally.compliant_pre == tally.compliant_post == len(own)
    overall = metrics(found.overall, 0.1)
    assert overall.N == 300
    assert overall.R_anchor == sum(s["d_post"] == 0 for _, s in samples) / 300
    gcd = [s["signature_pre"] for _, s in samples if s["prompt_id"] == "gcd"]
    assert found.prompts["gcd"].modal == max(gcd.count(signature) for signature in set(gcd))
    assert found.overall.modal == sum(t.modal for t in found.prompts.values())


def test_order_of_rows_changes_nothing(tmp_path: Path) -> None:
    samples = measured(120)
    plain = tallies(tmp_path / "plain", samples)
    random.Random(5).shuffle(samples)
    shuffled = tallies(tmp_path / "shuffled", samples)
    assert shuffled.overall == plain.overall
    assert shuffled.cells == plain.cells


def test_a_prompt_without_samples_is_empty_not_missing(tmp_path: Path) -> None:
    found = tallies(tmp_path, [])
    assert metrics(found.prompts["gcd"], 0.1).R_raw == 0.0
    assert found.overall.n == 0


def test_mixed_versions_do_not_compare(tmp_path: Path) -> None:
    other = CELLS[1]._replace(normalization_version="n2")
    with pytest.raises(UserError, match=r"run r1 has normalization_version 'n2', another run of 'gcd'"):
        tallies(tmp_path, [], [CELLS[0], other])


def test_one_signature_has_one_distance_within_a_prompt_once_there_is_a_canon(tmp_path: Path) -> None:
    before = sample("program", 1.0, canon_signature=None)
    with_canon = [("r0", before), ("r0", sample("program", 0.5))]
    assert tallies(tmp_path / "before", with_canon).overall.n == 2
    with pytest.raises(UserError, match=r"'gcd': .* have d = 0\.5 and d = 0\.77"):
        tallies(tmp_path / "two", [*with_canon, ("r1", sample("program", 0.77))])


def test_without_a_canon_nothing_is_anchored(tmp_path: Path) -> None:
    found = tallies(tmp_path, [("r0", sample("program", 1.0, canon_signature=None))])
    assert metrics(found.overall, 0.1).R_anchor == 0.0
    assert metrics(found.overall, 0.1).mu_pre == 1.0
