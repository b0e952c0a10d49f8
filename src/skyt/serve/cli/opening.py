"""Opening a database for a command, and what to say where the `serve` extra is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from homeostat.core.errors import UserError

if TYPE_CHECKING:
    from skyt.serve.database.store import Store

_EXTRA = {
    "aiohttp",
    "httptools",
    "prometheus_client",
    "psycopg",
    "sqlalchemy",
    "starlette",
    "uvicorn",
}


@contextmanager
def opened_store(database: str, create: bool = False) -> Iterator[Store]:
    with needs_extra():
        from skyt.runs.judging.assess import versions
        from skyt.serve.database.store import Store

        file = _file_of(database)
        if not create and file is not None and not file.exists():
            raise UserError(f"no such database: {database}; name it with --database")
        store = Store.open(database, versions())
        try:
            yield store
        finally:
            store.close()


def _file_of(database: str) -> Path | None:
    """The file of a SQLite database, given as a path or a URL; None for a server's."""
    scheme, separator, rest = database.partition("://")
    if not separator:
        return Path(database)
    return Path(rest.removeprefix("/").partition("?")[0]) if scheme.startswith("sqlite") else None


@contextmanager
def needs_extra() -> Iterator[None]:
    """Without the extra: one line that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        raise UserError(
            f"{error.name} is missing, which this command needs: pip install 'homeostat-llm[serve]'"
        ) from None
