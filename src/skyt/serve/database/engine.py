"""Opening a database: SQLite by path (WAL, every transaction takes the write lock at once) or any PostgreSQL.

A database is brought to the newest migration when it is opened, by whichever process comes first.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import SQLAlchemyError

from homeostat.core.errors import UserError
from skyt.records import Durability

DEFAULT_DATABASE = "skyt.sqlite"
_MIGRATIONS = Path(__file__).parent / "migrations"
_MIGRATION_LOCK = 0x534B5954  # any fixed number: PostgreSQL's advisory locks are numbered
_SQLITE_WAIT_S = 60


def open_database(where: str, durability: Durability = "full") -> Engine:
    """An engine for a SQLite path or a database URL, with the newest tables.

    With `full` a commit is on the disk before it returns; with `process` it survives the death of this
    process, but the last ones may be lost in a power cut.
    """
    url = database_url(where)
    try:
        kind = _sqlite if url.get_backend_name() == "sqlite" else _postgresql
        engine = kind(url, durability)
        _migrate(engine)
    except (SQLAlchemyError, OSError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise UserError(f"cannot open the database {display(url)}: {reason}") from None
    return engine


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


def _migrate(engine: Engine) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    head = ScriptDirectory.from_config(config).get_current_head()
    with engine.connect().execution_options(reading=True) as connection:
        if _revision(connection) == head:
            return
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sqlalchemy.select(sqlalchemy.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise UserError(f"the database {display(engine.url)} is of a newer version: {error}") from None


def _revision(connection: Connection) -> str | None:
    if not sqlalchemy.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sqlalchemy.text("SELECT version_num FROM alembic_version")).scalar()
