"""What an audit of 1,024 clean tokens costs, in decoded tokens: by statistics and by the model.

    python -m benchmarks.audit_cost --operator OP [--rounds 5]

One thread, in CPU time; medians over rounds of ratios within a round. The target is 5 decoded tokens' worth.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from cachemedicpp import KVState, audit, load_repair
from homeostat.core.models import DEFAULT_MODEL, load_model
from homeostat.core.resources import resource

CONTEXT, DECODED = 1024, 8


def cpu(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--operator", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load_model(args.model)
    operator = load_repair(args.operator, model)
    text = resource("data/offline/wikitext2_sample.txt").read_text(encoding="utf-8")
    ids = tokenizer(text, return_tensors="pt").input_ids[:, :CONTEXT]
    clean = KVState(model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values)
    audit(operator, clean.cache(), ids)  # computes the roots of the covariances

    def decode() -> None:
        cache = clean.cache()
        for _ in range(DECODED):
            model(input_ids=ids[:, -1:], past_key_values=cache)

    ratios: dict[str, list[float]] = {"statistics": [], "model": []}
    for _ in range(args.rounds):
        token = cpu(decode) / DECODED
        for name, judge in (("statistics", operator), ("model", model)):
            ratios[name].append(cpu(partial(audit, judge, clean.cache(), ids)) / token)
    for name, found in ratios.items():
        print(f"audit of {CONTEXT} tokens by {name}: {median(found):.1f} decoded tokens' worth")


if __name__ == "__main__":
    main()
