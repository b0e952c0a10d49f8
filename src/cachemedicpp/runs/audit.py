"""`homeostat cache audit`: is a cache on disk of its tokens?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import typer
from torch import Tensor

from cachemedicpp.auditing import audit, heal
from cachemedicpp.cache.state import KVState
from cachemedicpp.guard.disk import CACHE, load_cache, read_cache, save_cache
from cachemedicpp.guard.guard import Guard
from cachemedicpp.repair.base import load_repair
from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.models import DEFAULT_MODEL, load_model

FOREIGN = 1  # exit code


def audit_command(
    where: Path,
    tokens: Path | None,
    operator: Path | None,
    model_name: str | None,
    alpha: float | None,
    figure: Path | None,
    record: Path | None,
    repair: bool,
) -> int:
    """Audit what `where` holds, by the model or by an `operator`; exit code 1 if it is not of its tokens."""
    folder = where if where.is_dir() else None
    cache: Any
    ids = mask = None
    made_by = ""
    if folder is not None:
        cache, ledger, about = load_cache(folder)
        ids, mask, made_by = ledger.ids, ledger.mask.long(), about["model"]
    else:
        cache = read_cache(where)
    if tokens is not None:
        ids, mask = read_tokens(tokens), None
    if ids is None:
        raise UserError(f"{where} comes without tokens: give them with --tokens FILE")
    model, _ = load_model(model_name or made_by or DEFAULT_MODEL)
    judge = model if operator is None else load_repair(operator, model)
    found = audit(judge, cache, ids, mask, alpha=alpha)
    typer.echo(f"{where}: {found}")
    if figure is not None:
        typer.echo(" ".join(map(str, found.draw(figure))))
    if record is not None:
        atomic.write_json(record, found.as_record())
    if found.sound:
        return 0
    if not repair:
        typer.echo("recompute these blocks from the tokens with --heal")
        return FOREIGN
    if folder is None:
        raise UserError(f"--heal writes a folder with {CACHE} and its fingerprints; {where} is a file")
    count = heal(model, cache, ids, found, mask)
    guard = Guard(model)
    guard.watch(cache, ids, mask)
    save_cache(KVState(cache).cache(), guard, folder)
    typer.echo(f"recomputed {count} blocks from their tokens, and saved them with new fingerprints")
    return 0


def read_tokens(path: Path) -> Tensor:
    """Token ids from a JSON file: a list, or a list of lists of one length."""
    try:
        ids = torch.tensor(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"--tokens {path}: a JSON list of token ids is needed ({error})") from None
    if ids.is_floating_point() or ids.dim() not in (1, 2) or not ids.numel():
        raise UserError(f"--tokens {path}: a JSON list of token ids is needed")
    return ids.view(-1, ids.shape[-1])
