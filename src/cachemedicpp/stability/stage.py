"""The stability stage: curves and maps for every defence, then `metrics/stability_metrics.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cachemedicpp.corruption.streams import Stream
from cachemedicpp.eval.defences import Defence
from cachemedicpp.eval.stage import Setup, Spread, alone, stage_name
from cachemedicpp.stability.config import StabilityRunConfig
from cachemedicpp.stability.measures import (
    EPS0,
    Prompt,
    amplification,
    directions,
    relative_norm,
    sensitivity,
)
from cachemedicpp.tasks.data import load_text
from cachemedicpp.tasks.data import spread as spread_over
from cachemedicpp.tasks.wikitext2 import strided_windows
from homeostat.core.errors import UserError
from homeostat.core.progress import progress
from homeostat.core.records import Record
from homeostat.core.rundir import RunDir
from homeostat.core.stats import bootstrap

Curves = Mapping[str, Defence]  # curve name (baseline, heuristics, cachemedic, …) -> defence


def measure_stability(
    setup: Setup[StabilityRunConfig], run: RunDir, curves: Curves, spread: Spread = alone
) -> Record:
    """Measure prompt by prompt, write the record and return it. A resumed run reads back its results."""
    windows = prompts(setup)
    keys = [("prompt", index) for index in range(len(windows))]
    ready = spread("stability", keys)
    results = []
    with progress("stability", total=len(windows)) as bar:
        for index, ids in enumerate(windows):
            result = run.once(
                stage_name("stability", "prompt", index),
                lambda index=index, ids=ids: (
                    ready.get(("prompt", index))  # type: ignore[misc]
                    or measure_prompt(setup, curves, index, ids)
                ),
            )
            results.append(result)
            bar.advance()
    settings = _settings(setup, curves, len(windows))
    metrics: Record = {
        "stability.logit_sensitivity": _points(results, list(curves)),
        "stability.amplification_map": _map(results, list(curves)),
        "stability.settings": settings,
    }
    run.write_metrics("stability_metrics", metrics, settings)
    return metrics


def check_stability(config: StabilityRunConfig, model: Any) -> None:
    """Refuse layers, heads or prompts that the model or the masks do not allow."""
    wanted, text = config.stability, model.config.get_text_config()
    layers, heads = int(text.num_hidden_layers), int(getattr(text, "num_key_value_heads", 0) or 0)
    heads = heads or int(text.num_attention_heads)
    if isinstance(wanted.layers, list) and max(wanted.layers) >= layers:
        raise UserError(f"stability.layers = {wanted.layers}: the model has {layers} layers")
    if wanted.head_subset is not None and not all(0 <= h < heads for h in wanted.head_subset):
        raise UserError(f"stability.head_subset = {wanted.head_subset}: the model has {heads} KV heads")
    recent = config.corruption.axes.N_recent
    if wanted.enabled and wanted.time_mode == "old_only" and wanted.prompt_len - 1 <= recent:
        raise UserError(
            f"stability.prompt_len = {wanted.prompt_len}: old_only with N_recent = {recent} leaves nothing "
            "to perturb; use longer prompts"
        )
    limit = getattr(text, "max_position_embeddings", None)
    if limit is not None and wanted.prompt_len > limit:
        raise UserError(f"stability.prompt_len = {wanted.prompt_len}: the model has {limit} positions")


def prompts(setup: Setup[StabilityRunConfig]) -> list[tuple[int, ...]]:
    """Evenly spread windows of the evaluation text."""
    config = setup.config.stability
    ids = setup.tokenizer(load_text(setup.config.data).text, add_special_tokens=False, verbose=False)[
        "input_ids"
    ]
    found = [window for _, window in strided_windows(ids, config.prompt_len, None)]
    if not found:
        raise UserError(
            f"the evaluation text has {len(ids)} tokens: not one prompt of {config.prompt_len} for stability"
        )
    return spread_over(found, config.num_prompts)


def measure_prompt(
    setup: Setup[StabilityRunConfig], curves: Curves, index: int, ids: Sequence[int]
) -> dict[str, Any]:
    """Sensitivity of every curve at every norm, and (for the first prompts) the amplification map."""
    config, model = setup.config.stability, setup.model
    prompt = Prompt.run(model, f"stability:{index}", ids)
    stream = Stream((setup.config.seed, "stability", index))
    old = old_positions(setup, len(ids) - 1)
    reference = prompt.reader(model, Defence())
    readers = {name: prompt.reader(model, defence) for name, defence in curves.items()}
    units = directions(prompt.clean, setup.layers, old, stream, config.num_directions)
    shared = (reference, config.topk_logits, config.batch)
    found = {
        name: {
            f"{norm:g}": values
            for norm, values in sensitivity(
                prompt.clean, units, config.num_directions, config.delta_norms, read, *shared
            ).items()
        }
        for name, read in readers.items()
    }
    relative = {f"{norm:g}": relative_norm(prompt.clean, setup.layers, norm) for norm in config.delta_norms}
    result: dict[str, Any] = {"sensitivity": found, "relative_norm": relative, "map": []}
    if index >= (config.map_prompts or config.num_prompts):
        return result
    heads = config.head_subset or list(range(prompt.clean[0].K.shape[1]))
    count = config.map_directions or config.num_directions
    for layer in map_layers(setup):
        ratios = {
            name: amplification(
                prompt.clean, layer, heads, old, stream.at("map"), count, config.map_delta_norm, read, *shared
            )
            for name, read in readers.items()
        }
        result["map"] += [
            {"layer": layer, "head": h, "ratios": {name: ratios[name][h] for name in readers}} for h in heads
        ]
    return result


def map_layers(setup: Setup[StabilityRunConfig]) -> list[int]:
    wanted = setup.config.stability.layers
    return list(setup.layers) if wanted == "protected" else list(wanted)


def old_positions(setup: Setup[StabilityRunConfig], length: int) -> int:
    """How many of the first positions are perturbed."""
    if setup.config.stability.time_mode == "all_past":
        return length
    return length - setup.config.corruption.axes.N_recent


def _points(results: Sequence[Record], names: Sequence[str]) -> list[Record]:
    """One point per delta norm: mean over prompts and directions, interval over prompts."""
    points = []
    for norm in results[0]["relative_norm"]:
        means = {n: [float(np.mean(r["sensitivity"][n][norm])) for r in results] for n in names}
        intervals = {n: bootstrap(values) for n, values in means.items()}
        points.append(
            {
                "delta_norm": float(norm),
                "relative_norm": float(np.mean([r["relative_norm"][norm] for r in results])),
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


def _settings(setup: Setup[StabilityRunConfig], curves: Curves, found: int) -> Record:
    config = setup.config.stability
    return {
        "num_prompts": found,
        "prompt_len": config.prompt_len,
        "num_directions": config.num_directions,
        "map_prompts": min(found, config.map_prompts or config.num_prompts),
        "map_directions": config.map_directions or config.num_directions,
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
        "source": load_text(setup.config.data).source.as_record(),
        "seed": setup.config.seed,
    }
