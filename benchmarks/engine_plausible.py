"""Wrong when written: the share of damaged blocks that operator G calls impossible, and its false alarms.

    homeostat cache calibrate smollm2-135m --out runs/G
    python -m benchmarks.engine_plausible --operator runs/G [--text FILE] [--blocks 2000] [--damaged 60]

Blocks of 32 tokens of clean text are scored as the guard does when they are written; the alarm is at the
guard's limit. Then blocks are damaged, as a fault during computation would, and scored again. No engine is
needed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from cachemedicpp.cache.state import KVState
from cachemedicpp.engines.blocks.plausible import LIMIT, Plausibility
from cachemedicpp.engines.faults import Fault, damaged
from homeostat.core.models import load_model
from homeostat.core.resources import resource
from homeostat.core.stats import wilson

BLOCK, WINDOW = 32, 512
FAULTS = {
    "nan": (1e-5, 1e-4),
    "bit": (1e-9, 1e-4, 1e-3, 1e-2),
    "stuck": (1e-4, 1e-3, 1e-2),
    "bitflipish_sparse": (1e-4, 1e-3, 1e-2),
    "gaussian": (0.04, 0.16, 0.64),
    "quant_noise": (0.16, 0.64),
    "orthogonal_rotation": (0.16, 0.64),
    "dropout_zero": (0.02, 0.16),
}
Block = tuple[Any, Any, int]  # K, V [L, H, 32, d] and the first position


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--operator", required=True)
    parser.add_argument("--text", type=Path, default=None, help="default: the sample that comes with it")
    parser.add_argument("--blocks", type=int, default=2000)
    parser.add_argument("--damaged", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/engine_plausible.json"))
    asked = parser.parse_args()
    judge = Plausibility(asked.operator)
    model, tokenizer = load_model("smollm2-135m")
    text = (asked.text or resource("data/offline/wikitext2_sample.txt")).read_text(encoding="utf-8")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"][-asked.blocks * BLOCK :]
    scores, seconds, kept = [], 0.0, []
    for start in range(0, len(ids) - BLOCK + 1, WINDOW):
        with torch.no_grad():
            window = torch.tensor([ids[start : start + WINDOW]])
            state = KVState(model(input_ids=window, use_cache=True).past_key_values)
        K, V = (torch.stack([kv[i][0] for kv in state]) for i in (0, 1))  # [L, H, T, d]
        for first in range(0, window.shape[1] - BLOCK + 1, BLOCK):
            block = K[:, :, first : first + BLOCK], V[:, :, first : first + BLOCK], first
            before = time.perf_counter()
            scores.append(judge.score(*block).value)
            seconds += time.perf_counter() - before
            if len(kept) < asked.damaged and first > 0 and len(scores) % 5 == 0:
                kept.append(block)
    alarms = sum(score > LIMIT for score in scores)
    high = wilson(alarms, len(scores)).high
    top = sorted(scores)[-5:]
    print(
        f"clean: {alarms} alarms in {len(scores)} blocks (95 %: at most {high:.2%}), loudest scores "
        f"{', '.join(f'{score:.2f}' for score in top)}, limit {LIMIT}; {1e3 * seconds / len(scores):.1f} ms"
    )
    rows = [
        row(judge, kept, kind, epsilon, layers)
        for kind, levels in FAULTS.items()
        for epsilon in levels
        for layers in (1.0, 0.01)
    ]
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    clean = {"blocks": len(scores), "alarms": alarms, "loudest": top, "ms": 1e3 * seconds / len(scores)}
    asked.out.write_text(json.dumps({"limit": LIMIT, "clean": clean, "faults": rows}, indent=2))


def row(judge: Plausibility, blocks: list[Block], kind: str, epsilon: float, layers: float) -> dict[str, Any]:
    """The share found, in all layers or in one."""
    fault, found = Fault(kind, epsilon, layers), 0
    for number, (K, V, first) in enumerate(blocks):
        bad = [K.clone(), V.clone()]
        hit = range(len(K)) if layers == 1.0 else [(7 * number) % len(K)]
        for layer in hit:
            for x, name in zip(bad, "KV", strict=True):
                x[layer] = damaged(fault, x[layer], f"{number}", layer, name)
        found += judge.score(*bad, first).impossible
    share = wilson(found, len(blocks))
    where = "all layers" if layers == 1.0 else "one layer"
    print(
        f"{kind} {epsilon:g}, {where}: {found} of {len(blocks)} found ({share.low:.2f} to {share.high:.2f})"
    )
    return {"kind": kind, "epsilon": epsilon, "where": where, "found": found, "n": len(blocks)}


if __name__ == "__main__":
    main()
