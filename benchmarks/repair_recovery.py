"""How much of the lost log-likelihood operator G and the guard bring back, blind, for every kind of damage.

    python -m benchmarks.repair_recovery --operator OP [--scope all|heads] [--windows 60] [--out FILE]

Windows of Wikitext-2 test: a 192-token prefix is prefilled clean and damaged where it is stored (`old_only`),
64 tokens are scored. `all` damages every head of every layer, `heads` a quarter of the heads of the four
middle layers. The share recovered is `(L_damaged - L_repaired) / (L_damaged - L_clean)` of the mean negative
log-likelihood, with a 95 % bootstrap interval over windows; where the interval of the damage itself reaches
0 there is nothing to take a share of, and the row says so. Results grow by ten windows at a time in every
cell: a run that was stopped continues, if operator, model and text are those it began with.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cachemedicpp import CorruptionFamily, Guard, KVState, load_repair, sequence_keys
from cachemedicpp.cache.state import changed
from cachemedicpp.corruption.config import AxesConfig, CorruptionConfig, CorruptionParams
from homeostat.core import atomic
from homeostat.core.models import DEFAULT_MODEL, load_model
from homeostat.core.stats import bootstrap, paired_bootstrap

PREFIX, SCORED = 192, 64
NAMED = ("damaged", "hits", "sound", "false")
CELLS: dict[str, tuple[str, dict[str, Any]]] = {
    "clean": ("none", {}),
    "dropout 0.02": ("dropout_zero", {"dropout_p": 0.02}),
    "dropout 0.16": ("dropout_zero", {"dropout_p": 0.16}),
    "flips 0.0005": ("bitflipish_sparse", {"bitflip_p": 0.0005}),
    "flips 0.02": ("bitflipish_sparse", {"bitflip_p": 0.02}),
    "gaussian 0.64": ("gaussian", {"epsilon": 0.64}),
    "gaussian 0.16": ("gaussian", {"epsilon": 0.16}),
    "3-bit": ("quant_noise", {"quant_bits": 3}),
    "4-bit": ("quant_noise", {"quant_bits": 4}),
    "rotation": ("orthogonal_rotation", {}),
    "overwrite": ("contiguous_overwrite", {}),
}


def windows(tokenizer: Any, path: Path, count: int, period: int | None = None) -> torch.Tensor:
    """The first `count` of 60 (or `count`) windows spread over a text: `[count, PREFIX + SCORED + 1]`.

    Their order is spread too, so that a short run sees the whole text and a longer one continues it. With a
    `period` each window repeats a passage of that many tokens.
    """
    ids = tokenizer(path.read_text(encoding="utf-8"), return_tensors="pt").input_ids[0]
    full = PREFIX + SCORED + 1
    width = period or full
    whole = ids[: len(ids) // width * width].view(-1, width)
    chosen = whole[torch.linspace(0, len(whole) - 1, max(count, 60)).long()]
    spread = torch.cat([chosen[start::6] for start in range(6)])[:count]
    return spread if period is None else spread[:, torch.arange(full) % period]


@torch.no_grad()
def prefill(model: Any, ids: torch.Tensor) -> KVState:
    return KVState(model(input_ids=ids[:, :PREFIX], use_cache=True, logits_to_keep=1).past_key_values)


@torch.no_grad()
def loss(model: Any, cache: Any, ids: torch.Tensor) -> torch.Tensor:
    """Mean negative log-likelihood of each window's scored tokens, read over `cache`: `[B]`."""
    logits = model(input_ids=ids[:, PREFIX:-1], past_key_values=cache).logits.float()
    wanted = ids[:, PREFIX + 1 :]
    nll = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
    return nll.view(wanted.shape).mean(1).double()


