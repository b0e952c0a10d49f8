"""From the CSVs of a run to tallies, with every row checked.

The files are read into a temporary SQLite database, which is on disk as soon as it is large, and every rule
about a row is a query. Only distances are held in memory: four numbers for each sample.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from homeostat.core.errors import UserError
from skyt import records
from skyt.metrics.formulas import EVIDENCE, Array, Tally, tally_distances

_CACHE_KIB = 1 << 16
_TABLES = {"pre": records.PRE, "post": records.POST, "repair": records.REPAIRS}
# Columns as numbers, to be compared; figures are computed from the texts, which Python rounds correctly.
_NUMBERS = {"pre": {"x": "d"}, "post": {"x": "d"}, "repair": {"x": "d_before", "y": "d_after"}}


class RowError(UserError):
    """A row that breaks a rule; the message names the file, the line and the sample."""

    def __init__(self, path: Path, line: int, row: Mapping[str, str], problem: str) -> None:
        names = ("run_id", "sample_id", "prompt_id")
        where = ", ".join(f"{name} {row[name]}" for name in names if name in row)
        super().__init__(f"{path}, line {line} ({where}): {problem}")


@dataclass(frozen=True)
class Cell:
    """A prompt asked of one model at one temperature."""

    prompt_id: str
    model: str
    temperature: float


@dataclass
class Tallies:
    """The tallies of a run: by cell, by prompt, and over everything."""

    cells: dict[Cell, Tally] = field(default_factory=dict)
    prompts: dict[str, Tally] = field(default_factory=dict)
    overall: Tally = field(default_factory=Tally)
    versions: dict[str, records.Versions] = field(default_factory=dict)  # by prompt


def aggregate(folder: Path, tau: float, canons: Mapping[str, str | None]) -> Tallies:
    """Read `runs.csv`, both distance files and `repairs.csv`. `canons`: each prompt's canon signature."""
    with closing(sqlite3.connect("")) as database:
        database.row_factory = sqlite3.Row
        database.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        rows = _Rows(folder, database)
        rows.read_runs(canons)
        for table in _TABLES:
            rows.read(table)
        rows.check()
        return _tallies(rows, tau)


