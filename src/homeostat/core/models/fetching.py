"""Fetching a model that is known by name: its packages are downloaded, joined, checked and converted, once.

What arrives is kept until the whole model is there, so an interrupted fetch continues where it stopped. The
parts and the joined GGUF file are removed when the converted folder is complete.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import filelock

from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.models.catalogue import Known
from homeostat.core.models.convert import cache_dir, converted, folder_for, intact
from homeostat.core.progress import progress

_PIECE = 1 << 20  # bytes that are read at a time


def located(model: Known) -> Path:
    """The converted folder of a known model; what is not here yet is refused with the command that gets it.

    A package that is installed is converted at first use, without being asked to.
    """
    folder = folder_for(model.name, model.sha256)
    if intact(folder):
        return folder
    if (gguf := installed(model)) is not None:
        return converted(gguf, model.name, dtype=model.dtype, digest=model.sha256)
    raise UserError(
        f"model {model.name!r} is not here: run `homeostat models fetch {model.name}` "
        f"({model.download / 1e6:,.0f} MB, {model.licence})"
    )


def ready(model: Known) -> str | None:
    """How a known model is here, in words; None if it has to be fetched."""
    if (folder_for(model.name, model.sha256) / "model.safetensors").is_file():
        return "converted"
    return "installed, converted at first use" if installed(model) is not None else None


def fetch(model: Known) -> Path:
    """Bring a known model here, and return its folder. Nothing is done where it is complete already."""
    folder = folder_for(model.name, model.sha256)
    if intact(folder):
        return folder
    parts = cache_dir() / "downloads" / model.name
    try:
        parts.mkdir(parents=True, exist_ok=True)
        _require_space(model, parts)
        with filelock.FileLock(parts.with_suffix(".lock")):
            if intact(folder):
                return folder
            gguf = installed(model) or _joined(model, parts)
            made = converted(gguf, model.name, dtype=model.dtype, digest=model.sha256)
            shutil.rmtree(parts, ignore_errors=True)
            return made
    except OSError as error:
        raise UserError(f"cannot fetch {model.name} into {parts}: {error}") from error


def installed(model: Known) -> Path | None:
    """The GGUF file of a model that is one package, if that package is installed."""
    if len(model.packages) != 1:
        return None
    try:
        files = metadata.files(model.packages[0]) or []
    except metadata.PackageNotFoundError:
        return None
    found = [Path(str(file.locate())) for file in files if file.name.endswith(".gguf")]
    return found[0] if len(found) == 1 and found[0].is_file() else None


def _joined(model: Known, parts: Path) -> Path:
    """The GGUF file, from parts that are downloaded as far as they are missing."""
    gguf = parts / f"{model.name}.gguf"
    if gguf.is_file() and gguf.stat().st_size == model.size:
        return gguf  # its hash is checked when it is converted
    wheels = list(_downloaded(model, parts))
    digest = hashlib.sha256()
    with atomic.replacing(gguf) as aside, aside.open("wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                largest = max(archive.infolist(), key=lambda entry: entry.file_size)
                with archive.open(largest) as data:
                    while piece := data.read(_PIECE):
                        out.write(piece)
                        digest.update(piece)
    if digest.hexdigest() != model.sha256:
        shutil.rmtree(parts, ignore_errors=True)
        raise UserError(
            f"cannot fetch {model.name}: its joined parts have SHA-256 {digest.hexdigest()}, not "
            f"{model.sha256}; they were removed, so try again or report it"
        )
    return gguf


def _downloaded(model: Known, parts: Path) -> Iterator[Path]:
    count = len(model.packages)
    with progress(f"fetching {model.name}", total=count, unit="packages") as bar:
        for number, requirement in enumerate(model.requirements, start=1):
            place = parts / f"{number:02d}"
            wheel = _complete(place)
            if wheel is None:
                shutil.rmtree(place, ignore_errors=True)
                _download(requirement, place, f"package {number} of {count}", model.name)
                wheel = _complete(place)
            if wheel is None:
                raise UserError(f"cannot fetch {model.name}: {requirement} is not a wheel with data in it")
            bar.advance()
            yield wheel


def _complete(place: Path) -> Path | None:
    """The one readable wheel in a folder."""
    wheels = [path for path in place.glob("*.whl") if zipfile.is_zipfile(path)]
    return wheels[0] if len(wheels) == 1 else None


def _download(requirement: str, place: Path, which: str, name: str) -> None:
    """pip knows the user's index, mirror and certificates. Only wheels: a source package would run code."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-cache-dir", "--only-binary=:all:", "--retries=1", f"--dest={place}", requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["ERROR: no answer"]
        raise UserError(
            f"cannot fetch {name}: {which}, {requirement}, did not come from the package index "
            f"({said[0].removeprefix('ERROR: ')}); what arrived is kept, and the same command continues"
        )


def _require_space(model: Known, folder: Path) -> None:
    needed = model.download + model.size + model.converted_size
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UserError(
            f"cannot fetch {model.name}: it needs {needed / 1e9:.1f} GB for a while and {folder} has "
            f"{free / 1e9:.1f} GB free; make room or set HOMEOSTAT_CACHE to another disk"
        )
