"""The guard on the real Gemma 3 270M, below, at and beyond its sliding window of 512 tokens.

    python -m benchmarks.guard_windows [--lengths 400 512 513 1200] [--flips 24] [--tokens 8]

For every length: single flipped bits at random places of random layers must be found, healing must equal the
clean cache up to rounding, and greedy decoding over a damaged and healed cache must write the same tokens.
Then the cost of a guard that verifies every 16 tokens, as a ratio to decoding without one in the same run.
"""

from __future__ import annotations

import argparse
import copy
import time
from typing import Any

import torch

from cachemedicpp import Guard, KVState
from homeostat.core import resources
from homeostat.core.models import load_model


def numbers(cache: Any) -> list[torch.Tensor]:
    return [x for kv in KVState(cache) for x in kv]


def flip(cache: Any, generator: torch.Generator) -> tuple[int, str]:
    """Flip one random bit of one random element; returns the layer and which tensor."""

    def draw(below: int) -> int:
        return int(torch.randint(below, (1,), generator=generator))

    layer, name, bit = draw(len(cache.layers)), ("keys", "values")[draw(2)], draw(32)
    x = getattr(cache.layers[layer], name).clone(memory_format=torch.contiguous_format)
    x.view(-1).view(torch.int32)[draw(x.numel())] ^= 1 << bit if bit < 31 else -(2**31)
    setattr(cache.layers[layer], name, x)
    return layer, "K" if name == "keys" else "V"


@torch.no_grad()
def examine(model: Any, ids: torch.Tensor, flips: int, tokens: int, generator: torch.Generator) -> None:
    prompt, last = ids[:, :-1], ids
    prefilled = model(input_ids=prompt, use_cache=True, logits_to_keep=1).past_key_values
    clean = [x.clone() for x in numbers(prefilled)]
    told: dict[str, Any] = {"max_new_tokens": tokens, "do_sample": False, "eos_token_id": None}
    expected = model.generate(last, past_key_values=copy.deepcopy(prefilled), **told)
    found, apart, same, healing = 0, 0.0, 0, []
    for number in range(flips):
        cache = copy.deepcopy(prefilled)
        guard = Guard(model)
        guard.watch(cache, prompt)
        layer, tensor = flip(cache, generator)
        damages = guard.verify(cache)
        found += [(d.layer, d.tensor) for d in damages] == [(layer, tensor)]
        began = time.perf_counter()
        guard.heal(cache)
        healing.append(time.perf_counter() - began)
        for healed, was in zip(numbers(cache), clean, strict=True):
            apart = max(apart, float((healed - was).abs().max() / was.abs().max()))
        if number < 4:  # generating is slow: a few of them
            same += torch.equal(model.generate(last, past_key_values=cache, **told), expected)
    windows = KVState(prefilled)
    kept = windows[windows.windowed[0]].K.shape[-2]
    print(
        f"{prompt.shape[1]:>6} tokens ({kept} in windows): {found}/{flips} flips found, healed to "
        f"{apart:.1e} of the largest element, {same}/{min(flips, 4)} generations equal, healing takes "
        f"{sorted(healing)[len(healing) // 2]:.2f} s",
        flush=True,
    )


@torch.no_grad()
def cost(model: Any, ids: torch.Tensor, tokens: int) -> None:
    told: dict[str, Any] = {"max_new_tokens": tokens, "do_sample": False, "eos_token_id": None}
    rates: dict[str, list[float]] = {"none": [], "guard": []}
    for _ in range(3):
        for name, times in rates.items():
            began = time.perf_counter()
            if name == "none":
                model.generate(ids, **told)
            else:
                with Guard(model, every=16):
                    model.generate(ids, **told)
            times.append(time.perf_counter() - began)
    print(f"decode with a guard every 16 tokens: {min(rates['none']) / min(rates['guard']):.3f} of without")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="gemma3-270m")
    parser.add_argument("--lengths", type=int, nargs="+", default=[400, 512, 513, 1200])
    parser.add_argument("--flips", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    model, tokenizer = load_model(args.model)
    words = resources.resource("data/offline/wikitext2_sample.txt").read_text("utf-8")
    ids = tokenizer(words, return_tensors="pt").input_ids
    generator = torch.Generator().manual_seed(args.seed)
    for length in args.lengths:
        examine(model, ids[:, : length + 1], args.flips, args.tokens, generator)
    cost(model, ids[:, :600], 64)


if __name__ == "__main__":
    main()