def family(model: Any, tokenizer: Any, params: dict[str, Any], scope: str) -> CorruptionFamily:
    layers = int(model.config.num_hidden_layers)
    middle = range((layers - 4) // 2, (layers - 4) // 2 + 4)
    axes = AxesConfig(head_mode="all") if scope == "all" else AxesConfig(head_mode="bernoulli", p_head=0.25)
    config = CorruptionConfig(axes=axes, params=CorruptionParams(**params))
    return CorruptionFamily.build(
        config, model, tokenizer, range(layers) if scope == "all" else middle, seed=0
    )


def named(report: dict[str, Any], clean: KVState, damaged: KVState) -> dict[str, int]:
    """How many damaged head tensors the report names, and how many sound ones it names in error."""
    layers = zip(clean, damaged, strict=True)
    truth = np.stack([changed(*both, clean.length).any(-1).numpy() for both in layers], axis=1)
    told = {(m["row"], m["layer"], m["tensor"], m["head"]) for m in report["misfits"]}
    hits = sum(bool(truth[row, layer, head]) for row, layer, _, head in told)
    return {
        "damaged": 2 * int(truth.sum()),
        "hits": hits,
        "sound": 2 * int((~truth).sum()),
        "false": len(told) - hits,
    }


@dataclass(frozen=True)
class Chunk:
    """Windows that run as one batch: their tokens, their clean prefix and their clean losses."""

    ids: torch.Tensor
    clean: KVState
    losses: list[float]


def prepare(model: Any, ids: torch.Tensor) -> Chunk:
    """Windows prefilled and scored clean, once for all cells."""
    clean = prefill(model, ids)
    return Chunk(ids, clean, loss(model, clean.cache(), ids).tolist())


def origin(args: argparse.Namespace) -> dict[str, Any]:
    """What was measured: windows measured with something else are not added to the results."""

    def digest(path: Path) -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]

    operator = digest(args.operator / "operator.safetensors")
    of = {"model": args.model, "operator": operator, "text": digest(args.text), "period": args.period}
    return of | ({"tokens": True} if args.tokens else {})


def empty(cell: str, scope: str, of: dict[str, Any]) -> dict[str, Any]:
    losses: dict[str, list[float]] = {"clean": [], "none": [], "G": [], "guard": []}
    return {"cell": cell, "scope": scope, "of": of, "losses": losses, "named": dict.fromkeys(NAMED, 0)}


def add(
    result: dict[str, Any], model: Any, tokenizer: Any, repair: Any, chunk: Chunk, todo: set[str]
) -> None:
    """Add a chunk's losses to a cell, for the defences to do: without damage, damaged, and repaired."""
    kind, params = CELLS[result["cell"]]
    out, cache, prefix = result["losses"], chunk.clean.cache(), chunk.ids[:, :PREFIX]
    plan = None
    if kind != "none":
        injection = family(model, tokenizer, params, result["scope"]).at(kind)
        plan = injection.corrupt_cache(cache, sequence_keys(prefix))
    damaged = KVState(cache)
    if "G" in todo:
        out["clean"] += chunk.losses
        out["none"] += chunk.losses if plan is None else loss(model, damaged.cache(), chunk.ids).tolist()
        mended = damaged.cache()
        told = {"input_ids": prefix} if result["of"].get("tokens") else {}
        report = repair.repair_cache(mended, **told)
        for name, n in named(report, chunk.clean, damaged).items():
            result["named"][name] += n
        out["G"] += loss(model, mended, chunk.ids).tolist()
    if "guard" in todo:
        guard = Guard(model)
        guard.watch(chunk.clean.cache(), prefix)
        mended = damaged.cache()
        guard.heal(mended)
        out["guard"] += loss(model, mended, chunk.ids).tolist()


def summary(result: dict[str, Any], defence: str) -> dict[str, float]:
    losses = {name: np.array(values) for name, values in result["losses"].items()}
    n = len(losses[defence])
    clean, none, mended = losses["clean"][:n], losses["none"][:n], losses[defence]
    ppl = {
        name: float(np.exp(x.mean())) for name, x in (("clean", clean), ("none", none), ("repaired", mended))
    }
    if result["cell"] == "clean":
        return ppl | {"windows": n, "regression": ppl["repaired"] / ppl["clean"] - 1}
    if bootstrap(none - clean).low <= 0:
        return ppl | {"windows": n, "damage": bootstrap(none - clean).estimate}
    share = paired_bootstrap(none - mended, none - clean, lambda a, b, axis: a.mean(axis) / b.mean(axis))
    return ppl | {"windows": n, "share": share.estimate, "low": share.low, "high": share.high}


