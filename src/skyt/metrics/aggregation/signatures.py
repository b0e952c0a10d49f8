"""Counting signatures in bounded memory: in a dictionary up to a limit, in temporary files beyond it."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from skyt import records
from skyt.metrics.aggregation.columns import RowError
from skyt.metrics.aggregation.rows import SIG, D

_SPILL = 100_000  # distinct signatures held in memory


class SignatureCounts:
    """How often each signature occurs in each cell: in memory up to a limit, on disk beyond it."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, str, str]] = Counter()  # (cell, signature, d as written)
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> SignatureCounts:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, cells: Iterable[int], signatures: Iterable[str], d: Iterable[str]) -> None:
        self._counts.update(zip(cells, signatures, d, strict=True))
        if len(self._counts) > _SPILL:
            self._spill()

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="homeostat-")
        parts = defaultdict(list)
        for (cell, digest, d), count in self._counts.items():
            parts[digest[:2]].append(f"{cell}\t{digest}\t{d}\t{count}\n")
        for name, lines in parts.items():
            with (Path(self._folder.name) / name).open("a", encoding="utf-8") as file:
                file.writelines(lines)
        self._counts.clear()

    def _parts(self) -> Iterator[Counter[tuple[int, str, str]]]:
        """Counters of disjoint signatures."""
        if self._folder is None:
            yield self._counts
            return
        self._spill()
        for path in sorted(Path(self._folder.name).iterdir()):
            part: Counter[tuple[int, str, str]] = Counter()
            with path.open(encoding="utf-8") as file:
                for line in file:
                    cell, digest, d, count = line.split("\t")
                    part[int(cell), digest, d] += int(count)
            yield part

    def modal(self, prompts: list[str], folder: Path) -> tuple[dict[int, int], dict[str, int]]:
        """The count of the commonest signature by cell and by prompt.

        On the way: the same signature has the same distance throughout a prompt, or the records are wrong.
        """
        by_cell: dict[int, int] = defaultdict(int)
        by_prompt: dict[str, int] = defaultdict(int)
        for part in self._parts():
            totals: Counter[tuple[str, str]] = Counter()
            distance: dict[tuple[str, str], str] = {}
            for (cell, digest, d), count in part.items():
                by_cell[cell] = max(by_cell[cell], count)
                key = (prompts[cell], digest)
                totals[key] += count
                if float(d) == 1.0:  # also what a sample has that came before the canon
                    continue
                if distance.setdefault(key, d) != d and float(distance[key]) != float(d):
                    raise self._inconsistent(folder / records.PRE, digest, d, distance[key])
            for (prompt, _), count in totals.items():
                by_prompt[prompt] = max(by_prompt[prompt], count)
        return by_cell, by_prompt

    @staticmethod
    def _inconsistent(path: Path, digest: str, d: str, other: str) -> RowError:
        with records.open_csv(path) as rows:
            for line, row in enumerate(rows, start=2):
                if row[SIG] == digest and row[D] == d:
                    return RowError(
                        path, line, row, f"d = {d}, where the same signature has d = {other} elsewhere"
                    )
        raise AssertionError("the row was there a moment ago")
