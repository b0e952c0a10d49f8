"""The stability stage: curves and maps for every defence, then `metrics/stability_metrics.json`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from cachemedicpp.cache.prefill import most_positions
from cachemedicpp.cache.state import Geometry
from cachemedicpp.corruption.streams import Stream
from cachemedicpp.eval.stage import Compute, Setup
from cachemedicpp.repair.defences import Defence
from cachemedicpp.stability.measures import (
    EPS0,
    Clean,
    Perturbation,
    Prompt,
    along_norms,
    per_head,
    relative_norm,
)
from cachemedicpp.stability.prompts import prompts
from homeostat.core.errors import UserError
from homeostat.core.records import Record
from homeostat.core.rundir import RunDir
from homeostat.core.stats import bootstrap

Curves = Mapping[str, Defence]  # curve name (baseline, heuristics, cachemedic, …) -> defence


def measure_stability(setup: Setup, run: RunDir, curves: Curves, compute: Compute | None = None) -> Record:
    """Measure prompt by prompt, write the record and return it. A resumed run reads back its results."""
    windows, source = setup.prompts
    results = run.each(
        "stability",
        [f"prompt_{index:05d}" for index in range(len(windows))],
        compute or (lambda todo: ((index, measure_prompt(setup, curves, index)) for index in todo)),
    )
    settings = _settings(setup, curves, len(windows), source)
    own = settings["dtype"]
    by_dtype = [
        {"dtype": dtype, **point}
        for dtype in results[0]["sensitivity"]
        for point in _points(results, dtype, list(curves))
    ]
    metrics: Record = {
        "stability.logit_sensitivity": _points(results, own, list(curves)),
        "stability.logit_sensitivity_by_dtype": by_dtype,
        "stability.amplification_map": _map(results, list(curves)),
        "stability.settings": settings,
    }
    run.write_metrics("stability_metrics", metrics, settings)
    return metrics


def record_disabled(run: RunDir) -> None:
    """The record of a run with `stability.enabled: false`: the protocol's keys, and why they are empty."""
    note = "not measured: the configuration has stability.enabled: false"
    settings: Record = {"enabled": False, "note": note}
    empty: Record = {"stability.logit_sensitivity": [], "stability.amplification_map": []}
    run.write_metrics("stability_metrics", {**empty, "stability.settings": settings}, settings)


def with_prompts(setup: Setup) -> Setup:
    """The set-up with the prompts of this stage; refuses what model, masks or text do not allow."""
    config, geometry = setup.config, Geometry.of(setup.model)
    wanted, limit = config.stability, most_positions(setup.model)
    if isinstance(wanted.layers, list) and max(wanted.layers) >= geometry.layers:
        raise UserError(f"stability.layers = {wanted.layers}: the model has {geometry.layers} layers")
    heads = geometry.kv_heads
    if wanted.head_subset is not None and not all(0 <= h < heads for h in wanted.head_subset):
        raise UserError(f"stability.head_subset = {wanted.head_subset}: the model has {heads} KV heads")
    recent = config.corruption.axes.N_recent
    if wanted.enabled and wanted.time_mode == "old_only" and wanted.prompt_len - 1 <= recent:
        raise UserError(
            f"stability.prompt_len = {wanted.prompt_len}: old_only with N_recent = {recent} leaves nothing "
            "to perturb; use longer prompts"
        )
    if limit is not None and wanted.prompt_len > limit:
        raise UserError(f"stability.prompt_len = {wanted.prompt_len}: the model has {limit} positions")
    return replace(setup, prompts=prompts(setup)) if wanted.enabled else setup


