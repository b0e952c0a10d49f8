"""Faults that nobody modelled: what operator G and the guard do about them.

    python -m benchmarks.repair_faults --operator OP [--windows 12] [--only NAME …]

Stuck-at channels, swapped heads, blocks of another sequence, keys rotated for the wrong position, a
transposed layout, NaN, pages of zeros, a wrong scale, a lost sign, saturation, a page that is late, keys in
the place of values, a burst of noise, heads and layers of another sequence, a lost first position, values
that are far too loud, and storage in few bits with a step for each channel of the keys and each vector of the
values (as KIVI has it), in the windows of `benchmarks.repair_recovery`. G must not make any worse than 1 % in
perplexity beyond no repair; the guard must heal all.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from benchmarks.repair_recovery import PREFIX, loss, prepare, windows

from cachemedicpp import Guard, KVState, Rotary, load_repair
from homeostat.core.models import DEFAULT_MODEL, load_model

Change = Callable[[torch.Tensor, torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]]


def faults(model: Any) -> dict[str, Change]:
    """Each fault on one layer's `(K, V, layer)`, `[B, H, T, d]`; both tensors are copies."""
    rotary = Rotary(model)

    def stuck(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        K[:, 0, :, 5] = V[:, 0, :, 5] = 3.0
        return K, V

    def swapped(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        return (K.roll(1, 1), V.roll(1, 1)) if layer % 5 == 0 else (K, V)

    def foreign(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        K[:, :, 64:96], V[:, :, 64:96] = K[:, :, 64:96].roll(1, 0), V[:, :, 64:96].roll(1, 0)
        return K, V

    def offset(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.full((K.shape[0], K.shape[2]), 3)
        return rotary.rotate(K, places, layer), V

    def transposed(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        if layer % 5:
            return K, V
        return tuple(x.transpose(1, 2).reshape(x.shape) for x in (K, V))  # type: ignore[return-value]

    def nan(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        K[:, :, 40:44, ::7] = torch.nan
        V[:, 1, 100] = torch.nan
        return K, V

    def zero_page(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        K[:, :, 32:48] = V[:, :, 32:48] = 0.0
        return K, V

    def scaled(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        K[:, :, 64:96] *= 2.0
        V[:, :, 64:96] *= 2.0
        return K, V

    def negated(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        K[:, 1, 48:64], V[:, 1, 48:64] = -K[:, 1, 48:64], -V[:, 1, 48:64]
        return K, V

    def saturated(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        return K.clamp(-2.0, 2.0), V.clamp(-0.5, 0.5)

    def late(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        K[:, :, 80:96], V[:, :, 80:96] = K[:, :, 64:80], V[:, :, 64:80]
        return K, V

    def exchanged(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        return (V, K) if layer % 10 == 5 else (K, V)

    def burst(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(layer)
        K[:, :, 100:108] += torch.randn(K[:, :, 100:108].shape, generator=generator)
        return K, V

    def stranger_heads(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        K[:, :1], V[:, :1] = K[:, :1].roll(1, 0), V[:, :1].roll(1, 0)
        return K, V

    def some_heads(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        return stranger_heads(K, V, layer) if layer % 5 == 0 else (K, V)

    def stranger_layers(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        if layer % 2 == 0:
            K[:, :, 32:128], V[:, :, 32:128] = K[:, :, 32:128].roll(1, 0), V[:, :, 32:128].roll(1, 0)
        return K, V

    def lost_first(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        K[:, :, 0] = V[:, :, 0] = 0.0
        return K, V

    def loud_values(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        if layer % 3 == 0:
            V[:, :, 64:80] *= 16.0
        return K, V

    def few_bits(bits: int, run: int) -> Change:
        """Each channel of the keys over `run` positions, and each vector of the values, has levels from its
        least number to its largest."""

        def stored(x: torch.Tensor, dim: int, size: int) -> torch.Tensor:
            runs = x.movedim(dim, -1).unflatten(-1, (-1, size))
            low, high = runs.amin(-1, keepdim=True), runs.amax(-1, keepdim=True)
            step = (high - low).clamp(min=1e-8) / (2**bits - 1)
            return (((runs - low) / step).round() * step + low).flatten(-2).movedim(-1, dim)

        return lambda K, V, layer: (stored(K, 2, run), stored(V, 3, V.shape[3]))

    def symmetric(K: torch.Tensor, V: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        steps = [x.abs().amax(dim, keepdim=True).clamp(min=1e-8) / 3 for x, dim in ((K, 2), (V, 3))]
        return (K / steps[0]).round() * steps[0], (V / steps[1]).round() * steps[1]

    return {
        "two bits, steps over 192 positions": few_bits(2, PREFIX),
        "two bits, steps over 32 positions": few_bits(2, 32),
        "three bits, steps over 192 positions": few_bits(3, PREFIX),
        "three bits, levels either side of zero": symmetric,
        "stuck-at channel": stuck,
        "swapped heads": swapped,
        "block of another sequence": foreign,
        "RoPE offset": offset,
        "transposed layout": transposed,
        "NaN": nan,
        "page of zeros": zero_page,
        "page scaled by 2": scaled,
        "page of one head negated": negated,
        "saturated": saturated,
        "page late by one": late,
        "keys and values exchanged": exchanged,
        "burst of noise in keys": burst,
        "a head of another sequence": stranger_heads,
        "the same in every fifth layer": some_heads,
        "every other layer of another sequence": stranger_layers,
        "first position lost": lost_first,
        "values of a page times 16": loud_values,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--operator", type=Path, required=True)
    parser.add_argument("--text", type=Path, default=Path("../shared/data/wikitext2/test.txt"))
    parser.add_argument("--windows", type=int, default=12)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these faults, instead of all")
    args = parser.parse_args()
    model, tokenizer = load_model(args.model)
    repair = load_repair(args.operator, model)
    chunks = [prepare(model, ids) for ids in windows(tokenizer, args.text, args.windows).split(args.batch)]
    clean = math.exp(sum(sum(c.losses) for c in chunks) / args.windows)
    print(f"clean ppl {clean:.3f}\n")
    print("| fault | none | G | guard | G: imputed, noisy, misfits, forgotten, gone |")
    print("|---|---|---|---|---|")
    chosen = {name: f for name, f in faults(model).items() if args.only is None or name in args.only}
    for name, change in chosen.items():
        total = {"none": 0.0, "G": 0.0, "guard": 0.0}
        told = [0, 0, 0, 0, 0]
        for chunk in chunks:
            changed = {i: change(K.clone(), V.clone(), i) for i, (K, V) in enumerate(chunk.clean)}
            damaged = chunk.clean.replace(changed)
            total["none"] += float(loss(model, damaged.cache(), chunk.ids).sum())
            cache = damaged.cache()
            report = repair.repair_cache(cache)
            parts = (
                report["noisy"],
                report["misfits"],
                [b for b in report["blocks"] if b["decision"] == "forgotten"],
            )
            imputed = report["imputed"]["lost"] + report["imputed"]["outliers"]
            counts = (imputed, *map(len, parts), report["gone"])
            for k, n in enumerate(counts):
                told[k] += n
            total["G"] += float(loss(model, cache, chunk.ids).sum())
            guard = Guard(model)
            guard.watch(chunk.clean.cache(), chunk.ids[:, :PREFIX])
            cache = KVState(damaged.cache()).cache()
            guard.heal(cache)
            total["guard"] += float(loss(model, cache, chunk.ids).sum())
        ppl = {k: math.exp(v / args.windows) if math.isfinite(v) else math.nan for k, v in total.items()}
        figures = " | ".join(f"{ppl[k]:.3f}" for k in ("none", "G", "guard"))
        print(f"| {name} | {figures} | {', '.join(map(str, told))} |", flush=True)


if __name__ == "__main__":
    main()
