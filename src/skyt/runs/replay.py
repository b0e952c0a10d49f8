"""`homeostat code replay`: recorded generations through the pipeline, with given canons if there are any."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from homeostat.core.errors import UserError, nearest, unreadable
from homeostat.core.progress import say
from homeostat.core.records import Record
from homeostat.core.rundir import check_out, default_out, open_run
from skyt.canon import CanonRefusedError
from skyt.contracts.contract import Contract, load_contracts
from skyt.generators.base import Generation
from skyt.generators.recorded import BrokenLine, read_generations
from skyt.runs.config import MeasureConfig, ReplayConfig
from skyt.runs.measure import RunOptions, check_options, measure_and_report, stamped


@dataclass(frozen=True)
class Replayed:
    """The metrics, the lines that could not be used, and the folder of the run."""

    folder: Path
    metrics: Record
    broken: list[BrokenLine]


def replay(
    file: Path,
    out: Path | None,
    settings: MeasureConfig,
    options: RunOptions,
    *,
    canons: Path | None = None,
    contracts_dir: Path | None = None,
) -> Replayed:
    """Measure every usable row of `file`; unusable ones are returned with their line numbers."""
    known = load_contracts(contracts_dir)
    generations, broken = _usable(file, known)
    if not generations:
        first = f" (line {broken[0].number}: {broken[0].problem})" if broken else ""
        raise UserError(f"{file} has no usable generation{first}")
    used = {name: known[name] for name in dict.fromkeys(g.contract_id for g in generations)}
    brought = read_canons(canons) if canons else {}
    given = {name: code for name, code in brought.items() if name in used}
    if brought and not given:
        names, wanted = ", ".join(brought), ", ".join(used)
        raise UserError(f"{canons} has canons of {names} alone; {file} has outputs of {wanted}")
    config = ReplayConfig(
        **settings.model_dump(exclude={"contract_hashes", "rules_version"}),
        file_sha256=_sha256(file),
        canons_sha256=None if canons is None else _sha256(canons),
    )
    full = stamped(config, used)
    folder = out or default_out(f"code-replay-{file.name.partition('.')[0]}", full)
    check_out(folder, full)
    check_options(full, options)
    say(f"{file}: {len(generations)} outputs for {len(used)} contracts → {folder}")
    fresh = not folder.exists()
    try:
        with open_run(folder, command="code replay", config=full, config_path=None) as run:
            metrics = measure_and_report(
                run, generations, used, settings, options, mode="replay", given=given
            )
    except CanonRefusedError:
        if fresh:  # nothing was measured
            shutil.rmtree(folder)
        raise
    return Replayed(folder, metrics, broken)


def read_canons(path: Path) -> dict[str, str]:
    """`[{contract_id, canonical_code}, …]`; other keys are ignored."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"no such file: {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(unreadable(path, error)) from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}") from None
    if not isinstance(rows, list):
        raise UserError(f"{path}: canons are a list of {{contract_id, canonical_code}}")
    canons: dict[str, str] = {}
    for at, row in enumerate(rows):
        name = row.get("contract_id") if isinstance(row, dict) else None
        code = row.get("canonical_code") if isinstance(row, dict) else None
        if not isinstance(name, str) or not isinstance(code, str):
            raise UserError(f"{path}, entry {at + 1}: needs contract_id and canonical_code, both text")
        if canons.setdefault(name, code) != code:
            raise UserError(f"{path}, entry {at + 1}: a second canon for {name!r}; a prompt has one")
    return canons


def _usable(file: Path, known: dict[str, Contract]) -> tuple[list[Generation], list[BrokenLine]]:
    generations, broken = [], []
    first: dict[tuple[object, ...], int] = {}
    again: list[str] = []
    for number, row in read_generations(file):
        if isinstance(row, BrokenLine):
            broken.append(row)
        elif row.contract_id not in known:
            hint = nearest(row.contract_id, known)
            broken.append(BrokenLine(number, f"unknown contract {row.contract_id!r}; {hint}"))
        else:
            generations.append(row)
            if (line := first.setdefault((*row.cell, row.sample), number)) != number:
                again.append(f"line {number} has sample {row.sample} of line {line} again")
    if again:
        more = f", and {len(again) - 1} more" if len(again) > 1 else ""
        say(f"{file}: {again[0]}{more}; every row is measured as a sample of its own")
    return generations, broken


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
