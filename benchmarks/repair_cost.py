"""What repair costs at 1,024 tokens of context: decoding with G at rest or under a guard, healing a block.

    python -m benchmarks.repair_cost --operator OP [--rounds 5] [--tokens 32]

Rounds alternate between the ways, on one thread, in CPU time (other processes do not count), and ratios are
medians over rounds. Targets: decoding with G at rest ≥ 0.95 of none, guard verifying every 16 tokens ≥ 0.93,
healing a damaged 32-token block in every layer ≤ 1.5 times the forward of those tokens plus verification.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import DynamicCache

from cachemedicpp import Guard, KVState, load_repair
from homeostat.models import DEFAULT_MODEL, load_model

CONTEXT, BLOCK = 1024, 32


def cpu(work: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
    """Seconds of CPU time that a call takes."""
    start = time.process_time()
    with torch.no_grad():
        work(*args, **kwargs)
    return time.process_time() - start


def decode(model: Any, cache: Any, token: torch.Tensor, count: int) -> None:
    for _ in range(count):
        token = model(input_ids=token, past_key_values=cache).logits[:, -1:].argmax(-1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--operator", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=32)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, _ = load_model(args.model)
    repair = load_repair(args.operator, model)
    ids = torch.randint(100, 20_000, (1, CONTEXT), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        clean = KVState(model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values)
    token = ids[:, -1:]
    repair.repair_cache(clean.cache())  # computes the operator's inverse covariances

    spent: dict[str, list[float]] = {
        name: [] for name in ("none", "G at rest", "guard", "forward", "heal", "verify")
    }
    once: list[float] = []
    for _ in range(args.rounds):
        spent["none"].append(cpu(decode, model, clean.cache(), token, args.tokens))

        mended = clean.cache()
        once.append(cpu(repair.repair_cache, mended))
        spent["G at rest"].append(cpu(decode, model, mended, token, args.tokens))

        guard = Guard(model, every=16)
        watched = clean.cache()
        guard.watch(watched, ids)
        with guard:
            spent["guard"].append(cpu(decode, model, watched, token, args.tokens))

        before, block = 512, ids[:, 512 : 512 + BLOCK]
        prefix = DynamicCache()
        for layer, (K, V) in enumerate(clean):
            prefix.update(K[:, :, :before], V[:, :, :before], layer)
        spent["forward"].append(cpu(model, input_ids=block, past_key_values=prefix))
        guard = Guard(model)
        sound = clean.cache()
        guard.watch(sound, ids)
        spent["verify"].append(cpu(guard.verify, sound))
        broken = clean.replace({i: (K.clone(), V.clone()) for i, (K, V) in enumerate(clean)})
        for K, V in broken:
            K[:, :, before : before + BLOCK] = 0.0
            V[:, :, before : before + BLOCK] = 0.0
        cache = broken.cache()
        spent["heal"].append(cpu(guard.heal, cache))

    def ratio(a: str, b: str) -> float:
        return statistics.median(x / y for x, y in zip(spent[a], spent[b], strict=True))

    token_cost = statistics.median(spent["none"]) / args.tokens
    allowed = [f + v for f, v in zip(spent["forward"], spent["verify"], strict=True)]
    healing = statistics.median(h / a for h, a in zip(spent["heal"], allowed, strict=True))
    print(f"decode with G at rest: {1 / ratio('G at rest', 'none'):.3f} of none")
    print(f"  (repairing a clean cache once: {statistics.median(once) / token_cost:.1f} tokens' worth)")
    print(f"decode with a guard verifying every 16 tokens: {1 / ratio('guard', 'none'):.3f} of none")
    print(f"  (one verification: {statistics.median(spent['verify']) / token_cost:.2f} tokens' worth)")
    print(f"healing 32 tokens in every layer: {healing:.2f} × (their forward + one verification)")


if __name__ == "__main__":
    main()
