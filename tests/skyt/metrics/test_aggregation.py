from __future__ import annotations

import csv
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from homeostat.core.errors import UserError
from skyt import records
from skyt.metrics.aggregation import Cell, Tallies, aggregate
from skyt.metrics.formulas import metrics, tally_of
from skyt.text.signature import signature

STAMP = "2026-01-01T00:00:00.000Z"
CANON = signature("canon")
Rows = list[list[Any]]


def write(folder: Path, name: str, rows: Rows) -> None:
    with (folder / name).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(records.COLUMNS[name])
        writer.writerows(rows)


class Run:
    """A small consistent run of two prompts and two models, to be broken in one place by each test."""

    def __init__(self, folder: Path, samples: int = 40, seed: int = 1) -> None:
        rng = random.Random(seed)
        self.folder = folder
        self.runs: Rows = []
        self.pre: Rows = []
        self.post: Rows = []
        self.repairs: Rows = []
        self.truth: dict[Cell, list[tuple[str, float, float]]] = {}
        cells = [Cell(p, m, 0.7) for p in ("gcd", "slugify") for m in ("m1", "m,2")]
        for at, cell in enumerate(cells):
            self.runs.append(
                [
                    f"r{at}",
                    cell.prompt_id,
                    "test",
                    STAMP,
                    cell.model,
                    0.7,
                    0,
                    "o1",
                    "n1",
                    cell.prompt_id,
                    "d1",
                ]
            )
        for number in range(samples):
            at = rng.randrange(len(cells))
            which = rng.randrange(6)
            sig = CANON if which == 0 else signature(f"program {which}")
            d = which / 7
            rescued = which in (1, 2)
            after, d_after = (CANON, 0.0) if rescued else (sig, d)
            key = [f"r{at}", f"{number:06d}", cells[at].prompt_id]
            self.pre.append([*key, "pre", sig, d, "true", "n1", STAMP, "o1", "d1"])
            self.post.append([*key, "post", after, d_after, "true", "n1", STAMP, "o1", "d1"])
            if d > 0:
                word = "rewritten: same normal form" if rescued else "none: differs"
                success = "true" if rescued else "false"
                self.repairs.append(
                    [key[0], key[1], sig, after, d, d_after, 2, success, word, STAMP, "o1", "n1", "d1"]
                )
            self.truth.setdefault(cells[at], []).append((sig, d, d_after))

    def aggregate(self, canons: dict[str, str | None] | None = None) -> Tallies:
        write(self.folder, records.RUNS, self.runs)
        write(self.folder, records.PRE, self.pre)
        write(self.folder, records.POST, self.post)
        write(self.folder, records.REPAIRS, self.repairs)
        return aggregate(self.folder, 0.1, canons or {"gcd": CANON, "slugify": CANON})


def test_streamed_tallies_equal_those_computed_in_memory(tmp_path: Path) -> None:
    run = Run(tmp_path, 300)
    found = run.aggregate()
    assert len(found.cells) == 4
    for cell, samples in run.truth.items():
        expected = tally_of(*(list(column) for column in zip(*samples, strict=True)))  # type: ignore[arg-type]
        assert replace(found.cells[cell], compliant_pre=0, compliant_post=0) == expected
    everything = [s for samples in run.truth.values() for s in samples]
    overall = metrics(found.overall, 0.1)
    assert overall.N == 300
    assert overall.R_anchor == sum(s[2] == 0 for s in everything) / 300
    gcd = [s[0] for cell, samples in run.truth.items() if cell.prompt_id == "gcd" for s in samples]
    assert found.prompts["gcd"].modal == max(gcd.count(sig) for sig in set(gcd))
    assert found.overall.modal == sum(t.modal for t in found.prompts.values())


def test_order_of_rows_changes_nothing(tmp_path: Path) -> None:
    plain = Run(tmp_path, 120).aggregate()
    run = Run(tmp_path, 120)
    rng = random.Random(5)
    for rows in (run.pre, run.post, run.repairs):
        rng.shuffle(rows)
    shuffled = run.aggregate()
    assert shuffled.overall == plain.overall
    assert shuffled.cells == plain.cells


def test_a_prompt_without_samples_is_empty_not_missing(tmp_path: Path) -> None:
    run = Run(tmp_path, 0)
    found = run.aggregate()
    assert metrics(found.prompts["gcd"], 0.1).R_raw == 0.0
    assert found.overall.n == 0


def change(at: int, column: int, value: Any, table: str = "pre") -> Callable[[Run], None]:
    return lambda run: getattr(run, table)[at].__setitem__(column, value)


