"""What repair costs at 1,024 tokens of context: decoding with G at rest or under a guard, healing a block.

    python -m benchmarks.repair_cost --operator OP [--rounds 16] [--random]

One thread, in CPU time, which other processes still disturb through the memory they share, for a few tenths
of a second at a time. So the ways to decode take turns token by token, in a new random order, and a
figure is the median over rounds of 32 tokens of ratios within a round, with its 95 % bootstrap interval.
The context is held-out text of the offline sample (`--random`: random tokens, which no calibration has seen).
Targets: decoding with G at rest ≥ 0.99 of none, guard verifying every 16 tokens ≥ 0.95, one repair of a clean
cache ≤ 10 tokens' worth, healing a damaged 32-token block in every layer ≤ 1.5 times the forward of those
tokens plus verification.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from cachemedicpp import Guard, KVState, load_repair
from cachemedicpp.tasks.config import DataConfig
from cachemedicpp.tasks.data import load_text
from homeostat.core import stats
from homeostat.core.memory import keep_freed_memory
from homeostat.core.models import DEFAULT_MODEL, load_model
from homeostat.core.progress import track

CONTEXT, BLOCK, EVERY = 1024, 32, 16
TOKENS = 2 * EVERY  # decoded each way in a round
BEFORE = 512  # where the block to heal begins


def cpu(work: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
    """Seconds of CPU time that a call takes."""
    start = time.process_time()
    with torch.no_grad():
        work(*args, **kwargs)
    return time.process_time() - start


class Costs:
    """What one round measures, always from the same clean cache."""

    def __init__(self, model: Any, repair: Any, ids: Tensor) -> None:
        self.model, self.repair, self.ids = model, repair, ids
        self.order = random.Random(0)
        with torch.no_grad():
            self.clean = KVState(model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values)
        repair.repair_cache(self.clean.cache())  # computes the operator's inverse covariances

    def round(self) -> dict[str, float]:
        """Seconds that each piece of work took."""
        mended = self.clean.cache()
        repair = cpu(self.repair.repair_cache, mended)
        heal = self.order.sample([self.forward, self.verify, self.heal], 3)
        return {"repair": repair, **self.decode(mended), **{work.__name__: work() for work in heal}}

    def decode(self, mended: Any) -> dict[str, float]:
        """The ways in turn, token by token; the guard verifies twice, once with tokens that came since."""
        guard, watched = self.watched(every=EVERY)

        def step(way: str, cache: Any, token: Tensor) -> None:
            if way == "guard":
                guard.before_forward(cache, None)
            logits = self.model(input_ids=token, past_key_values=cache).logits
            if way == "guard":
                guard.after_forward(cache, token, None)
            tokens[way] = logits[:, -1:].argmax(-1)

        caches = {"none": self.clean.cache(), "G at rest": mended, "guard": watched}
        tokens = dict.fromkeys(caches, self.ids[:, -1:])
        spent = dict.fromkeys(caches, 0.0)
        for _ in range(TOKENS):
            for way in self.order.sample(list(caches), len(caches)):
                spent[way] += cpu(step, way, caches[way], tokens[way])
        if guard.verified != TOKENS // EVERY:
            raise SystemExit(f"the guard verified {guard.verified} times in {TOKENS} tokens")
        return spent

    def watched(self, **options: int) -> tuple[Guard, Any]:
        guard, cache = Guard(self.model, **options), self.clean.cache()
        guard.watch(cache, self.ids)
        return guard, cache

    def forward(self) -> float:
        prefix = DynamicCache()
        for layer, (K, V) in enumerate(self.clean):
            prefix.update(K[:, :, :BEFORE], V[:, :, :BEFORE], layer)
        return cpu(self.model, input_ids=self.ids[:, BEFORE : BEFORE + BLOCK], past_key_values=prefix)

    def verify(self) -> float:
        guard, cache = self.watched()
        return cpu(guard.verify, cache)

    def heal(self) -> float:
        guard, _ = self.watched()
        broken = self.clean.replace({i: (K.clone(), V.clone()) for i, (K, V) in enumerate(self.clean)})
        for K, V in broken:
            K[:, :, BEFORE : BEFORE + BLOCK] = 0.0
            V[:, :, BEFORE : BEFORE + BLOCK] = 0.0
        return cpu(guard.heal, broken.cache())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--operator", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--random", action="store_true", help="random tokens instead of text")
    args = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    model, tokenizer = load_model(args.model)
    if args.random:
        ids = torch.randint(100, 20_000, (1, CONTEXT), generator=torch.Generator().manual_seed(0))
    else:
        text = load_text(DataConfig(use_offline=True)).text
        ids = torch.tensor([tokenizer(text)["input_ids"][:CONTEXT]])
    costs = Costs(model, load_repair(args.operator, model), ids)
    rounds = [costs.round() for _ in track(range(args.rounds), "rounds")]
    spent = {name: np.array([seconds[name] for seconds in rounds]) for name in rounds[0]}
    token = spent["none"] / TOKENS

    def figure(ratios: np.ndarray) -> str:
        found = stats.bootstrap(ratios, statistic=np.median)
        return f"{found.estimate:.3f} [{found.low:.3f}, {found.high:.3f}]"

    healing = spent["heal"] / (spent["forward"] + spent["verify"])
    print(f"decode with G at rest: {figure(spent['none'] / spent['G at rest'])} of none")
    print(f"  (repairing a clean cache once: {figure(spent['repair'] / token)} tokens' worth)")
    print(f"decode with a guard verifying every 16 tokens: {figure(spent['none'] / spent['guard'])} of none")
    print(f"  (one verification: {figure(spent['verify'] / token)} tokens' worth)")
    print(f"healing 32 tokens in every layer: {figure(healing)} × (their forward + one verification)")


if __name__ == "__main__":
    main()
