"""Wrong when written: the share of damaged blocks that operator G calls impossible, and its false alarms.

    homeostat cache calibrate smollm2-135m --text A.txt --out runs/G
    python -m benchmarks.engine_plausible --operator runs/G --choose B.txt --test C.txt [D.jsonl.gz …]

Blocks of 32 tokens are judged as the guard does when they are written. The limit comes from `--choose`: one
and a half times the loudest block there. False alarms are counted on `--test`, texts that neither
calibration nor the limit has seen (`.jsonl.gz`: generations, field `raw_output`). Then blocks are damaged, as
a fault during computation would, and judged again. Interrupted runs go on. No engine is needed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cachemedicpp.cache.state import KVState
from cachemedicpp.engines.blocks.plausible import KINDS, Plausibility
from cachemedicpp.engines.faults import Fault, damaged
from homeostat.core.models import load_model
from homeostat.core.progress import track
from homeostat.core.stats import wilson

BLOCK, WINDOW, TOGETHER = 32, 512, 8  # tokens of a block and of a text; texts that are computed together
FAULTS = {
    "nan": (1e-5, 1e-4),
    "bit": (1e-9, 1e-4, 1e-3, 1e-2),
    "stuck": (1e-4, 1e-3, 1e-2),
    "bitflipish_sparse": (1e-4, 1e-3, 1e-2),
    "gaussian": (0.04, 0.08, 0.16, 0.64),
    "quant_noise": (0.04, 0.16, 0.64),
    "orthogonal_rotation": (0.04, 0.16, 0.64),
    "dropout_zero": (0.02, 0.16, 0.64),
}
Blocks = tuple[Tensor, Tensor, list[int]]  # K, V [B, L, H, 32, d] and first positions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--operator", required=True)
    parser.add_argument("--choose", type=Path, required=True)
    parser.add_argument("--test", type=Path, nargs="+", required=True)
    parser.add_argument("--blocks", type=int, default=20_000, help="of each text, at most")
    parser.add_argument("--damaged", type=int, default=60, help="blocks for each fault; 0: none")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/engine_plausible"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    judge = Plausibility(asked.operator)
    model, tokenizer = load_model("smollm2-135m", dtype=asked.dtype)
    clean = {}
    for text in (asked.choose, *asked.test):
        ids = tokenizer("\n\n".join(texts(text)), add_special_tokens=False)["input_ids"]
        windows = torch.tensor(ids[: asked.blocks * BLOCK])
        windows = windows[: len(windows) // WINDOW * WINDOW].view(-1, WINDOW)
        ratios = judged(model, judge, windows, asked.out / f"{text.name}.npy", text.name)
        clean[text.name] = told(text.name, ratios, judge.limit)
        if text == asked.test[0]:
            kept = blocks(model, windows[:: max(1, len(windows) * 4 // max(asked.damaged, 1))])
    rows = faults(judge, kept, asked.damaged) if asked.damaged else []
    found = {"limit": judge.limit, "clean": clean, "ms_per_block": cost(judge, kept), "faults": rows}
    (asked.out / "result.json").write_text(json.dumps(found, indent=2))
    print("ms per block, alone and 16 at a time: {:.0f}, {:.1f}".format(*found["ms_per_block"]))


def texts(path: Path) -> list[str]:
    if path.suffix != ".gz":
        return [path.read_text(encoding="utf-8", errors="ignore")]
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["raw_output"] for line in list(lines)[::25]]


def blocks(model: Any, windows: Tensor) -> Blocks:
    """What the model stores for windows `[n, 512]` of tokens, in blocks."""
    with torch.no_grad():
        state = KVState(model(input_ids=windows, use_cache=True, logits_to_keep=1).past_key_values)
    K, V = (torch.stack([kv[i] for kv in state], 1) for i in (0, 1))  # [n, L, H, T, d]
    K, V = (x.unflatten(3, (-1, BLOCK)).permute(0, 3, 1, 2, 4, 5).flatten(0, 1) for x in (K, V))
    return K, V, [first for _ in windows for first in range(0, WINDOW, BLOCK)]


def judged(model: Any, judge: Plausibility, windows: Tensor, kept: Path, name: str) -> Any:
    """What the judge measures in every block, `[n, 4, L]`; goes on where it was interrupted."""
    parts = [np.load(kept)] if kept.exists() else []
    done = sum(len(part) for part in parts) * BLOCK // WINDOW
    for number in track(range(done, len(windows), TOGETHER), name):
        parts.append(judge.ratios(*blocks(model, windows[number : number + TOGETHER])).numpy())
        parts = [np.concatenate(parts)]
        np.save(kept.with_suffix(".new.npy"), parts[0])
        kept.with_suffix(".new.npy").replace(kept)  # whole or not at all
    return np.concatenate(parts)


def told(name: str, ratios: Any, limit: float) -> dict[str, Any]:
    """False alarms of a clean text, and its loudest blocks."""
    alarms = int((ratios > limit).any((1, 2)).sum())
    high = wilson(alarms, len(ratios)).high
    top = np.sort(ratios.max(2), 0)[-3:]
    print(f"{name}: {alarms} alarms in {len(ratios)} clean blocks of all layers (95 %: at most {high:.3%})")
    if len(ratios) >= 1000:
        share = beyond(ratios.max((1, 2)), limit)
        print(f"  beyond the limit, by a power law through the loudest 200: {share:.1e}")
    for kind, loudest in zip(KINDS, top.T.tolist(), strict=True):
        print(f"  {kind}: limit {limit}, loudest {', '.join(f'{score:.2f}' for score in loudest)}")
    return {"blocks": len(ratios), "alarms": alarms, "at_most": high, "loudest": top.tolist()}


def beyond(scores: Any, limit: float, used: int = 200) -> float:
    """The share of blocks beyond a limit that none reached, if the tail falls as a power (Hill)."""
    loudest = np.sort(scores)[::-1]
    start = loudest[used]
    return float(used / len(scores) * (limit / start) ** (-1 / np.log(loudest[:used] / start).mean()))


def faults(judge: Plausibility, kept: Blocks, count: int) -> list[dict[str, Any]]:
    """The share found of each kind and severity, in all layers and in one."""
    pick = torch.linspace(1, len(kept[2]) - 1, count).long()
    K, V, first = kept[0][pick], kept[1][pick], [kept[2][i] for i in pick.tolist()]
    cases = [(kind, e, where) for kind, es in FAULTS.items() for e in es for where in ("all", "one")]
    rows = []
    for kind, epsilon, where in track(cases, "faults"):
        fault, bad = Fault(kind, epsilon), (K.clone(), V.clone())
        for number in range(count):
            for layer in range(K.shape[1]) if where == "all" else [7 * number % K.shape[1]]:
                for x, name in zip(bad, "KV", strict=True):
                    x[number, layer] = damaged(fault, x[number, layer], str(number), layer, name)
        found = sum(
            score.impossible
            for i in range(0, count, 16)
            for score in judge.score(*(x[i : i + 16] for x in (*bad, first)))
        )
        share = wilson(found, count)
        print(f"{kind} {epsilon:g}, {where}: {found} of {count} found ({share.low:.2f} to {share.high:.2f})")
        rows.append({"kind": kind, "epsilon": epsilon, "layers": where, "found": found, "n": count})
    return rows


def cost(judge: Plausibility, kept: Blocks) -> list[float]:
    """Milliseconds for one block, judged alone and sixteen at a time."""
    spent = []
    for size in (1, 16):
        some = tuple(x[:size] for x in kept)
        judge.ratios(*some)
        before = time.perf_counter()
        for _ in range(5):
            judge.ratios(*some)
        spent.append(1e3 * (time.perf_counter() - before) / 5 / size)
    return spent


if __name__ == "__main__":
    main()