class _Rows:
    """The rows of a run in a database."""

    def __init__(self, folder: Path, database: sqlite3.Connection) -> None:
        self.folder, self.query = folder, database.execute
        self._insert = database.executemany
        self.cells: list[Cell] = []
        self.versions: dict[str, records.Versions] = {}  # by prompt

    def read_runs(self, canons: Mapping[str, str | None]) -> None:
        """`runs.csv`: which cell each run_id belongs to, and the versions of each prompt."""
        path = self.folder / records.RUNS
        versions = ", ".join(records.Versions._fields)
        self.query(f"CREATE TABLE run (run_id PRIMARY KEY, cell, prompt_id, canon, {versions}) WITHOUT ROWID")
        for line, row in enumerate(records.read_rows(path), start=2):
            if len(row) != len(records.RunRow._fields):
                raise RowError(path, line, row, f"has {len(row)} columns")
            own = records.Versions(*(row[name] for name in records.Versions._fields))
            prompt = row["prompt_id"]
            for name, version, other in zip(
                own._fields, own, self.versions.setdefault(prompt, own), strict=True
            ):
                if version != other:
                    problem = f"{name} {version!r}, where other rows of its prompt have {other!r}: versions"
                    raise RowError(path, line, row, f"{problem} do not compare")
            try:
                cell = Cell(prompt, row["model"], float(row["temperature"]))
            except ValueError:
                raise RowError(path, line, row, f"temperature = {row['temperature']!r}") from None
            if cell not in self.cells:
                self.cells.append(cell)
            values = (row["run_id"], self.cells.index(cell), prompt, canons.get(prompt), *own)
            try:
                self.query(f"INSERT INTO run VALUES ({','.join('?' * len(values))})", values)
            except sqlite3.IntegrityError:
                raise RowError(path, line, row, "this run_id appears twice") from None

    def read(self, table: str) -> None:
        """The rows of one file; `line` counts them from 1, below the header."""
        path = self.folder / _TABLES[table]
        names = records.COLUMNS[path.name]
        numbers = (f"{name} REAL AS ({column}) VIRTUAL" for name, column in _NUMBERS[table].items())
        columns = [f"{name} TEXT" for name in names]
        self.query(f"CREATE TABLE {table} (line INTEGER PRIMARY KEY, {', '.join((*columns, *numbers))})")
        insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({','.join('?' * len(names))})"
        with records.open_csv(path) as rows:
            try:
                self._insert(insert, rows)
            except sqlite3.ProgrammingError:
                self._refuse_width(path, names)
                raise

    @staticmethod
    def _refuse_width(path: Path, names: tuple[str, ...]) -> None:
        with records.open_csv(path) as rows:
            for line, row in enumerate(rows, start=2):
                if len(row) != len(names):
                    named = dict(zip(names, row, strict=False))
                    problem = f"has {len(row)} columns where {len(names)} are fixed"
                    raise RowError(path, line, named, problem)

    def check(self) -> None:
        """Refuse the first row that breaks a rule."""
        for table in ("pre", "post"):
            self._refuse(
                table, _problem([*_of_its_run(table), *_DISTANCE], table), "LEFT JOIN run USING (run_id)"
            )
            key = "run_id, sample_id"
            try:
                self.query(f"CREATE UNIQUE INDEX {table}_key ON {table} ({key})")
            except sqlite3.IntegrityError:
                again = f"(row_number() OVER (PARTITION BY {key} ORDER BY line) > 1)"
                second = f"(SELECT line AS at, {again} AS again FROM {table})"
                problem = f"CASE WHEN again THEN 'a second {table} row of the same sample' END"
                self._refuse(table, problem, f"JOIN {second} ON at = line")
        other = "LEFT JOIN {0} AS other USING (run_id, sample_id)".format
        self._refuse(
            "pre", "CASE WHEN other.line IS NULL THEN 'this sample has no post row' END", other("post")
        )
        self._refuse("post", _problem(_AFTER, "post"), other("pre"))
        repair = [*_of_its_run("repair"), *_REPAIR]
        self._refuse("repair", _problem(repair, "repair"), "LEFT JOIN run USING (run_id)")
        self._one_distance_by_signature()

    def _refuse(self, table: str, problem: str, join: str) -> None:
        found = self.query(
            f"SELECT {table}.*, {problem} AS problem FROM {table} {join} "
            f"WHERE problem IS NOT NULL ORDER BY {table}.line LIMIT 1"
        ).fetchone()
        if found is not None:
            raise RowError(self.folder / _TABLES[table], found["line"] + 1, dict(found), found["problem"])

    def _one_distance_by_signature(self) -> None:
        """A signature has one distance throughout a prompt, or 1.0: before there was a canon."""
        self.query(
            "CREATE TEMP TABLE counts AS SELECT cell, signature, min(x) AS low, max(x) AS high, "
            "count(*) AS n, pre.prompt_id FROM pre JOIN run USING (run_id) "
            "GROUP BY signature, cell, x = 1.0"
        )
        found = self.query(
            "SELECT prompt_id, signature, min(low) AS low, max(high) AS high FROM counts WHERE low < 1.0 "
            "GROUP BY prompt_id, signature HAVING min(low) < max(high) LIMIT 1"
        ).fetchone()
        if found is not None:
            row = self.query(
                "SELECT * FROM pre WHERE prompt_id = ? AND signature = ? AND x = ? LIMIT 1",
                (found["prompt_id"], found["signature"], found["high"]),
            ).fetchone()
            problem = f"d = {row['d']}, where the same signature has d = {found['low']} elsewhere"
            raise RowError(self.folder / records.PRE, row["line"] + 1, dict(row), problem)

    def distances(self) -> list[Array]:
        """For each cell: d before and after repair, compliant before and after, one row for each sample."""
        found = [array("d") for _ in self.cells]
        query = (
            "SELECT cell, pre.d, post.d, pre.compliant = 'true', post.compliant = 'true' FROM pre "
            "JOIN post USING (run_id, sample_id) JOIN run USING (run_id)"
        )
        for cell, pre, post, *compliant in self.query(query):
            found[cell].extend((float(pre), float(post), *compliant))
        return [np.frombuffer(values, dtype=np.float64).reshape(-1, 4) for values in found]

    def evidence(self) -> dict[tuple[int, str], int]:
        """Canonical samples by cell and evidence, from the successful rows of `repairs.csv`."""
        query = (
            "SELECT cell, substr(reason, 1, instr(reason, ':') - 1), count(*) FROM repair "
            "JOIN run USING (run_id) WHERE y = 0.0 GROUP BY 1, 2"
        )
        return {(cell, level): count for cell, level, count in self.query(query)}

    def modal(self, by: str) -> dict[int | str, int]:
        """The count of the commonest signature by cell or by prompt."""
        return dict(
            tuple(row)
            for row in self.query(
                f"SELECT {by}, max(n) FROM (SELECT {by}, sum(n) AS n FROM counts GROUP BY {by}, signature) "
                f"GROUP BY {by}"
            )
        )


