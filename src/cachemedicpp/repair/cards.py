"""A stored repair: `operator.safetensors` and a `card.json` that says what it is and what it was made for."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from cachemedicpp.cache.state import Geometry
from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.models import fingerprint, model_identity
from homeostat.core.models.convert import sha256
from homeostat.core.records import Record, read_record, write_record

CARD = "card.json"
TENSORS = "operator.safetensors"


def make_card(
    family: str,
    model: Any,
    layers: tuple[int, ...],
    tensors: dict[str, Tensor],
    settings: Record,
    config_hash: str | None = None,
    training: Record | None = None,
) -> Record:
    """The card of a repair for `model`: family, sizes, weights, configuration, and how it was made."""
    return {
        "family": family,
        "model": {**model_identity(model), "weights": fingerprint(model)},
        "geometry": dict(vars(Geometry.of(model))),
        "layers": list(layers),
        "shapes": {name: list(x.shape) for name, x in tensors.items()},
        "settings": settings,
        "config_hash": config_hash,
        "training": training,
    }


def save_repair(folder: Path, tensors: dict[str, Tensor], card: Record) -> None:
    """Write the tensors, then the card with their hash: a folder with a card is complete."""
    data = save({name: x.detach().cpu().contiguous() for name, x in tensors.items()})
    atomic.write_bytes(folder / TENSORS, data)
    write_record(folder / CARD, card | {"content": hashlib.sha256(data).hexdigest()}, "repair_card")


def read_card(folder: Path) -> Record:
    if not (folder / CARD).is_file():
        raise UserError(
            f"{folder} holds no repair (no {CARD}): train one with `homeostat cache train CONFIG`"
        )
    return read_record(folder / CARD, "repair_card")


def read_tensors(folder: Path, card: Record) -> dict[str, Tensor]:
    """The tensors of a repair; ones that do not match the card are refused."""
    path = folder / TENSORS
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    found = {name: list(x.shape) for name, x in tensors.items()}
    if found != card["shapes"]:
        raise UserError(f"{path} does not match its card: it holds {found}, the card says {card['shapes']}")
    if (here := sha256(path)) != card["content"]:
        raise UserError(
            f"{path} was changed: its SHA-256 is {here}, the card says {card['content']}; make it again"
        )
    return tensors


def check_fit(card: Record, model: Any) -> None:
    """Refuse a model other than the one on the card."""
    check_model(card["family"], Geometry(**card["geometry"]), card["model"], model)


def check_model(name: str, made: Geometry, identity: dict[str, str | None] | None, model: Any) -> None:
    """Refuse a model of other sizes than the repair was made for, naming both, or with other weights.

    Weights are told by their fingerprint, wherever they were loaded from. Without an identity any do.
    """
    here = Geometry.of(model)
    known = identity or {}
    whose, weights = known.get("id") or "another model", known.get("weights")
    if made != here:
        raise UserError(
            f"repair {name!r} was made for {whose} with {_shape(made)}; this model has {_shape(here)}: "
            "use the operator's own model, or make one for this"
        )
    if weights is not None and weights != (found := fingerprint(model)):
        raise UserError(
            f"repair {name!r} was made for {whose} (weights {weights[:12]}); this model, "
            f"{model_identity(model)['id']}, has other weights ({found[:12]}): use the operator's own model, "
            "make one for this, or load it with strict=False"
        )


def _shape(g: Geometry) -> str:
    return f"{g.layers} layers × {g.kv_heads} KV heads × {g.head_dim} ({g.heads} query heads)"
