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
from pathlib import Path

import pytest


def binaries() -> Path:
    """Where `initdb` and `postgres` are: on the PATH, in Debian's place, or in a PyPI wheel."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    try:
        import pgserver
    except ImportError:
        pass
    else:
        places.append(Path(pgserver.__file__).parent / "pginstall" / "bin")
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    pytest.skip("no PostgreSQL here: `apt-get install postgresql`, or `pip install pgserver`")


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a running, empty server."""
    place = binaries()
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    user = "postgres" if os.geteuid() == 0 and _known("postgres") else "nobody"
    options: dict[str, object] = {"cwd": folder}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        options |= {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        shutil.chown(folder, user)
    initdb = [place / "initdb", "-D", folder / "data", "-A", "trust", "-U", "skyt", "--no-sync", "-E", "UTF8"]
    process = None
    try:
        made = subprocess.run(initdb, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
        if made.returncode:
            pytest.skip(f"initdb failed here: {made.stderr.strip()[-200:]}")
        command = [place / "postgres", "-D", folder / "data", "-k", folder, "-c", "listen_addresses="]
        command += ["-c", "fsync=off", "-c", "max_connections=200"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
        url = f"postgresql://skyt@/postgres?host={folder}"
        _wait(url)
        yield url
    finally:
        if process is not None:
            process.terminate()
            process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


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


def _known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
