"""Between the service's database and run directories: ledgers are copied, files written from the copy."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field
from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from homeostat.core.atomic import sync_directory
from homeostat.core.config import ConfigModel
from homeostat.core.errors import UserError, nearest
from homeostat.core.records import read_record, utc_now
from homeostat.core.rundir import open_run
from skyt.canon import Canon, CanonStore, read_canon
from skyt.contracts.defaults import DEFAULT_TAU
from skyt.metrics.summary import summarise
from skyt.records import RunStore, check_files
from skyt.records.store import RUN, copy_ledger
from skyt.records.tables import archived_canons, canons, ledgers, samples
from skyt.serve.database.canons import SERVICE
from skyt.serve.database.store import Store


class ExportConfig(ConfigModel):
    """What an exported folder is made from."""

    ledger: str
    tau: float = Field(DEFAULT_TAU, ge=0.0, le=1.0)


@dataclass(frozen=True)
class Transferred:
    ledger: str
    samples: int
    canons: int


def export(store: Store, out: Path, ledger: str | None = None, tau: float = DEFAULT_TAU) -> Transferred:
    """Write a ledger (the service's open one unless named) as the folder of a run; nothing or all of it."""
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"--out {out} exists and is not an empty folder: choose another")
    with store.reading() as connection:
        name = _ledger(store, connection, ledger)
        waiting = unsettled(connection, name)
    if waiting:
        raise UserError(
            f"{waiting} samples of {name} wait to be measured against a canon fixed after them: start the "
            f"service once, it does that, and export again"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        folder = aside / "run"
        with open_run(folder, command="code export", config=ExportConfig(ledger=name, tau=tau)) as run:
            with (
                store.reading() as connection,
                RunStore(folder) as target,
                target.writing() as copy,
            ):
                count = copy_ledger(connection, name, copy, RUN)
                written = _write_canons(connection, name, folder / "canon")
            if not count:
                raise UserError(f"the ledger {name!r} has no samples to export")
            summarise(run, tau, {"ledger": name})
            run.finish()
        for lock in folder.glob(".*lock"):
            lock.unlink()
        folder.chmod(0o755)
        folder.replace(out)
        sync_directory(out.parent)
    except OSError as error:
        raise UserError(f"cannot export to {out}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Transferred(name, count, written)


def import_run(store: Store, folder: Path, name: str | None = None) -> Transferred:
    """Read the folder of a run into a ledger of its own, in one transaction."""
    folder = Path(folder)
    record_path = folder / "run_record.json"
    name = name or (
        str(read_record(record_path, "run_record")["run_id"]) if record_path.exists() else folder.name
    )
    if name.startswith(f"{SERVICE}-"):
        raise UserError(f"--name {name!r}: names that begin with {SERVICE}- are the service's own")
    with RunStore.existing(folder) as run:
        check_files(run)
        with run.reading() as source, store.engine.begin() as connection:
            if connection.execute(select(ledgers.c.name).where(ledgers.c.name == name)).scalar() is not None:
                raise UserError(f"the database has a ledger {name!r} already: this run was imported before")
            fixed = _read_canons(store, connection, folder / "canon")
            count = copy_ledger(source, RUN, connection, name, closed_at=utc_now())
    return Transferred(name, count, fixed)


def unsettled(connection: Connection, ledger: str) -> int:
    """Samples from before their prompt's canon that were not measured against it yet."""
    query = (
        select(func.count())
        .select_from(samples)
        .join(canons, canons.c.prompt_id == samples.c.prompt_id)
        .join(ledgers, ledgers.c.name == samples.c.ledger)
        .where(samples.c.ledger == ledger, samples.c.canon_signature.is_(None), ledgers.c.closed_at.is_(None))
    )
    return int(connection.execute(query).scalar_one())


def _ledger(store: Store, connection: Connection, wanted: str | None) -> str:
    known = list(connection.execute(select(ledgers.c.name).order_by(ledgers.c.created_at)).scalars())
    if wanted is None:
        current = store.current_ledger(connection)
        if current is not None:
            return current
        if len(known) == 1:
            return str(known[0])
        raise UserError(f"say which --ledger to export; {nearest('', known)}")
    if wanted not in known:
        raise UserError(f"no ledger {wanted!r} in the database; {nearest(wanted, known)}")
    return wanted


def _write_canons(connection: Connection, name: str, folder: Path) -> int:
    """The canons the ledger's samples were measured against, archived ones included."""
    used = connection.execute(
        select(samples.c.prompt_id, samples.c.canon_signature)
        .where(samples.c.ledger == name, samples.c.canon_signature.is_not(None))
        .distinct()
    ).all()
    for prompt_id, digest in used:
        text = None
        for table in (canons, archived_canons):
            text = (
                text
                or connection.execute(
                    select(table.c.record).where(
                        table.c.prompt_id == prompt_id, table.c.canon_signature == digest
                    )
                ).scalar()
            )
        if text is None:
            raise UserError(f"the canon {digest[:12]} of {prompt_id!r} is missing from the database")
        canon = Canon(**json.loads(text))
        CanonStore(folder, canon.versions).set(canon)
    return len(used)


def _read_canons(store: Store, connection: Connection, folder: Path) -> int:
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    for path in paths:
        store.set_within(connection, read_canon(path))
    return len(paths)
