"""Leave one type out: train on the other types, evaluate on the one held out."""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import Field

from cachemedicpp.corruption.base import CORRUPTIONS
from cachemedicpp.corruption.config import CorruptionType
from cachemedicpp.tasks.config import MedicConfig
from homeostat.core.config import ConfigModel, parse_config
from homeostat.core.errors import UserError, nearest
from homeostat.core.resources import find

SPLITS = "configs/corruption/ood_splits.yaml"


class Split(ConfigModel):
    """A split by name: what may be trained on, and what is tested."""

    train_types: list[CorruptionType] = Field(min_length=1)
    test_type: CorruptionType


def load_splits() -> dict[str, Split]:
    path = find(SPLITS)
    raw: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    splits = raw.get("splits", raw)
    found = {name: parse_config(Split, body, source=f"{path}: {name}") for name, body in splits.items()}
    for name in CORRUPTIONS:  # a type that was registered is held out like the others
        others = [other for other in CORRUPTIONS if other != name]
        found.setdefault(f"loto_holdout_{name}", Split(train_types=others, test_type=name))
    return found


def apply_split(config: MedicConfig) -> MedicConfig:
    """The configuration with `eval.ood_protocol` carried out; the same configuration where it is null.

    The mixture keeps the split's training types and is renormalised to sum to 1; the grid tests the held-out
    type alone.
    """
    name = config.eval.ood_protocol
    if name is None:
        return config
    splits = load_splits()
    if name not in splits:
        raise UserError(f"eval.ood_protocol = {name!r}: no such split in {SPLITS}; {nearest(name, splits)}")
    split = splits[name]
    if split.test_type in split.train_types:
        raise UserError(f"{SPLITS}: split {name!r} trains on {split.test_type!r}, which it holds out")
    kept = {t: w for t, w in config.corruption.mixture.items() if t in split.train_types}
    total = sum(kept.values())
    if total <= 0:
        raise UserError(f"eval.ood_protocol = {name!r}: corruption.mixture gives its train_types no weight")
    mixture = {t: w / total for t, w in kept.items()}
    tested = config.eval.corruption_eval.model_copy(update={"types": [split.test_type]})
    return config.model_copy(
        update={
            "corruption": config.corruption.model_copy(update={"mixture": mixture}),
            "eval": config.eval.model_copy(update={"corruption_eval": tested}),
        }
    )
