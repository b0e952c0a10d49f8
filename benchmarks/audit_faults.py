"""What an audit by operator G finds, at a stated rate of false alarms, on clean text of several kinds.

    python -m benchmarks.audit_faults --operator OP --kind wiki=test.txt --kind code=code.txt … [--windows 8]

Windows of 256 tokens of each text are prefilled clean. Their blocks of 16 positions are audited as they are
(false alarms), and after faults: the numbers of another window of the same text in all layers, in one layer
at a time, or in one head at a time; in the second half of a block only; a cache that is late by 1 or by 16
positions; the right numbers under a position that is off by 64. A share is that of blocks that are named,
without the first block of a window.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cachemedicpp import KVState, Rotary, load_repair
from cachemedicpp.repair.gaussian import GaussianRepair
from cachemedicpp.repair.gaussian.prior import BLOCK
from homeostat.core.models import DEFAULT_MODEL, load_model

LENGTH = 256
Limits = tuple[float, float, float]


@dataclass
class Seen:
    """Evidence of all tokens, `[B, T, L, G]`, NaN where a token is not judged."""

    evidence: Tensor

    def alarms(self, prior: Any, limits: Limits) -> Tensor:
        """The blocks `[B, blocks]` that are named, of those that can be judged (others: NaN)."""
        known = ~self.evidence.flatten(2).isnan().any(-1)
        rows, length = known.shape
        block = torch.arange(length) // BLOCK + length // BLOCK * torch.arange(rows).unsqueeze(1)
        scores = prior.scores(self.evidence[known], block[known], rows * length // BLOCK)
        named: Tensor = scores.alarms(limits).float()
        return named.masked_fill(scores.block.isnan(), torch.nan).view(rows, -1)


def look(operator: GaussianRepair, state: KVState, ids: Tensor) -> Seen:
    stats = operator.stats
    out = torch.full((*ids.shape, stats.layers, stats.groups), torch.nan)
    for row, one in enumerate(operator.judge(state.cache(), ids)):
        out[row, one.tokens.column] = one.evidence
    return Seen(out)


def faults(model: Any, clean: KVState) -> dict[str, KVState]:
    """Caches that are wrong throughout, in all layers."""
    rotary = Rotary(model)

    def each(change: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]) -> KVState:
        return clean.replace({i: change(K, V, i) for i, (K, V) in enumerate(clean)})

    def moved(K: Tensor, V: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        return rotary.rotate(K, torch.full((K.shape[0], K.shape[2]), 64), layer), V

    return {
        "foreign": each(lambda K, V, _: (K.roll(1, 0), V.roll(1, 0))),
        "late by 1": each(lambda K, V, _: (K.roll(1, 2), V.roll(1, 2))),
        "late by 16": each(lambda K, V, _: (K.roll(16, 2), V.roll(16, 2))),
        "position off by 64": each(moved),
    }


def measure(operator: GaussianRepair, model: Any, ids: Tensor, limits: Limits) -> dict[str, str]:
    with torch.no_grad():
        clean = KVState(model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values)
    prior = operator.stats.prior
    own = look(operator, clean, ids)
    named = own.alarms(prior, limits)
    judged = ~named.isnan()
    told = {"blocks": str(int(judged.sum())), "false alarms": str(int(named.nansum()))}

    def share(seen: Seen) -> float:
        return float(seen.alarms(prior, limits)[:, 1:].nanmean())

    every = {name: look(operator, state, ids) for name, state in faults(model, clean).items()}
    told |= {name: f"{share(seen):.3f}" for name, seen in every.items()}
    foreign = every["foreign"].evidence
    late = (torch.arange(ids.shape[1]) % BLOCK >= BLOCK // 2).view(1, -1, 1, 1)
    told["second half"] = f"{share(Seen(torch.where(late, foreign, own.evidence))):.3f}"
    L, G = foreign.shape[2:]
    for name, units in (
        ("one layer", [(layer, slice(None)) for layer in range(L)]),
        ("one head", [(layer, slice(g, g + 1)) for layer in range(0, L, 3) for g in (0, G // 2)]),
    ):
        shares = []
        for layer, heads in units:
            mixed = torch.where(foreign.isnan(), torch.nan, own.evidence)
            mixed[:, :, layer, heads] = foreign[:, :, layer, heads]
            shares.append(share(Seen(mixed)))
        enough = sum(x >= 0.99 for x in shares)
        mean, least = sum(shares) / len(shares), min(shares)
        told[name] = f"{mean:.3f} (least {least:.3f}; ≥ 0.99 in {enough} of {len(shares)})"
    return told


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--operator", type=Path, required=True)
    parser.add_argument("--kind", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--windows", type=int, default=8)
    parser.add_argument("--alpha", type=float, default=1e-4)
    args = parser.parse_args()
    model, tokenizer = load_model(args.model)
    operator: Any = load_repair(args.operator, model)
    limits = operator.stats.prior.limits(args.alpha)
    print(f"limits at {args.alpha:g}: {', '.join(f'{x:.1f}' for x in limits)} (head, layer, block)\n")
    head = False
    for kind in args.kind:
        name, _, path = kind.partition("=")
        ids = tokenizer(Path(path).read_text(encoding="utf-8"), return_tensors="pt").input_ids[0]
        whole = ids[: len(ids) // LENGTH * LENGTH].view(-1, LENGTH)
        chosen = whole[torch.linspace(0, len(whole) - 1, min(args.windows, len(whole))).long()]
        told = measure(operator, model, chosen, limits)
        if not head:
            print(f"| text | {' | '.join(told)} |\n|{'---|' * (len(told) + 1)}")
            head = True
        print(f"| {name} | {' | '.join(told.values())} |", flush=True)


if __name__ == "__main__":
    main()
