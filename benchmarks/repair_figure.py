"""Perplexity against severity: no defence, the heuristics, trained operators, operator G, the guard.

    python -m benchmarks.repair_figure --operator OP [--trained FOLDER …] [--out docs/figures/repair]

Writes `OUT.json` (one value for each type, severity and defence; a stopped run continues) and draws
`OUT.png` and `OUT.pdf` from it. Windows and damage are those of `benchmarks.repair_recovery`, scope `all`.
The heuristic shown is the one with the lowest mean loss over the whole figure; all are in the JSON.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import torch
from benchmarks.repair_recovery import PREFIX, family, loss, prepare, windows

from cachemedicpp import Guard, KVState, heuristic, load_repair, medic, sequence_keys
from cachemedicpp.heuristics import HEURISTICS
from homeostat import atomic
from homeostat.models import DEFAULT_MODEL, load_model

SEVERITIES: dict[str, tuple[str, list[float]]] = {
    "gaussian": ("epsilon", [0.16, 0.32, 0.64, 1.0]),
    "dropout_zero": ("dropout_p", [0.02, 0.08, 0.16, 0.32]),
    "bitflipish_sparse": ("bitflip_p", [0.0005, 0.002, 0.02, 0.05]),
    "quant_noise": ("quant_bits", [6, 5, 4, 3]),
}


def measure(
    model: Any, tokenizer: Any, repairs: dict[str, Any], chunks: list[Any], kind: str, value: float
) -> Any:
    """Mean loss under each defence, for one type at one severity."""
    name = SEVERITIES[kind][0]
    params = {name: int(value) if name == "quant_bits" else value}
    injection = family(model, tokenizer, params, "all").at(kind)
    total: dict[str, float] = {}
    for chunk in chunks:
        cache = chunk.clean.cache()
        injection.corrupt_cache(cache, sequence_keys(chunk.ids[:, :PREFIX]))
        damaged = KVState(cache)
        found = {"none": loss(model, damaged.cache(), chunk.ids)}
        for label, repair in repairs.items():
            mended = damaged.cache()
            if repair.query_conditioned:
                with medic(model, repair=repair):
                    found[label] = loss(model, mended, chunk.ids)
            else:
                with torch.no_grad():
                    repair.repair_cache(mended)
                found[label] = loss(model, mended, chunk.ids)
        guard = Guard(model)
        guard.watch(chunk.clean.cache(), chunk.ids[:, :PREFIX])
        mended = damaged.cache()
        guard.heal(mended)
        found["guard"] = loss(model, mended, chunk.ids)
        for label, values in found.items():
            total[label] = total.get(label, 0.0) + float(values.sum())
    return total


def draw(results: dict[str, Any], out: Path) -> None:
    from matplotlib import pyplot as plt

    from homeostat.figures import MARKERS, PALETTE, save, style

    clean = results["clean"]
    cells: dict[str, dict[str, dict[str, float]]] = results["cells"]
    labels = list(next(iter(next(iter(cells.values())).values())))
    mean = {h: sum(v[h] for c in cells.values() for v in c.values()) for h in HEURISTICS}
    best = min(mean, key=mean.__getitem__)
    shown = ["none", best, *[x for x in labels if x not in ("none", "G", "guard", *HEURISTICS)], "G", "guard"]
    with style():
        figure, axes = plt.subplots(1, len(cells), figsize=(11, 2.9), sharey=True, layout="constrained")
        for axis, (kind, by_severity) in zip(axes, cells.items(), strict=True):
            ticks = list(by_severity)
            for k, label in enumerate(shown):
                ppl = [math.exp(by_severity[t][label]) for t in ticks]
                text = f"{label} (best heuristic)" if label == best else label
                marker, colour = MARKERS[k % len(MARKERS)], PALETTE[k % len(PALETTE)]
                axis.plot(range(len(ticks)), ppl, marker=marker, color=colour, label=text)
            axis.axhline(math.exp(clean), color="0.6", linewidth=0.8, linestyle=":")
            axis.set_xticks(range(len(ticks)), ticks)
            axis.set_yscale("log")
            axis.set_title(kind.replace("_", " "))
            axis.set_xlabel(
                {"quant_bits": "bits"}.get(SEVERITIES[kind][0], SEVERITIES[kind][0].replace("_", " "))
            )
        axes[0].set_ylabel("perplexity (dotted: clean)")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(shown))
        save(figure, out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--operator", type=Path, required=True)
    parser.add_argument(
        "--trained", type=Path, nargs="*", default=[], help="folders of trained operators A, B, C"
    )
    parser.add_argument("--text", type=Path, default=Path("../shared/data/wikitext2/test.txt"))
    parser.add_argument("--windows", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("docs/figures/repair"))
    args = parser.parse_args()
    store = args.out.with_suffix(".json")
    results: dict[str, Any] = json.loads(store.read_text()) if store.is_file() else {"cells": {}}
    missing = [
        (kind, value)
        for kind, (_, values) in SEVERITIES.items()
        for value in values
        if f"{value:g}" not in results["cells"].get(kind, {})
    ]
    if missing:
        model, tokenizer = load_model(args.model)
        layers = range(int(model.config.num_hidden_layers))
        repairs = {name: heuristic(name, layers) for name in HEURISTICS} | {
            "G": load_repair(args.operator, model)
        }
        for folder in args.trained:
            trained = load_repair(folder, model)
            repairs[trained.name] = trained
        chunks = [prepare(model, windows(tokenizer, args.text, args.windows))]
        results["clean"] = sum(sum(c.losses) for c in chunks) / args.windows
        results["windows"] = args.windows
        for kind, value in missing:
            total = measure(model, tokenizer, repairs, chunks, kind, value)
            means = {label: x / args.windows for label, x in total.items()}
            results["cells"].setdefault(kind, {})[f"{value:g}"] = means
            atomic.write_json(store, results)
            print(kind, value, {label: round(math.exp(x), 2) for label, x in means.items()}, flush=True)
    draw(results, args.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