def measure_prompt(setup: Setup, curves: Curves, index: int) -> Record:
    """Sensitivity of every curve at every norm and number format; for the first prompts also the map."""
    config, ids = setup.config.stability, setup.prompts[0][index]
    axes = setup.config.corruption.axes.model_copy(update={"time_mode": config.time_mode})
    curves = {name: defence.under(axes) for name, defence in curves.items()}
    own, first = own_dtype(setup.model), min((*setup.layers, *map_layers(setup)))
    result: dict[str, Any] = {"sensitivity": {}, "cosine": {}, "relative_norm": {}, "map": []}
    for dtype in dict.fromkeys([own, *config.dtypes]):
        model = in_dtype(setup.model, dtype)
        prompt = Prompt.run(model, f"stability:{index}", ids)
        stream = Stream((setup.config.seed, "stability", index))
        old = old_positions(setup, len(ids) - 1)
        readers = [prompt.reader(model, defence) for defence in curves.values()]
        reference = prompt.reader(model, Defence())
        clean = Clean.read(prompt.clean, reference, config.topk_logits, config.batch, first)
        deltas = along_norms(config.delta_norms, config.num_directions, setup.layers, old, stream)
        with_map = dtype == own and index < (config.map_prompts or config.num_prompts)
        mapped: list[Perturbation] = []
        if with_map:
            heads = config.head_subset or list(range(prompt.clean[0].K.shape[1]))
            count = config.num_directions
            where = (map_layers(setup), heads, old, stream.at("map"))
            mapped = per_head(config.map_delta_norm, count, *where)
        drifts, cosines = clean.drifts([*deltas, *mapped], readers)
        found = dict(zip(curves, drifts, strict=True))
        result["sensitivity"][dtype] = {
            name: _by_norm(deltas, values[: len(deltas)]) for name, values in found.items()
        }
        result["cosine"][dtype] = _by_norm(deltas, cosines[: len(deltas)])
        result["relative_norm"][dtype] = {
            f"{norm:g}": relative_norm(prompt.clean, setup.layers, norm) for norm in config.delta_norms
        }
        if with_map:
            sizes = [delta.size(prompt.clean) for delta in mapped]
            ratios = {
                name: [v / (size + EPS0) for v, size in zip(values[len(deltas) :], sizes, strict=True)]
                for name, values in found.items()
            }
            result["map"] = [
                {
                    "layer": mapped[at].layers[0],
                    "head": heads[at // count % len(heads)],
                    "ratios": {name: values[at : at + count] for name, values in ratios.items()},
                }
                for at in range(0, len(mapped), count)
            ]
    return result


def _by_norm(deltas: Sequence[Perturbation], values: Sequence[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for delta, value in zip(deltas, values, strict=True):
        found.setdefault(f"{delta.norm:g}", []).append(value)
    return found


def own_dtype(model: Any) -> str:
    return str(model.dtype).removeprefix("torch.")


@lru_cache(maxsize=1)
def in_dtype(model: Any, dtype: str) -> Any:
    """The model itself, or a copy with its weights in another number format, kept for the next prompt."""
    return model if own_dtype(model) == dtype else copy.deepcopy(model).to(getattr(torch, dtype))


def map_layers(setup: Setup) -> list[int]:
    wanted = setup.config.stability.layers
    return list(setup.layers) if wanted == "protected" else list(wanted)


def old_positions(setup: Setup, length: int) -> int:
    """How many of the first positions are perturbed."""
    if setup.config.stability.time_mode == "all_past":
        return length
    return length - setup.config.corruption.axes.N_recent


def _points(results: Sequence[Record], dtype: str, names: Sequence[str]) -> list[Record]:
    """One point per delta norm: mean over prompts and perturbations, interval over prompts."""
    points = []
    for norm in results[0]["relative_norm"][dtype]:
        means = {n: [float(np.mean(r["sensitivity"][dtype][n][norm])) for r in results] for n in names}
        intervals = {n: bootstrap(values) for n, values in means.items()}
        cosines = [c for r in results for c in r["cosine"][dtype][norm] if c is not None]
        points.append(
            {
                "delta_norm": float(norm),
                "relative_norm": float(np.mean([r["relative_norm"][dtype][norm] for r in results])),
                "cosine": float(np.mean(cosines)) if cosines else None,
                "value": {n: found.estimate for n, found in intervals.items()},
                "ci": {n: [found.low, found.high] for n, found in intervals.items()},
            }
        )
    return points


def _map(results: Sequence[Record], names: Sequence[str]) -> list[Record]:
    """Median over prompts and directions for each layer and head, before and after every repair."""
    mapped = [r["map"] for r in results if r["map"]]
    entries = []
    for place, first in enumerate(mapped[0]):
        median = {n: float(np.median([x for m in mapped for x in m[place]["ratios"][n]])) for n in names}
        entries.append(
            {
                "layer": first["layer"],
                "head": first["head"],
                "before": median["baseline"],
                "after": median.get("cachemedic"),
                "after_by_defence": {n: v for n, v in median.items() if n != "baseline"},
            }
        )
    return entries


def _settings(setup: Setup, curves: Curves, found: int, source: Record) -> Record:
    config = setup.config.stability
    return {
        "num_prompts": found,
        "prompt_len": config.prompt_len,
        "num_directions": config.num_directions,
        "map_prompts": min(found, config.map_prompts or config.num_prompts),
        "map_delta_norm": config.map_delta_norm,
        "delta_norms": config.delta_norms,
        "topk_logits": config.topk_logits,
        "time_mode": config.time_mode,
        "N_recent": setup.config.corruption.axes.N_recent,
        "protected_layers": list(setup.layers),
        "layers": map_layers(setup),
        "head_subset": config.head_subset,
        "eps0": EPS0,
        "curves": {name: defence.name for name, defence in curves.items()},
        "dtype": own_dtype(setup.model),
        "source": source,
        "seed": setup.config.seed,
    }
