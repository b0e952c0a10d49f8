"""What the guard costs in vLLM: speed with it over without, batch 1 and 8, prefix hits of 0 % and 90 %.

Needs the engine's environment (`make setup-engines`).

    python -m benchmarks.engine_throughput [--rounds 8] [--every 16] [--dtype float32]

Two engines are kept, one with the guard (mode paged) and one without. They take turns with the same
prompts, so that a slow moment of the machine falls on both; a ratio is the median over rounds. CPU time is
compared too: it leaves out what other processes take.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from pathlib import Path
from typing import Any

from benchmarks.engine_worker import Worker

PROMPT, TOKENS = 320, 24  # ten blocks, of which nine are hit at 90 %


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--every", type=int, default=16)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/engine_throughput.json"))
    asked = parser.parse_args()
    engines = {"bare": Worker(None, asked.dtype), "guard": Worker({"every": asked.every}, asked.dtype)}
    draw = random.Random(0)
    cells: list[dict[str, Any]] = []
    for batch in (1, 8):
        for hits in (0.0, 0.9):
            rounds = [one_round(engines, draw, batch, hits, number) for number in range(asked.rounds + 1)][1:]
            cell: dict[str, Any] = {"batch": batch, "hits": hits, "rounds": asked.rounds}
            for clock in ("wall", "cpu"):
                ratios = sorted(r["bare"][clock] / r["guard"][clock] for r in rounds)
                cell[clock] = statistics.median(ratios)
                cell[f"{clock}_range"] = [ratios[0], ratios[-1]]
            spent = [r["spent"] / r["guard"]["cpu"] for r in rounds]
            cell["guard_share_of_cpu"] = statistics.median(spent)
            cell["ms_per_block"] = statistics.median(1e3 * r["spent"] / max(r["blocks"], 1) for r in rounds)
            cells.append(cell)
            print(
                f"batch {batch}, hits {hits:.0%}: speed with guard over without {cell['wall']:.3f} (wall), "
                f"{cell['cpu']:.3f} (CPU); the guard itself {cell['guard_share_of_cpu']:.2%} of CPU time, "
                f"{cell['ms_per_block']:.2f} ms per block fingerprinted or verified"
            )
    for engine in engines.values():
        engine.close()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps({"settings": vars(asked) | {"out": None}, "cells": cells}, indent=2))


def one_round(
    engines: dict[str, Worker], draw: random.Random, batch: int, hits: float, number: int
) -> dict[str, Any]:
    """The same prompts to both engines, in alternating order."""
    shared = round(PROMPT * hits)
    prefix = [draw.randrange(10, 40_000) for _ in range(shared)]
    prompts = [prefix + [draw.randrange(10, 40_000) for _ in range(PROMPT - shared)] for _ in range(batch)]
    found: dict[str, Any] = {}
    names = list(engines) if number % 2 else list(reversed(engines))
    for name in names:
        engine = engines[name]
        engine.ask("generate", prompts=[[*prefix, 5]], tokens=1, fresh=True)
        before = engine.ask("rpc", name="fault_counts", given=[])
        found[name] = engine.ask("generate", prompts=prompts, tokens=TOKENS, fresh=False)
        after = engine.ask("rpc", name="fault_counts", given=[])
        assert min(found[name]["cached"]) == shared // 32 * 32, "the prefix was not hit"
        if name == "guard":
            found["spent"] = after["seconds"] - before["seconds"]
            found["blocks"] = sum(after[k] - before[k] for k in ("verified", "fingerprinted"))
            assert after["bad"] == 0, "a false alarm"
    assert found["bare"]["tokens"] == found["guard"]["tokens"], "the guard changed an answer"
    return found


if __name__ == "__main__":
    main()
