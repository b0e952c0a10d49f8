"""Canons in the database: one per prompt by primary key, earlier ones archived, every act on record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError

from homeostat.core.records import utc_now
from skyt.canon import Canon, CanonImmutabilityError, CanonVersionError, Event, Versions, check_integrity
from skyt.records.store import encode
from skyt.records.tables import archived_canons, canon_events, canons, ledgers

SERVICE = "serve"
CANON_SIGNATURE = select(canons.c.canon_signature).where(canons.c.prompt_id == bindparam("prompt_id"))


class CanonTable:
    """The canons of a database; also a `skyt.canon.Shelf`."""

    def __init__(self, engine: Engine, versions: Versions) -> None:
        self.engine = engine
        self.versions = versions

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self.engine.connect().execution_options(reading=True) as connection:
            yield connection

    def get(self, prompt_id: str) -> Canon | None:
        """The canon, or None before there is one. A canon of other versions is refused."""
        with self.reading() as connection:
            return self._valid(connection, prompt_id)

    def set(self, canon: Canon) -> None:
        """Fix a prompt's canon, or raise `CanonImmutabilityError` if another one is fixed."""
        with self.engine.begin() as connection:
            self.set_within(connection, canon)

    def set_within(self, connection: Connection, canon: Canon) -> None:
        self.fix_within(connection, canon)
        fixed = self._valid(connection, canon.prompt_id)
        if fixed is None or fixed.canon_signature != canon.canon_signature:
            found = "none" if fixed is None else fixed.canon_signature[:12]
            raise CanonImmutabilityError(
                f"the canon of {canon.prompt_id!r} in the database is {found}, not "
                f"{canon.canon_signature[:12]}: a canon never changes; use another database, or archive the "
                f"old one with `serve --re-anchor {canon.prompt_id}`"
            )

    def fix_within(self, connection: Connection, canon: Canon) -> bool:
        """Insert the canon unless the prompt has one. True if this call fixed it."""
        if canon.versions != self.versions:
            raise CanonVersionError(
                f"the canon of {canon.prompt_id!r} has normalisation {canon.normalization_version} and "
                f"oracle {canon.oracle_version}, this program has {self.versions.normalization_version} and "
                f"{self.versions.oracle_version}: measure the outputs again with `homeostat code replay`"
            )
        try:
            with connection.begin_nested():
                connection.execute(insert(canons).values(**_row(canon)))
        except IntegrityError:
            return False
        return True

    def archive(self, prompt_id: str, who: str = "", why: str = "--re-anchor") -> bool:
        """Re-anchoring: set the canon aside and close the service's ledger. False if there was none."""
        from skyt.canon.history import whoever

        with self.reading() as connection:
            if self._signature(connection, prompt_id) is None:
                return False
        with self.engine.begin() as connection:
            close_ledger(connection)
            old = self._signature(connection, prompt_id)
            if old is None:
                return False
            self._set_aside(connection, prompt_id)
            self._note(connection, Event(prompt_id, "archived", None, old, who or whoever(), why))
        return True

    def prompts(self) -> list[str]:
        with self.reading() as connection:
            return sorted(connection.execute(select(canons.c.prompt_id)).scalars())

    def read(self, prompt_id: str) -> Canon | None:
        with self.reading() as connection:
            return self._canon(connection, prompt_id)

    def archived(self, prompt_id: str) -> list[Canon]:
        query = select(archived_canons.c.record).where(archived_canons.c.prompt_id == prompt_id)
        with self.reading() as connection:
            rows = connection.execute(query.order_by(archived_canons.c.id)).scalars()
            return [Canon(**json.loads(text)) for text in rows]

    def events(self, prompt_id: str) -> list[Event]:
        query = select(canon_events.c.record).where(canon_events.c.prompt_id == prompt_id)
        with self.reading() as connection:
            rows = connection.execute(query.order_by(canon_events.c.id)).scalars()
            return [Event(**json.loads(text)) for text in rows]

    def note(self, event: Event) -> None:
        with self.engine.begin() as connection:
            self._note(connection, event)

    def replace(self, canon: Canon, event: Event) -> None:
        """In one transaction. Another program as canon closes the ledger: distances to two do not mix."""
        with self.engine.begin() as connection:
            close_ledger(connection)
            self._set_aside(connection, canon.prompt_id)
            connection.execute(insert(canons).values(**_row(canon)))
            self._note(connection, event)

    def _set_aside(self, connection: Connection, prompt_id: str) -> None:
        row = connection.execute(select(canons).where(canons.c.prompt_id == prompt_id)).mappings().first()
        if row is not None:
            connection.execute(insert(archived_canons).values(**row, archived_at=utc_now()))
            connection.execute(delete(canons).where(canons.c.prompt_id == prompt_id))

    def _note(self, connection: Connection, event: Event) -> None:
        row = {"prompt_id": event.prompt_id, "record": encode(event.to_json())}
        connection.execute(insert(canon_events).values(**row))

    def _signature(self, connection: Connection, prompt_id: str) -> str | None:
        return connection.execute(CANON_SIGNATURE, {"prompt_id": prompt_id}).scalar()

    def _canon(self, connection: Connection, prompt_id: str) -> Canon | None:
        text = connection.execute(select(canons.c.record).where(canons.c.prompt_id == prompt_id)).scalar()
        if text is None:
            return None
        canon = Canon(**json.loads(text))
        check_integrity(canon, f"{prompt_id!r} in the database")
        return canon

    def _valid(self, connection: Connection, prompt_id: str) -> Canon | None:
        canon = self._canon(connection, prompt_id)
        if canon is not None and canon.versions != self.versions:
            raise CanonVersionError(
                f"the canon of {prompt_id!r} was made with normalisation {canon.normalization_version} and "
                f"oracle {canon.oracle_version}, this program has {self.versions.normalization_version} and "
                f"{self.versions.oracle_version}: start once with --re-anchor {prompt_id}, which archives "
                f"it, or have it judged anew with `homeostat code canon approve DATABASE {prompt_id}`"
            )
        return canon


def _row(canon: Canon) -> dict[str, Any]:
    record = encode(asdict(canon))
    return {"prompt_id": canon.prompt_id, "canon_signature": canon.canon_signature, "record": record}


def close_ledger(connection: Connection) -> None:
    """End the service's sequence of samples; the next sample begins a new one."""
    connection.execute(
        update(ledgers)
        .where(ledgers.c.closed_at.is_(None), ledgers.c.name.like(f"{SERVICE}-%"))
        .values(closed_at=utc_now())
    )
