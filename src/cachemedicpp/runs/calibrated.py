"""Operator G from a data configuration, for runs that calibrate their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachemedicpp.repair.base import Repair, load_repair
from cachemedicpp.repair.gaussian import store
from cachemedicpp.repair.gaussian.calibrate import calibrate
from cachemedicpp.repair.gaussian.operator import GaussianRepair
from cachemedicpp.tasks.config import DataConfig
from cachemedicpp.tasks.data import load_text
from cachemedicpp.tasks.windows import Windows


def prepare(model: Any, tokenizer: Any, data: DataConfig, windows: int, length: int) -> GaussianRepair:
    """G for `model`, from `windows` texts of `length` tokens of the training text, which is not evaluated."""
    corpus = load_text(data, "train")
    ids = Windows.of(corpus, tokenizer, length).spread(windows)
    return store.make(calibrate(model, ids), model, {"text": corpus.source.as_record()})


def prepare_once(
    folder: Path, model: Any, tokenizer: Any, data: DataConfig, windows: int, length: int
) -> Repair:
    """The same, kept in `folder`: a resumed run reads it back."""
    if not (folder / "card.json").exists():
        store.save(prepare(model, tokenizer, data, windows, length), folder)
    return load_repair(folder, model)