BREAKS: dict[str, tuple[Callable[[Run], Any], str]] = {
    "distance above one": (
        change(7, 5, 1.5),
        r"distances_pre\.csv, line 9 .*000007.*outside \[0, 1\]",
    ),
    "distance below zero": (change(7, 5, -0.1, "post"), r"distances_post\.csv, line 9.*outside"),
    "distance not a number": (change(3, 5, "near"), r"distances_pre\.csv, line 5.*'near' is not a number"),
    "distance nan": (change(3, 5, "nan"), r"line 5.*outside"),
    "wrong stage": (change(2, 3, "post"), r"distances_pre\.csv, line 4.*stage = 'post'"),
    "broken signature": (change(2, 4, "abc"), r"line 4.*64 hexadecimal"),
    "unknown run": (change(2, 0, "r9"), r"runs\.csv has no such run|no post row"),
    "other normalisation": (change(4, 7, "n2"), r"distances_pre\.csv, line 6.*normalization_version 'n2'"),
    "not true or false": (change(4, 6, "yes"), r"line 6.*'yes'"),
    "missing column": (lambda run: run.pre[5].pop(), r"distances_pre\.csv, line 7.*10 columns"),
    "no post row": (lambda run: run.post.pop(11), r"distances_pre\.csv, line 13.*000011.*no post row"),
    "no pre row": (lambda run: run.pre.pop(11), r"distances_post\.csv, line 13.*no pre row"),
    "second pre row": (lambda run: run.pre.insert(20, run.pre[4]), r"line 22.*second pre row"),
    "second post row": (lambda run: run.post.append(run.post[4]), r"line 42.*second post row"),
    "run twice": (lambda run: run.runs.append(run.runs[0]), r"runs\.csv, line 6.*twice"),
    "versions mixed": (change(1, 8, "n2", "runs"), r"runs\.csv, line 3.*do not compare"),
    "temperature": (change(1, 5, "hot", "runs"), r"runs\.csv, line 3.*'hot'"),
    "repair of unknown run": (change(0, 0, "r9", "repairs"), r"repairs\.csv, line 2.*no such run"),
    "repair raises d": (change(0, 5, 0.99, "repairs"), r"repairs\.csv, line 2.*monotone"),
    "repair without evidence": (
        lambda run: next(r for r in run.repairs if r[7] == "true").__setitem__(8, "luck"),
        r"repairs\.csv.*names no evidence",
    ),
    "repair lost": (
        lambda run: run.repairs.remove(next(r for r in run.repairs if r[7] == "true")),
        r"repairs\.csv",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_rule_names_the_offending_row(tmp_path: Path, name: str) -> None:
    damage, message = BREAKS[name]
    run = Run(tmp_path)
    damage(run)
    with pytest.raises(UserError, match=message) as caught:
        run.aggregate()
    assert "\n" not in str(caught.value)


def test_a_post_distance_above_the_pre_distance_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path)
    at = next(i for i, row in enumerate(run.post) if 0 < row[5] < 0.5)
    run.post[at][5] = 0.9
    with pytest.raises(UserError, match=rf"distances_post\.csv, line {at + 2}.*monotone"):
        run.aggregate()


def test_distance_zero_belongs_to_the_canons_signature_alone(tmp_path: Path) -> None:
    run = Run(tmp_path)
    at = next(i for i, row in enumerate(run.post) if row[4] != CANON)
    run.post[at][5] = 0.0
    with pytest.raises(UserError, match="is not the canon"):
        run.aggregate()
    run = Run(tmp_path)
    at = next(i for i, row in enumerate(run.pre) if row[4] == CANON)
    run.pre[at][5] = 0.3
    with pytest.raises(UserError, match="has the canon's signature"):
        run.aggregate()


def test_without_a_canon_every_distance_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"without a canon it is 1\.0 by definition"):
        Run(tmp_path).aggregate({"gcd": CANON, "slugify": None})
    run = Run(tmp_path)
    for rows in (run.pre, run.post):
        for row in rows:
            row[5] = 1.0
    run.repairs.clear()
    found = run.aggregate({"gcd": None})
    assert metrics(found.overall, 0.1).R_anchor == 0.0
    assert metrics(found.overall, 0.1).mu_pre == 1.0


def test_one_signature_has_one_distance_within_a_prompt(tmp_path: Path) -> None:
    run = Run(tmp_path)
    at = next(i for i, row in enumerate(run.pre) if row[4] == signature("program 4"))
    run.pre[at][5] = 0.77
    with pytest.raises(UserError, match="the same signature has d"):
        run.aggregate()


def test_foreign_files_with_quotes_and_carriage_returns_are_read(tmp_path: Path) -> None:
    plain = Run(tmp_path, 60).aggregate()
    for name in (records.PRE, records.POST, records.REPAIRS, records.RUNS):
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text.replace("\n", "\r\n"), newline="")
    assert aggregate(tmp_path, 0.1, {"gcd": CANON, "slugify": CANON}) == plain
