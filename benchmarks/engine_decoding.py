"""Damage while requests decode: how many steps until the guard finds it, how many wrong tokens pass, by N.

Needs the engine's environment (`make setup-engines`).

    python -m benchmarks.engine_decoding [--answers 20] [--every 1 --every 4 --every 16]

An answer of 48 tokens is interrupted once, at a random token, by damage to one of its blocks. The guard
looks every N steps. Tokens between damage and discovery are compared with those of the undamaged answer.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from pathlib import Path
from typing import Any

from benchmarks.engine_worker import Worker

from homeostat.core.stats import wilson

TOKENS = 48
FAULT = {"kind": "bit", "epsilon": 0.01}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--every", type=int, action="append")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/engine_decoding.json"))
    asked = parser.parse_args()
    looks = asked.every or [1, 4, 16]
    engine = Worker({"every": 1, "budget": 1000}, num_gpu_blocks_override=200)
    draw = random.Random(1)
    prompts = [[draw.randrange(10, 40_000) for _ in range(200)] for _ in range(asked.answers)]
    moments = [draw.randrange(4, TOKENS - 20) for _ in prompts]
    clean = [
        engine.ask("decode", prompt=p, tokens=TOKENS, fault=None, at=0, seed=i)["tokens"]
        for i, p in enumerate(prompts)
    ]
    rows = []
    for every in looks:
        engine.ask("rpc", name="fault_guard", given=[every, 1000])
        found = [
            engine.ask("decode", prompt=p, tokens=TOKENS, fault=FAULT, at=at, seed=i)
            for i, (p, at) in enumerate(zip(prompts, moments, strict=True))
        ]
        rows.append(summary(every, found, clean, moments))
        print(rows[-1]["text"])
    engine.close()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps({"fault": FAULT, "rows": rows}, indent=2))


def summary(
    every: int, found: list[dict[str, Any]], clean: list[list[int]], moments: list[int]
) -> dict[str, Any]:
    steps = [one["found"]["steps"] for one in found if one["found"]]
    passed = wrong = 0
    for one, right, at in zip(found, clean, moments, strict=True):
        until = one["found"]["tokens"] if one["found"] else TOKENS
        passed += until - at
        wrong += sum(a != b for a, b in zip(one["tokens"][at:until], right[at:until], strict=True))
    changed = sum(one["tokens"] != right for one, right in zip(found, clean, strict=True))
    share = wilson(wrong, passed * 1 or 1)
    total = sum(TOKENS - at for at in moments)
    text = (
        f"N = {every}: found {len(steps)} of {len(found)}, after {statistics.median(steps):g} steps "
        f"(median), {max(steps)} at most; of {total} tokens after the damage {wrong} wrong ones passed "
        f"({wrong / total:.1%}); answers changed: {changed}"
    )
    return {
        "every": every,
        "answers": len(found),
        "found": len(steps),
        "steps_median": statistics.median(steps),
        "steps_most": max(steps),
        "tokens_before_found": passed,
        "wrong_tokens": wrong,
        "tokens_after_damage": total,
        "wrong_share_before_found": share.estimate,
        "changed": changed,
        "text": text,
    }


if __name__ == "__main__":
    main()
