"""What a medic costs while decoding: tokens/s at 1,024 tokens of context, relative to the plain model.

Shows: attached but idle ≥ 0.98 of the plain model's speed, operator A on four mid layers ≥ 0.90.

    python -m benchmarks.decode_overhead [--context 1024] [--tokens 64] [--batch 1 --batch 4]

Every variant decodes the same tokens, each from its own fork of one prefill. They take turns token by token,
in an order that changes with the token, and a ratio is the median over tokens of the ratio at the same token:
a slow moment of the machine falls on all of them. CPU time is compared too: it leaves out what other
processes take.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from cachemedicpp.cache.state import Geometry, KVState
from cachemedicpp.repair.attach import medic
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators import build_operator
from homeostat.core.models import load_model

WARM_UP = 2  # tokens that are decoded but not counted
Variant = Callable[[], AbstractContextManager[Any]]


def variants(model: Any) -> dict[str, Variant]:
    """None, idle, and operators with weights away from their starting point, on four mid layers."""
    found: dict[str, Variant] = {"none": nullcontext, "idle": lambda: medic(model)}
    for family in ("A", "B", "C"):
        config = RepairConfig.model_validate({"family": family, "protect_layers": "mid:4"})
        operator = build_operator(config, Geometry.of(model)).requires_grad_(False).eval()
        for parameter in operator.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
        found[family] = lambda operator=operator: medic(model, repair=operator)
    return found


def measure(model: Any, batch: int, context: int, count: int) -> dict[str, tuple[float, float, float]]:
    """For each variant: tokens/s, and its wall and CPU speed relative to none."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(100, model.config.vocab_size, (batch, context + count), generator=generator)
    state = KVState(model(input_ids=ids[:, :context], use_cache=True, logits_to_keep=1).past_key_values)
    chosen = variants(model)
    caches = {name: state.cache() for name in chosen}
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen}
    names = list(chosen)
    for turn in range(count):
        token = ids[:, context + turn, None]
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            with chosen[name]():
                wall, cpu = time.perf_counter(), time.process_time()
                model(input_ids=token, past_key_values=caches[name])
                took = time.perf_counter() - wall, time.process_time() - cpu
            if turn >= WARM_UP:
                spent[name].append(took)
    results = {}
    for name, times in spent.items():
        ratios = [
            statistics.median(plain[i] / mine[i] for plain, mine in zip(spent["none"], times, strict=True))
            for i in (0, 1)
        ]
        speed = batch / statistics.median(wall for wall, _ in times)
        results[name] = (speed, ratios[0], ratios[1])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--batch", type=int, action="append")
    options = parser.parse_args()
    model, _ = load_model()
    print(f"decode at {options.context} tokens of context, {torch.get_num_threads()} threads")
    print(f"{'batch':>5} {'variant':>8} {'tokens/s':>9} {'wall':>6} {'CPU':>6}   (speed relative to none)")
    with torch.no_grad():
        for batch in options.batch or [1, 4]:
            measured = measure(model, batch, options.context, options.tokens)
            for name, (speed, wall, cpu) in measured.items():
                print(f"{batch:>5} {name:>8} {speed:>9.1f} {wall:>6.3f} {cpu:>6.3f}", flush=True)


if __name__ == "__main__":
    main()
