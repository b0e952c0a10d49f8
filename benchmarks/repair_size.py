"""What operator G takes at the size of real models: measured on one, computed for others.

    python -m benchmarks.repair_size --text FILE [--model qwen2.5-coder-1.5b] [--long 8192]

Calibrates on windows of 192 tokens of a text, repairs 1,024 tokens, clean and with a damaged block of 16
positions in every layer, and prints seconds of one thread, the operator's size and the process's peak of
memory. `--long N` also repairs N damaged positions, and prints the memory that this takes beside the cache
and the operator (Linux). For other models the bytes follow from their shapes, and the seconds from the
multiply-adds of the matrix products, which are nearly all of the work, there and here. Wider caches need more
text.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import DynamicCache

from cachemedicpp import KVState
from cachemedicpp.cache.state import Geometry, write
from cachemedicpp.repair.gaussian import calibrate
from cachemedicpp.repair.gaussian.calibrate import ENOUGH
from cachemedicpp.repair.gaussian.store import make
from homeostat.core.memory import keep_freed_memory
from homeostat.core.models import load_model

CONTEXT, LENGTH, KINDS, SIGNS = 1024, 192, 512, 4


@dataclass(frozen=True)
class Shape:
    """What a model's cache is made of, and how many parameters one token passes through."""

    layers: int
    kv_heads: int
    head_dim: int
    parameters: float

    @property
    def features(self) -> int:
        return 2 * self.kv_heads * self.head_dim

    def operator_bytes(self) -> float:
        """Covariances to the layer itself and two more, and the kinds of tokens; the rest is small."""
        return 4 * self.layers * (3 * self.features**2 + KINDS * self.features)

    def inverse_bytes(self) -> float:
        """Each layer's rows of its window's inverse, which the first repair computes and keeps."""
        return 4 * self.layers * 3 * self.features**2

    def tokens(self) -> int:
        """Text for a window of three layers, and an eighth of all to set aside."""
        return ENOUGH * 3 * self.features * 8 // 7

    def calibration(self, tokens: int) -> float:
        """The forward, the products of three layers' features, and one inverse of each window."""
        products = self.layers * 3 * self.features**2
        return tokens * (self.parameters + 2 * products) + self.layers * (3 * self.features) ** 3

    def look(self, tokens: int) -> float:
        """Distances within each head, and a few sums over three layers."""
        sums = 3 * 2 * self.kv_heads * SIGNS
        return tokens * self.layers * self.features * (self.head_dim + sums)


OTHERS = {"8 billion (32 layers, 8 KV heads of 128)": Shape(32, 8, 128, 8.0e9)}


def measured(
    name: str, dtype: str, text: Path, windows: int, long: list[int]
) -> tuple[Shape, dict[str, float]]:
    model, tokenizer = load_model(name, dtype=dtype)
    geometry = Geometry.of(model)
    words = tokenizer(text.read_text(encoding="utf-8"))["input_ids"]
    if len(words) < windows * LENGTH + CONTEXT:
        raise SystemExit(f"{text} has {len(words):,} tokens: {windows * LENGTH + CONTEXT:,} are needed")
    starts = torch.linspace(0, len(words) - CONTEXT - LENGTH, windows).long().tolist()
    words, ids = words[-CONTEXT:], torch.tensor([words[at : at + LENGTH] for at in starts])
    spent: dict[str, float] = {}

    def timed(what: str, work: Any) -> Any:
        start = time.process_time()
        found = work()
        spent[what] = time.process_time() - start
        return found

    stats = timed("calibration", lambda: calibrate(model, ids))
    repair = make(stats, model, {"text": {"file": text.name}})
    with torch.no_grad():
        output = model(input_ids=torch.tensor([words]), use_cache=True, logits_to_keep=1)
        clean = KVState(output.past_key_values)
        timed("first repair (computes the inverses)", lambda: repair.repair_cache(clean.cache()))
        timed("repair of a clean cache", lambda: repair.repair_cache(clean.cache()))
        broken = clean.cache()
        write(broken, {i: _flipped(kv) for i, kv in enumerate(clean)})
        timed("repair of one damaged block", lambda: repair.repair_cache(broken))
        start = time.process_time()
        for _ in range(4):
            model(input_ids=torch.tensor([words[-1:]]), past_key_values=clean.cache())
        spent["one decoded token"] = (time.process_time() - start) / 4
        for positions in long:
            spent[f"memory to repair {positions} damaged positions, MB"] = peak(repair, clean, positions)
    spent["reach, layers"] = stats.reach
    spent["operator, MB"] = sum(x.nbytes for x in stats.tensors().values()) / 1e6
    spent["peak of the process, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    shape = Shape(geometry.layers, geometry.kv_heads, geometry.head_dim, model.num_parameters())
    return shape, spent


def peak(repair: Any, clean: KVState, positions: int) -> float:
    """MB that the process takes beyond what it holds, while it repairs a cache that is damaged everywhere."""
    cache = DynamicCache()
    for layer, kv in enumerate(clean):
        keys, values = (x.repeat(1, 1, -(-positions // CONTEXT), 1)[:, :, :positions] for x in kv)
        cache.update(*_flipped((keys, values), slice(None)), layer)
    Path("/proc/self/clear_refs").write_text("5")  # the kernel's peak begins anew
    before = _status("VmRSS")
    repair.repair_cache(cache)
    return _status("VmHWM") - before


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith(f"{name}:"))


def _flipped(kv: Any, where: slice = slice(512, 528)) -> tuple[torch.Tensor, torch.Tensor]:
    """One element in fifty of these positions, eight times as large."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for x in kv:
        new = x.clone()
        hit = torch.rand(new[:, :, where].shape, generator=generator) < 0.02
        new[:, :, where] = torch.where(hit, 8 * new[:, :, where], new[:, :, where])
        found.append(new)
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument(
        "--text", type=Path, required=True, help="what to calibrate on, and its end to repair"
    )
    parser.add_argument("--windows", type=int, default=80)
    parser.add_argument("--long", type=int, nargs="*", default=[], help="damaged positions; minutes each")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if not args.long:  # what is kept could not be told from what is needed
        keep_freed_memory()
    shape, spent = measured(args.model, args.dtype, args.text, args.windows, args.long)
    print(f"{args.model}, {args.dtype}, {args.windows} windows of {LENGTH} tokens, one thread, measured:")
    for what, value in spent.items():
        print(f"  {what}: {value:.3g}" + ("" if "," in what else " s"))
    tokens = args.windows * LENGTH
    for name, other in OTHERS.items():
        longer = other.calibration(other.tokens()) / shape.calibration(tokens)
        look = other.look(CONTEXT) / shape.look(CONTEXT)
        print(f"{name}, computed:")
        sizes = (other.operator_bytes() / 1e9, other.inverse_bytes() / 1e9)
        print("  operator: {:.2g} GB, its inverses {:.2g} GB".format(*sizes))
        told = f"{other.tokens():,} tokens: {spent['calibration'] * longer / 60:.3g} min of this thread"
        print(f"  calibration on {told}")
        print(f"  repair of a clean cache: {spent['repair of a clean cache'] * look:.3g} s")


if __name__ == "__main__":
    main()
