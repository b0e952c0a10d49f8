"""The store: canons and samples, written in transactions that keep one canon a prompt whatever races for it.

A sample and the canon it fixes go in together. Every writer of a ledger first takes the ledger's row, so
transactions on it happen one after another; the primary key of `canons` is what guarantees a single canon.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import and_, bindparam, func, insert, select, update
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError

from homeostat.core.errors import UserError
from homeostat.core.records import utc_now
from skyt.canon import Canon, Versions
from skyt.records import Durability, Sample
from skyt.records.engine import open_database
from skyt.records.store import add_samples, encode, sample_of, sample_row, take_numbers
from skyt.records.tables import answers, canons, ledgers, runs, samples
from skyt.serve.database.canons import CANON_SIGNATURE, SERVICE, CanonTable

_CELL = ("prompt_id", "model", "temperature", "oracle_version", "normalization_version", "distance_version")

# What every request executes is built once: building a statement costs more than SQLite takes to run it.
_RUN_OF_CELL = select(runs.c.run_id).where(
    runs.c.ledger == bindparam("ledger"), and_(*(runs.c[name] == bindparam(name) for name in _CELL))
)


class CanonMoved(Exception):  # noqa: N818 - not an error: measure again, against the canon there is now
    """The prompt's canon is not the one the samples were measured against."""


