"""`homeostat cache check`: make, verify and heal a cache on disk with its fingerprints."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import typer

from cachemedicpp.cache.prefill import most_positions, prefill
from cachemedicpp.cache.state import KVState
from cachemedicpp.guard.disk import load_cache, save_cache
from cachemedicpp.guard.guard import Guard
from cachemedicpp.guard.ledger import Damage
from cachemedicpp.tasks.data import read_text
from homeostat.core.errors import UserError
from homeostat.core.models import DEFAULT_MODEL, load_model, model_identity

DAMAGED = 1  # exit code


def check_command(folder: Path, text: Path | None, model_name: str | None, heal: bool) -> int:
    """Make the folder from a text, or verify what it holds; the exit code says whether it is sound."""
    if text is not None:
        return _make(folder, text, model_name or DEFAULT_MODEL)
    cache, ledger, about = load_cache(folder)
    damages = ledger.compare(KVState(cache))
    size = f"{ledger.layers} layers, {ledger.rows} × {ledger.length} positions"
    if not damages:
        typer.echo(f"{folder}: sound ({size}, {ledger.count} fingerprints)")
        return 0
    typer.echo(f"{folder}: {len(damages)} damaged blocks ({size})")
    for line in _lines(damages, ledger.block):
        typer.echo(f"  {line}")
    if not heal:
        typer.echo("heal it with --heal")
        return DAMAGED
    model, _ = load_model(model_name or about["model"] or DEFAULT_MODEL)
    identity = model_identity(model)
    if about["revision"] and identity["revision"] and about["revision"] != identity["revision"]:
        raise UserError(
            f"{folder} was made by revision {about['revision']}, this model is {identity['revision']}"
        )
    guard = Guard(model)
    guard.resume(cache, ledger)
    guard.heal(cache)
    save_cache(cache, guard, folder)
    typer.echo(f"healed {len(damages)} blocks by recomputation; all fingerprints match")
    return 0


def _make(folder: Path, text: Path, model_name: str) -> int:
    if not text.is_file():
        raise UserError(f"--text {text}: no such file")
    content = read_text(text)
    model, tokenizer = load_model(model_name)
    ids = tokenizer(content, return_tensors="pt").input_ids.to(model.device)
    if not ids.numel():
        raise UserError(f"--text {text}: it is empty")
    longest = most_positions(model)
    if longest is not None and ids.shape[1] > longest:
        raise UserError(f"--text {text}: {ids.shape[1]} tokens; the model takes at most {longest}")
    cache = prefill(model, ids).cache()
    guard = Guard(model)
    guard.watch(cache, ids)
    save_cache(cache, guard, folder)
    typer.echo(f"{folder}: {ids.shape[1]} positions saved with their fingerprints")
    return 0


def _lines(damages: list[Damage], block: int) -> list[str]:
    """One line per sequence and block, with the damaged layers."""
    found: dict[tuple[int, int], list[str]] = defaultdict(list)
    for damage in damages:
        found[damage.row, damage.block].append(f"{damage.layer}{damage.tensor}")
    return [
        f"sequence {row}, positions {number * block}–{(number + 1) * block - 1}: layers {' '.join(layers)}"
        for (row, number), layers in sorted(found.items())
    ]