def _problem(rules: Iterable[tuple[str, str]], table: str) -> str:
    """An SQL expression: what is wrong with a row, or NULL. Rules are pairs of a condition and a message."""
    cases = (f"WHEN {condition} THEN {message}" for condition, message in rules)
    return f"CASE {' '.join(cases)} END".replace("{table}", table)


def _of_its_run(table: str) -> Iterator[tuple[str, str]]:
    yield "run.run_id IS NULL", "'runs.csv has no such run'"
    if table != "repair":
        yield "{table}.prompt_id <> run.prompt_id", "'its run has another prompt'"
    for name in records.Versions._fields:
        message = f"printf('{name} ''%s'', its run has ''%s''', {{table}}.{name}, run.{name})"
        yield f"{{table}}.{name} <> run.{name}", message


_DISTANCE = (
    ("stage <> '{table}'", "printf('stage = ''%s'', which must be ''{table}'' here', stage)"),
    ("typeof(x) <> 'real' AND d NOT IN ('nan', 'inf', '-inf')", "printf('d = ''%s'' is not a number', d)"),
    ("typeof(x) <> 'real' OR x NOT BETWEEN 0 AND 1", "printf('d = %s is outside [0, 1]', d)"),
    (
        "length(signature) <> 64 OR signature GLOB '*[^0-9a-f]*'",
        "printf('signature ''%s'' is not 64 hexadecimal digits', signature)",
    ),
    ("canon IS NULL AND x <> 1.0", "printf('d = %s, but without a canon it is 1.0 by definition', d)"),
    ("signature = canon AND x > 0.0", "printf('d = %s, but has the canon''s signature', d)"),
    ("signature <> canon AND x = 0.0", "printf('d = %s, but is not the canon', d)"),
    ("compliant NOT IN ('true', 'false')", "printf('compliant = ''%s'', not true or false', compliant)"),
)
_AFTER = (
    ("other.line IS NULL", "'this sample has no pre row'"),
    (
        "{table}.x > other.x",
        "printf('d = %s is above d = %s before repair: repair is monotone', {table}.d, other.d)",
    ),
)
_REPAIR = (
    ("typeof(x) <> 'real' OR typeof(y) <> 'real'", "'d_before or d_after is not a number'"),
    (
        "NOT (0.0 <= y AND y <= x AND x <= 1.0)",
        "printf('d goes from %s to %s: repair is monotone and stays within [0, 1]', d_before, d_after)",
    ),
    ("(success = 'true') <> (y = 0.0)", "printf('success = %s with d_after = %s', success, d_after)"),
    (
        f"y = 0.0 AND substr(reason, 1, instr(reason || ':', ':') - 1) NOT IN {EVIDENCE[1:]}",
        "printf('reason = ''%s'' names no evidence for d = 0', reason)",
    ),
)


def _tallies(rows: _Rows, tau: float) -> Tallies:
    samples, evidence = rows.distances(), rows.evidence()
    modal, modal_of_prompt = rows.modal("cell"), rows.modal("prompt_id")

    def tally(cells: Iterable[int], commonest: int) -> Tally:
        chosen = list(cells)
        together = np.concatenate([samples[cell] for cell in chosen]) if chosen else np.empty((0, 4))
        pre, post, *compliant = together.T
        levels = [sum(evidence.get((cell, level), 0) for cell in chosen) for level in EVIDENCE[1:]]
        return tally_distances(
            pre,
            post,
            tau,
            modal=commonest,
            compliant=(int(compliant[0].sum()), int(compliant[1].sum())),
            evidence=(levels[0], levels[1]),
        )

    result = Tallies(versions=rows.versions)
    for at, cell in enumerate(rows.cells):
        found = result.cells[cell] = tally([at], modal.get(at, 0))
        repaired = sum(found.evidence[1:])
        if repaired != found.rescued:
            raise UserError(
                f"repairs.csv has {repaired} successful repairs for {cell.prompt_id}, {cell.model}, "
                f"temperature {cell.temperature}, where the distances show {found.rescued}: not the same run"
            )
    for prompt in rows.versions:
        own = (at for at, cell in enumerate(rows.cells) if cell.prompt_id == prompt)
        result.prompts[prompt] = tally(own, modal_of_prompt.get(prompt, 0))
    result.overall = tally(range(len(rows.cells)), sum(t.modal for t in result.prompts.values()))
    return result
