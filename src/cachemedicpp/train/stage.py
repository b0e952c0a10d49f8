"""A training run: `logs/train.jsonl`, `checkpoints/`, `metrics/train_metrics.json` and `operator/`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.cache.attention import check_decoder
from cachemedicpp.cache.state import Geometry
from cachemedicpp.corruption import CorruptionFamily
from cachemedicpp.repair.operators import LowRankRepair, Trained, build_operator, parameter_count
from cachemedicpp.repair.operators.states import QUERIES, States, collect
from cachemedicpp.repair.operators.store import save
from cachemedicpp.tasks.config import MedicConfig
from cachemedicpp.tasks.data import load_text
from cachemedicpp.tasks.windows import Windows
from cachemedicpp.train.bound import linear_bound
from cachemedicpp.train.heldout import heldout_kl
from cachemedicpp.train.local import Local
from cachemedicpp.train.loop import Trainer
from cachemedicpp.train.passes import frozen
from cachemedicpp.train.validate import Validation, settled
from homeostat.core.progress import progress
from homeostat.core.records import Record
from homeostat.core.rundir import RunDir, check_out, open_run

OPERATOR = "operator"
STATES = "states.safetensors"
Layers = tuple[int, ...]
_STATES: dict[str, Any] = {}  # of the model that was trained for last


def train_run(
    config: MedicConfig,
    out: Path,
    config_path: str | Path | None = None,
    stop_at: int | None = None,
    loaded: tuple[Any, Any] | None = None,
) -> Record | None:
    """Train, or continue training, in run directory `out`. Returns the metrics, or None after `stop_at`.

    `loaded` is a model and tokenizer to use instead of loading the configured ones.
    """
    check_out(out, config)
    model, tokenizer = loaded or _load(config)
    check_decoder(model)
    with open_run(out, command="cache train", config=config, config_path=config_path) as run:
        metrics = train_into(run, config, model, tokenizer, stop_at)
        if metrics is not None:
            run.finish()
        return metrics


def _load(config: MedicConfig) -> tuple[Any, Any]:
    with progress(f"loading {config.model.name} and the data"):
        load_text(config.data, "train")  # what is not there is refused before anything is made
        return config.model.load()


def train_into(
    run: RunDir, config: MedicConfig, model: Any, tokenizer: Any, stop_at: int | None = None
) -> Record | None:
    """The same inside a run directory that is already open."""
    geometry = Geometry.of(model)
    operator = build_operator(config.repair, geometry, config.seed)
    family = CorruptionFamily.build(config.corruption, model, tokenizer, operator.layers, config.seed)
    family = family.fitted(config.train.prefix_len)
    length = config.train.prefix_len + config.train.continuation_len
    corpus = load_text(config.data, "train")
    windows = Windows.of(corpus, tokenizer, length)
    apart = family.for_training(model, windows.ids.tolist())  # the evaluation's draws stay unseen
    with frozen(model):
        validation = None
        if config.train.validate_checkpoints:
            windows, kept = windows.split(config.train.validation_sequences)
            validation = Validation.build(config, model, tokenizer, apart, kept)
        learned = windows  # without what is kept for validation
        operator.prepare(model, lambda: _calibration(config, learned))
        local = None
        if config.train.local.steps:
            states = clean_states(run, config, model, learned, operator.layers)
            operator.start(states)
            local = Local.build(config, operator, states.to(model.device), apart)
        trainer = Trainer(config, model, operator, apart, windows, validation, local)
        trainer.run(run, stop_at)
        if not trainer.finished:
            return None
        operator.eval().requires_grad_(False)
        steps = sum(1 for _ in run.log("train").read())
        metrics: Record = {"train.steps": steps, "train.parameters": parameter_count(operator)}
        if validation is not None:
            metrics["train.validation"] = _validated(run, operator, validation)
        if local is not None:
            metrics["train.local"] = _learned(run)
            if isinstance(operator, LowRankRepair):
                rank = config.repair.rank
                metrics["train.local"]["bound"] = run.once("train_bound", lambda: linear_bound(local, rank))
            metrics["train.parameter_share"] = metrics["train.parameters"] / sum(
                p.numel() for p in model.parameters()
            )
        settings: Record = {"family": config.repair.family, "layers": list(operator.layers)}
        settings["train_text"] = corpus.source.as_record()
        settings["threads"] = torch.get_num_threads()
        if config.train.heldout_sequences:
            other = load_text(config.data, "eval")
            ids = Windows.of(other, tokenizer, length).spread(config.train.heldout_sequences)
            metrics["train.heldout_kl"] = run.once(
                "train_heldout_kl",
                lambda: heldout_kl(
                    model, operator, family, ids, config.train.prefix_len, config.train.batch_size
                ),
            )
            settings["heldout_text"] = other.source.as_record()
    metrics |= _spent(run)
    run.write_metrics("train_metrics", metrics, settings)
    training = {"run_id": run.run_id, "seed": config.seed, **metrics}
    save(operator, run.path / OPERATOR, config.repair, model, run.config_hash, training)
    return metrics


def clean_states(run: RunDir, config: MedicConfig, model: Any, windows: Windows, layers: Layers) -> States:
    """The clean states of training text, collected once in a run; one that is resumed reads them."""
    local, path = config.train.local, run.path / "checkpoints" / STATES
    if path.exists():
        return States.load(path, layers)
    key = (id(model), layers, local.windows, local.window_len, len(windows.ids))
    if _STATES.get("key") != key:  # the families of a run share them
        spread = replace(windows, length=local.window_len + QUERIES).spread(local.windows)
        _STATES.update(key=key, states=collect(model, spread, layers))
    found: States = _STATES["states"]
    found.save(path)
    return found


def _learned(run: RunDir) -> Record:
    """The local stage: how much of the distance is left, at the start and at its best."""
    kept = list(run.log("validation_local").read())
    best = min(kept, key=lambda record: record["loss"])
    return {
        "start": kept[0]["loss"],
        "best": best["loss"],
        "best_step": best["step"],
        "cells": best["cells"],
        "curve": [[record["step"], record["loss"]] for record in kept],
    }


def _calibration(config: MedicConfig, windows: Windows) -> Tensor:
    """The windows of training text that closed forms are learned from."""
    return replace(windows, length=config.eval.calibration_len).spread(config.eval.calibration_windows)


def _validated(run: RunDir, operator: Trained, validation: Validation) -> Record:
    """The best state's validation, after its parts were settled, beside no operator and the start."""
    kept = list(run.log("validation").read())
    best = min(kept, key=lambda record: record["loss"])
    parts = run.once("train_parts", lambda: settled(operator, validation))
    for part in parts["off"]:
        operator.switch(part, False)
    none = run.once("train_validation_none", lambda: validation.measure(None))
    useful = parts["after"]["loss"] < none["loss"]
    operator.useful.fill_(useful)
    losses = ("text_damaged", "text_clean", "retrieval_clean", "retrieval_damaged", "loss")
    return {
        "none": none,
        "useful": useful,  # otherwise the operator is stored as the identity
        "start": {name: kept[0][name] for name in losses},
        "best_step": best["step"],
        "parts": parts,
    }


def _spent(run: RunDir) -> Record:
    """How long the steps took."""
    spent = [(record["seconds"], record["cpu_seconds"]) for record in run.log("train").read()]
    seconds = sum(wall for wall, _ in spent)
    return {
        "train.seconds": seconds,
        "train.cpu_seconds": sum(cpu for _, cpu in spent),
        "train.steps_per_second": len(spent) / seconds if spent else 0.0,
    }