class AlreadyAnswered(Exception):  # noqa: N818
    """The idempotency key has an answer on record."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__("already answered")
        self.answer = answer


@dataclass(frozen=True)
class Submission:
    """Measured samples of one request, to be recorded together or not at all."""

    prompt_id: str
    model: str
    temperature: float
    measured: Sequence[Sample]
    canon: Canon | None  # what they were measured against
    seed: int | None = None
    fixes: bool = False  # the canon is new: fix it, if the prompt still has none
    request_id: str | None = None
    upstream_ms: float | None = None
    overhead_ms: float | None = None
    idempotency: tuple[str, str, str] | None = None  # key id, idempotency key, SHA-256 of the body
    answer: Callable[[list[Sample]], dict[str, Any] | None] | None = field(default=None, compare=False)


class Store(CanonTable):
    """A database of canons and samples."""

    def __init__(self, engine: Engine, versions: Versions) -> None:
        super().__init__(engine, versions)
        self._ledger: str | None = None

    @classmethod
    def open(cls, where: str, versions: Versions, durability: Durability = "full") -> Store:
        return cls(open_database(where, durability), versions)

    def close(self) -> None:
        self.engine.dispose()

    # Samples

    def record(self, connection: Connection, submission: Submission) -> list[Sample]:
        """Number the samples and insert them, with the canon they fix and the answer given for them."""
        given = submission.idempotency
        ledger, first = self._reserve(connection, len(submission.measured))
        if given is not None and (found := self.answered(connection, *given)) is not None:
            raise AlreadyAnswered(found)
        self._agree_on_canon(connection, submission)
        now, placed = utc_now(), list[Sample]()
        if submission.measured:
            run_id = self._run_id(connection, ledger, submission)
            placed = [
                sample.placed(run_id, first + at, first + at, now)
                for at, sample in enumerate(submission.measured)
            ]
            add_samples(
                connection,
                ledger,
                placed,
                request_id=submission.request_id,
                upstream_ms=submission.upstream_ms,
                overhead_ms=submission.overhead_ms,
            )
        answer = submission.answer(placed) if given is not None and submission.answer is not None else None
        if given is not None and answer is not None:
            key_id, idempotency_key, body_sha256 = given
            connection.execute(
                insert(answers).values(
                    key_id=key_id,
                    idempotency_key=idempotency_key,
                    body_sha256=body_sha256,
                    created_at=now,
                    answer=encode(answer),
                )
            )
        return placed

    def answered(
        self, connection: Connection, key_id: str, idempotency_key: str, body_sha256: str
    ) -> dict[str, Any] | None:
        """The answer on record for an idempotency key. The same key with another body is a mistake."""
        row = connection.execute(
            select(answers.c.answer, answers.c.body_sha256).where(
                answers.c.key_id == key_id, answers.c.idempotency_key == idempotency_key
            )
        ).first()
        if row is None:
            return None
        if row.body_sha256 != body_sha256:
            raise UserError("this Idempotency-Key was used with another request body: use a new key")
        return dict(json.loads(row.answer))

    def unsettled(self, prompt_id: str, limit: int = 500) -> list[tuple[str, int, Sample]]:
        """Samples recorded before the prompt had a canon, which it has now: (ledger, number, record)."""
        query = (
            select(samples)
            .join(canons, canons.c.prompt_id == samples.c.prompt_id)
            .join(ledgers, ledgers.c.name == samples.c.ledger)
            .where(
                samples.c.prompt_id == prompt_id,
                samples.c.canon_signature.is_(None),
                ledgers.c.closed_at.is_(None),
            )
            .order_by(samples.c.id)
            .limit(limit)
        )
        with self.reading() as connection:
            rows = connection.execute(query).mappings().all()
        return [(row["ledger"], row["number"], sample_of(row)) for row in rows]

    def settle(self, ledger: str, measured: Sequence[tuple[int, Sample]]) -> None:
        """Replace the distances of unsettled samples by those to the canon; numbers and times stay."""
        with self.engine.begin() as connection:
            for number, record in measured:
                connection.execute(
                    update(samples)
                    .where(
                        samples.c.ledger == ledger,
                        samples.c.number == number,
                        samples.c.canon_signature.is_(None),
                    )
                    .values(**sample_row(ledger, number, record))
                )

    # Ledgers

    def current_ledger(self, connection: Connection) -> str | None:
        """The service's open ledger, if it has begun one."""
        query = select(ledgers.c.name).where(
            ledgers.c.closed_at.is_(None), ledgers.c.name.like(f"{SERVICE}-%")
        )
        return connection.execute(query.order_by(ledgers.c.name.desc())).scalars().first()

    def _reserve(self, connection: Connection, n: int) -> tuple[str, int]:
        """Take the open ledger's row for the rest of the transaction, and `n` numbers from it."""
        for _ in range(100):
            name = self._ledger or self.current_ledger(connection) or self._open_ledger(connection)
            first = take_numbers(connection, name, n)
            self._ledger = None if first is None else name  # only a name: whether it is open is asked above
            if first is not None:
                return name, first
        raise UserError(
            "the service's ledger is being closed again and again: is a re-anchoring loop running?"
        )

    def _open_ledger(self, connection: Connection) -> str:
        # Counting the closed ones gives two processes that find none open the same name.
        closed = connection.execute(
            select(func.count())
            .select_from(ledgers)
            .where(ledgers.c.name.like(f"{SERVICE}-%"), ledgers.c.closed_at.is_not(None))
        ).scalar_one()
        name = f"{SERVICE}-{closed + 1:04d}"
        try:
            with connection.begin_nested():
                connection.execute(
                    insert(ledgers).values(name=name, created_at=utc_now(), next_sample=0, next_run=0)
                )
        except IntegrityError:  # another process was first
            pass
        return name

    def _agree_on_canon(self, connection: Connection, submission: Submission) -> None:
        expected = None if submission.canon is None else submission.canon.canon_signature
        found = connection.execute(CANON_SIGNATURE, {"prompt_id": submission.prompt_id}).scalar()
        if found is None and submission.fixes and submission.canon is not None:
            if not self.fix_within(connection, submission.canon):
                raise CanonMoved
        elif found != expected:
            raise CanonMoved

    def _run_id(self, connection: Connection, ledger: str, submission: Submission) -> str:
        """The cell's run, begun with its first sample."""
        cell = {
            "prompt_id": submission.prompt_id,
            "model": submission.model,
            "temperature": submission.temperature,
            **submission.measured[0].versions._asdict(),
        }
        known = connection.execute(_RUN_OF_CELL, {"ledger": ledger, **cell}).scalar()
        if known is not None:
            return str(known)
        number = (
            connection.execute(
                update(ledgers)
                .where(ledgers.c.name == ledger)
                .values(next_run=ledgers.c.next_run + 1)
                .returning(ledgers.c.next_run)
            ).scalar_one()
            - 1
        )
        run_id = f"{ledger}.{number:04d}"
        connection.execute(
            insert(runs).values(
                run_id=run_id,
                ledger=ledger,
                number=number,
                mode=SERVICE,
                timestamp=utc_now(),
                seed=submission.seed,
                contract_id=submission.prompt_id,
                **cell,
            )
        )
        return run_id
