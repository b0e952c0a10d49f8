"""Opening a database: SQLite by path (WAL, every transaction takes the write lock at once) or any PostgreSQL.

The tables are made when a database is opened first, by whichever process comes first.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import sqlalchemy
from sqlalchemy import event, insert
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import SQLAlchemyError

from homeostat.core.errors import UserError
from skyt.records.tables import TABLES_VERSION, metadata, samples, tables

# What a commit survives: `process` the death of this process, `full` also a power cut.
Durability = Literal["process", "full"]

_TABLES_LOCK = 0x534B5954  # any fixed number: PostgreSQL's advisory locks are numbered
_SQLITE_WAIT_S = 60


def open_database(where: str, durability: Durability = "full") -> Engine:
    """An engine for a SQLite path or a database URL.

    With `full` a commit is on the disk before it returns; with `process` it survives the death of this
    process, but the last ones may be lost in a power cut.
    """
    url = database_url(where)
    try:
        kind = _sqlite if url.get_backend_name() == "sqlite" else _postgresql
        engine = kind(url, durability)
        _create_tables(engine)
    except (SQLAlchemyError, OSError) as error:
        raise UserError(f"cannot open the database {display(url)}: {reason_of(error)}") from None
    return engine


def reason_of(error: Exception) -> str:
    """What the database says, in one line."""
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]


def database_url(where: str) -> URL:
    """`skyt.sqlite`, `sqlite:///…` or `postgresql://user@host/name`."""
    try:
        url = make_url(where) if "://" in where else URL.create("sqlite", database=where)
    except (SQLAlchemyError, ValueError):
        raise UserError(f"database {where!r} is neither a file name nor a URL") from None
    backend = url.get_backend_name()
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend == "sqlite" and url.database and url.database != ":memory:":
        return url.set(drivername="sqlite")
    raise UserError(f"database {where!r}: give a SQLite file or a postgresql:// URL")


def display(url: URL) -> str:
    """For messages: without the password."""
    return (
        str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)
    )


def _sqlite(url: URL, durability: Durability) -> Engine:
    path = Path(str(url.database))
    if not path.parent.is_dir():
        raise UserError(f"no such folder for the database: {path.parent}")
    if not path.exists():  # outputs and key hashes inside: for the owner's eyes
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    engine = sqlalchemy.create_engine(
        url, connect_args={"timeout": _SQLITE_WAIT_S, "check_same_thread": False}
    )

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver would begin transactions late; see _begin
        with closing(connection.cursor()) as cursor:
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute(f"PRAGMA synchronous={'FULL' if durability == 'full' else 'NORMAL'}")
            cursor.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get("reading", False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


def _postgresql(url: URL, durability: Durability) -> Engine:
    connect: dict[str, Any] = {"connect_timeout": 10}
    if durability != "full":
        connect["options"] = "-c synchronous_commit=off"
    return sqlalchemy.create_engine(url, pool_pre_ping=True, connect_args=connect)


def _create_tables(engine: Engine) -> None:
    with engine.connect().execution_options(reading=True) as connection:
        version = _version(connection)
    if version is None:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(sqlalchemy.select(sqlalchemy.func.pg_advisory_xact_lock(_TABLES_LOCK)))
            if _version(connection) is None:  # no other process was faster
                metadata.create_all(connection)
                connection.execute(insert(tables).values(version=TABLES_VERSION))
    elif version != TABLES_VERSION:
        raise UserError(
            f"the database {display(engine.url)} has tables of version {version}, this program has "
            f"{TABLES_VERSION}: export it with the program that made it, and import the folder into a new one"
        )


def _version(connection: Connection) -> int | None:
    inspector = sqlalchemy.inspect(connection)
    if inspector.has_table(tables.name):
        return int(connection.execute(sqlalchemy.select(tables.c.version)).scalar_one())
    return 0 if inspector.has_table(samples.name) else None
