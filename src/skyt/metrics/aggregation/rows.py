"""The runs of a folder, and its distance files side by side: matching rows of pre and post, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from skyt import records
from skyt.metrics.aggregation.columns import ColumnReader, Columns, Row, RowError


@dataclass(frozen=True)
class Cell:
    """A prompt asked of one model at one temperature."""

    prompt_id: str
    model: str
    temperature: float


class Runs:
    """`runs.csv`: which cell each run_id belongs to."""

    def __init__(self, path: Path) -> None:
        self.cells: list[Cell] = []
        self.index: dict[str, int] = {}  # run_id -> position in cells
        self.versions: dict[str, records.Versions] = {}  # by prompt
        known: dict[Cell, int] = {}
        with records.open_csv(path) as rows:
            for line, values in enumerate(rows, start=2):
                if len(values) != len(records.RunRow._fields):
                    raise RowError(path, line, values, f"has {len(values)} columns")
                row = records.RunRow._make(values)
                if row.run_id in self.index:
                    raise RowError(path, line, values, "this run_id appears twice")
                try:
                    cell = Cell(row.prompt_id, row.model, float(row.temperature))
                except ValueError:
                    raise RowError(path, line, values, f"temperature = {row.temperature!r}") from None
                known_versions = self.versions.setdefault(row.prompt_id, row.versions)
                for name, version in row.versions._asdict().items():
                    if version != getattr(known_versions, name):
                        problem = (
                            f"{name} {version!r}, where other rows of its prompt have "
                            f"{getattr(known_versions, name)!r}: versions do not compare"
                        )
                        raise RowError(path, line, values, problem)
                if cell not in known:
                    known[cell] = len(self.cells)
                    self.cells.append(cell)
                self.index[row.run_id] = known[cell]


@dataclass(frozen=True)
class Block:
    """Pre and post rows of the same samples, as columns, and where they stand in their files."""

    pre: Columns
    post: Columns
    pre_lines: Sequence[int]
    post_lines: Sequence[int]
    folder: Path

    @property
    def aligned(self) -> bool:
        return self.pre[SAMPLE] == self.post[SAMPLE] and self.pre[RUN] == self.post[RUN]

    def error(self, stage: str, at: int, problem: str) -> RowError:
        columns, lines = (self.pre, self.pre_lines) if stage == "pre" else (self.post, self.post_lines)
        name = records.PRE if stage == "pre" else records.POST
        return RowError(self.folder / name, lines[at], [column[at] for column in columns], problem)


RUN, SAMPLE, PROMPT, STAGE, SIG, D, COMPLIANT = range(7)


def version_columns(path: Path) -> dict[str, int]:
    """Where a file's versions stand, without those that its earlier form does not have."""
    columns = records.columns_of(path)
    return {name: columns.index(name) for name in records.Versions._fields if name in columns}


def wrong_version(names: Sequence[str], found: Sequence[str], wanted: records.Versions) -> str | None:
    """What is wrong with a row's versions, given those of its run; nothing on record there is no check."""
    for name, version in zip(names, found, strict=True):
        expected = getattr(wanted, name)
        if expected and version != expected:
            return f"{name} {version!r}, its run has {expected!r}"
    return None


def paired(folder: Path) -> Iterator[Block]:
    """Blocks of matching rows. Files in the same order need no memory; others wait for their partners."""
    with ColumnReader(folder / records.PRE) as pre, ColumnReader(folder / records.POST) as post:
        join: _Join | None = None
        line, last = 2, -1
        while True:
            a, b = pre.read(), post.read()
            if not a and not b:
                break
            if join is None and a and b and len(a[RUN]) == len(b[RUN]):
                lines = range(line, line + len(a[RUN]))
                block = Block(a, b, lines, lines, folder)
                newest = _increasing(a[SAMPLE], last)
                if newest is not None and block.aligned:
                    yield block
                    line, last = lines.stop, newest
                    continue
            join = join or _Join(folder, line)
            yield from join.match(a, b)
        if join is not None:
            join.finish()


def _increasing(sample_ids: Sequence[str], last: int) -> int | None:
    """The last number if all are numbers and go up from `last`: then no sample can appear twice."""
    try:
        numbers = np.fromiter(map(int, sample_ids), dtype=np.int64, count=len(sample_ids))
    except (ValueError, OverflowError):
        return None
    ordered = numbers[0] > last and bool(np.all(numbers[1:] > numbers[:-1]))
    return int(numbers[-1]) if ordered else None


class _Join:
    """Joins rows whose order differs between the files, which costs memory for one key per sample."""

    def __init__(self, folder: Path, line: int) -> None:
        self._folder = folder
        self._paths = (folder / records.PRE, folder / records.POST)
        self._lines = [line, line]
        before = set()
        with records.open_csv(self._paths[0]) as rows:
            for row in islice(rows, line - 2):
                before.add((row[RUN], row[SAMPLE]))
        self._seen = (before, set(before))
        self._waiting: tuple[dict[Any, tuple[int, Row]], ...] = ({}, {})

    def match(self, a: Columns, b: Columns) -> Iterator[Block]:
        matched = []
        for side, columns in enumerate((a, b)):
            for row in zip(*columns, strict=True):
                line = self._lines[side]
                self._lines[side] += 1
                key = (row[RUN], row[SAMPLE])
                if key in self._seen[side]:
                    stage = ("pre", "post")[side]
                    raise RowError(self._paths[side], line, row, f"a second {stage} row of the same sample")
                self._seen[side].add(key)
                partner = self._waiting[1 - side].pop(key, None)
                if partner is None:
                    self._waiting[side][key] = (line, row)
                else:
                    matched.append(((line, row), partner) if side == 0 else (partner, (line, row)))
        if matched:
            first, second = zip(*matched, strict=True)
            yield Block(
                list(zip(*(row for _, row in first), strict=True)),
                list(zip(*(row for _, row in second), strict=True)),
                [line for line, _ in first],
                [line for line, _ in second],
                self._folder,
            )

    def finish(self) -> None:
        for side, other in enumerate(("post", "pre")):
            for line, row in self._waiting[side].values():
                raise RowError(self._paths[side], line, row, f"this sample has no {other} row")