def row(result: dict[str, Any]) -> str:
    cells = [result["cell"]]
    for defence in ("G", "guard"):
        if not result["losses"][defence]:
            cells.append("—")
            continue
        s = summary(result, defence)
        if "regression" in s:
            cells.append(f"{100 * s['regression']:+.3f} % ppl ({s['clean']:.2f})")
        elif "damage" in s:
            cells.append(
                f"damage too small to measure (ppl {s['clean']:.2f}, {s['none']:.2f} → {s['repaired']:.2f})"
            )
        else:
            share = f"{s['share']:.3f} [{s['low']:.3f}, {s['high']:.3f}]"
            cells.append(f"{share} (ppl {s['none']:.2f} → {s['repaired']:.2f})")
    n = result["named"]
    rate = f"{n['hits']}/{n['damaged']} named, " if n["damaged"] else ""
    return f"| {' | '.join(cells)} | {rate}{n['false']}/{n['sound']} false |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--operator", type=Path, required=True, help="made by `homeostat cache calibrate`")
    parser.add_argument("--text", type=Path, default=Path("../shared/data/wikitext2/test.txt"))
    parser.add_argument("--scope", choices=("all", "heads"), default="all")
    parser.add_argument("--windows", type=int, default=60)
    parser.add_argument("--guard-windows", type=int, default=60)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument(
        "--period", type=int, help="windows of short passages over and over: benchmarks.tiny_gpt2"
    )
    parser.add_argument("--tokens", action="store_true", help="tell G the tokens of the prefix")
    parser.add_argument("--cells", nargs="*", default=list(CELLS))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/repair_recovery.json"))
    parser.add_argument("--docs", type=Path, help="a page to put the table into")
    args = parser.parse_args()
    done: dict[str, Any] = json.loads(args.out.read_text()) if args.out.is_file() else {}
    of = origin(args)
    for cell in args.cells:
        done.setdefault(f"{args.scope}: {cell}", empty(cell, args.scope, of))
    wanted = [done[f"{args.scope}: {cell}"] for cell in args.cells]
    if any(result.get("of") != of for result in wanted):
        raise SystemExit(f"{args.out} holds results of another operator, model or text: give another --out")
    wished = {"G": args.windows, "guard": min(args.windows, args.guard_windows)}
    if any(len(result["losses"][name]) < count for result in wanted for name, count in wished.items()):
        model, tokenizer = load_model(args.model)
        repair = load_repair(args.operator, model)
        ids = windows(tokenizer, args.text, args.windows, args.period)
        for first in range(0, args.windows, args.batch):
            chunk: Chunk | None = None
            for result in wanted:
                todo = {n for n, count in wished.items() if len(result["losses"][n]) <= first < count}
                if todo:
                    chunk = chunk or prepare(model, ids[first : first + args.batch])
                    add(result, model, tokenizer, repair, chunk, todo)
                    atomic.write_json(args.out, done)
                    print(first + args.batch, row(result), flush=True)
    lines = ["| damage | recovered by G | recovered by guard | heads named as misfits |", "|---|---|---|---|"]
    results = [done.get(f"{args.scope}: {cell}") for cell in CELLS]
    lines += [row(result) for result in results if result is not None and result["losses"]["G"]]
    print("\n" + "\n".join(lines))
    if args.docs is not None:
        insert(args.docs, args.scope, lines)


def insert(page: Path, scope: str, lines: list[str]) -> None:
    """Put the table between the page's `<!-- scope -->` marks."""
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {scope} -->\n", f"\n<!-- /{scope} -->"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{page} has no {begin.strip()} … {end.strip()} marks")
    atomic.write_text(page, before + begin + "\n".join(lines) + end + after)


if __name__ == "__main__":
    main()
