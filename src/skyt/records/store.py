"""Samples in a database: a file of its own for each run, or that of the service, with the same tables.

A *ledger* is one numbered sequence of samples. Functions here work within the caller's transaction, so that
what belongs together is committed together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import RowMapping, bindparam, delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from homeostat.core.errors import UserError
from homeostat.core.records import utc_now, validate
from skyt.records.columns import SAMPLES, STORE, RunRow
from skyt.records.engine import Durability, open_database, reason_of
from skyt.records.sample import Sample
from skyt.records.tables import ledgers, runs, samples

RUN = "run"  # the ledger of a run's own file
_BLOCK = 500  # samples read or copied together

# Built once: building a statement costs more than SQLite takes to run it.
_TAKE_NUMBERS = (
    update(ledgers)
    .where(ledgers.c.name == bindparam("ledger"), ledgers.c.closed_at.is_(None))
    .values(next_sample=ledgers.c.next_sample + bindparam("taken"))
    .returning(ledgers.c.next_sample)
)
_ADD_SAMPLES = insert(samples)


def encode(record: Any) -> str:
    """ASCII JSON: NULs and lone surrogates, which databases refuse, are escaped."""
    return json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


USAGE = ("prompt_tokens", "completion_tokens", "cost")  # of a sample, as the endpoint reports it


def sample_row(ledger: str, number: int, sample: Sample) -> dict[str, Any]:
    own = ("run_id", "prompt_id", "normalization_version", "evidence", "canon_signature")
    staged = ("signature_pre", "signature_post", "d_pre", "d_post")
    return {
        "ledger": ledger,
        "number": number,
        **{name: sample[name] for name in (*own, *staged)},
        "compliant_pre": sample["oracle_pre"]["compliant"],
        "compliant_post": sample["oracle_post"]["compliant"],
        "timestamp": sample.timestamp,
        **{name: sample.record.get("usage", {}).get(name) for name in USAGE},
        "record": encode(sample.record),
    }


def sample_of(row: RowMapping) -> Sample:
    return Sample(json.loads(row["record"]), row["timestamp"])


def take_numbers(connection: Connection, ledger: str, count: int) -> int | None:
    """The first of `count` numbers of an open ledger; others wait for its row until the transaction ends."""
    following = connection.execute(_TAKE_NUMBERS, {"ledger": ledger, "taken": count}).scalar()
    return None if following is None else int(following) - count


def add_samples(connection: Connection, ledger: str, placed: Sequence[Sample], **about: Any) -> None:
    """Insert samples under the numbers they carry."""
    rows = [{**sample_row(ledger, int(sample["sample_id"]), sample), **about} for sample in placed]
    if rows:
        connection.execute(_ADD_SAMPLES, rows)


def add_runs(connection: Connection, ledger: str, rows: Iterable[RunRow]) -> None:
    """Add cells; those already on record (same run_id) are left as they are."""
    known = list(connection.execute(select(runs.c.run_id).where(runs.c.ledger == ledger)).scalars())
    for row in rows:
        if row.run_id not in known:
            values = {"ledger": ledger, "number": len(known), **row._asdict()}
            connection.execute(insert(runs).values(**values))
            known.append(row.run_id)


def read_runs(connection: Connection, ledger: str) -> list[RunRow]:
    columns = [runs.c[name] for name in RunRow._fields]
    found = connection.execute(select(*columns).where(runs.c.ledger == ledger).order_by(runs.c.number))
    return [RunRow(*row) for row in found]


def read_samples(connection: Connection, ledger: str) -> Iterator[Sample]:
    """Every sample in the order of its number, a block at a time."""
    query = select(samples.c.record, samples.c.timestamp).where(samples.c.ledger == ledger)
    options = connection.execution_options(yield_per=_BLOCK)
    for row in options.execute(query.order_by(samples.c.number)).mappings():
        yield sample_of(row)


def copy_ledger(
    source: Connection, ledger: str, target: Connection, name: str, closed_at: str | None = None
) -> int:
    """Copy a ledger with its cells into a new one of another database; returns the number of samples."""
    cells = read_runs(source, ledger)
    opened = {"name": name, "created_at": utc_now(), "next_sample": 0, "next_run": len(cells)}
    target.execute(insert(ledgers).values(**opened))
    add_runs(target, name, cells)
    count, following, block = 0, 0, list[Sample]()
    for sample in read_samples(source, ledger):
        block.append(sample)
        following = int(sample["sample_id"]) + 1
        count += 1
        if len(block) == _BLOCK:
            add_samples(target, name, block)
            block = []
    add_samples(target, name, block)
    ending = {"next_sample": following, "closed_at": closed_at}
    target.execute(update(ledgers).where(ledgers.c.name == name).values(**ending))
    return count


class RunStore:
    """The records of a run directory. Any number of processes may add to them at the same time."""

    def __init__(self, folder: Path, durability: Durability = "process") -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot keep records in {folder}: {error.strerror or error}") from error
        self.engine = open_database(str(self.folder / STORE), durability)

    @classmethod
    def existing(cls, folder: Path) -> RunStore:
        """The records of a run that was begun earlier."""
        folder = Path(folder)
        if (folder / STORE).exists():
            return cls(folder)
        if (folder / SAMPLES).exists():
            way = f"measure its outputs anew with `homeostat code replay {folder / SAMPLES}`"
            raise UserError(f"{folder} has no {STORE}, it was made by an earlier version: {way}")
        raise UserError(f"{folder} has no {STORE}: is it the folder of a skyt run?")

    def close(self) -> None:
        self.engine.dispose()

    def __enter__(self) -> RunStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One state of the records, whatever is added meanwhile."""
        with self.engine.connect().execution_options(reading=True) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: all of it is on record when it ends, or nothing."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise UserError(f"cannot write records in {self.folder}: {reason_of(error)}") from error

    def append(
        self, cells: Iterable[RunRow], measured: Sequence[tuple[str, Sample]], *, numbered: bool = False
    ) -> list[Sample]:
        """Add samples of the given run_ids after those on record, all or none, and the cells that are new.

        With `numbered` a sample's number within its cell is the one it has within the run.
        """
        for _, sample in measured:
            validate(sample.record, "sample")
        with self.writing() as connection:
            _open_ledger(connection)
            add_runs(connection, RUN, cells)
            first = take_numbers(connection, RUN, len(measured)) or 0
            placed = [
                sample.placed(run_id, number, number if numbered else sample["sample"], sample.timestamp)
                for number, (run_id, sample) in enumerate(measured, start=first)
            ]
            add_samples(connection, RUN, placed)
        return placed

    def archive(self, folder: Path) -> int:
        """Move every record into a store of its own in `folder`; returns the number of samples."""
        with self.writing() as connection:
            if not read_runs(connection, RUN):
                return 0
            with RunStore(folder) as archived, archived.writing() as target:
                count = copy_ledger(connection, RUN, target, RUN)
            for table in (samples, runs, ledgers):
                connection.execute(delete(table))
        return count

    def count(self) -> int:
        """Samples on record."""
        with self.reading() as connection:
            query = select(ledgers.c.next_sample).where(ledgers.c.name == RUN)
            return int(connection.execute(query).scalar() or 0)

    def samples(self) -> Iterator[Sample]:
        """Every sample in order; what is added meanwhile is left out."""
        with self.reading() as connection:
            yield from read_samples(connection, RUN)

    def find(self, number: int) -> Sample | None:
        query = select(samples).where(samples.c.ledger == RUN, samples.c.number == number)
        with self.reading() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else sample_of(row)


def _open_ledger(connection: Connection) -> None:
    if connection.execute(select(ledgers.c.name).where(ledgers.c.name == RUN)).scalar() is None:
        opened = {"name": RUN, "created_at": utc_now(), "next_sample": 0, "next_run": 0}
        connection.execute(insert(ledgers).values(**opened))
