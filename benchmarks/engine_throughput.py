"""What the guard costs in vLLM: speed with it over without, batch 1 and 8, prefix hits of 0 % and 90 %.

Needs the engine's environment (`make setup-engines`), and a machine that does nothing else.

    python -m benchmarks.engine_throughput [--seconds 180] [--batch 1 8] [--every 16] [--dtype float32]
    python -m benchmarks.engine_throughput --plausible runs/G --plausible-every 16 --batch 8

One engine answers every set of prompts three times, in changing order: without any connector, with the guard
(mode paged) as a connector that does nothing, and with the guard at work. Two engines would not do: on a
shared machine one process can be several per cent slower than its twin for as long as it lives
(`--pairs 2` starts two engines without and two with the guard and shows it). The ratio is the mean over
rounds, with its 95 % interval (Student's t on logarithms). Rounds are kept in the result file: another call
goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.engine_worker import Worker
from scipy import stats

STATES = ("none", "off", "on")
PROMPT, TOKENS = 320, 24  # ten blocks, of which nine are hit at 90 %


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=180, help="of measuring, without the engines' start")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--every", type=int, default=16)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--plausible", default="", help="a folder with an operator G: judge blocks as well")
    parser.add_argument("--plausible-every", type=int, default=16)
    parser.add_argument(
        "--pairs", type=int, default=0, help="engines without and with the guard, side by side"
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/engine_throughput.json"))
    asked = parser.parse_args()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    cells: dict[str, list[Any]] = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    guard: dict[str, Any] = {"every": asked.every}
    if asked.plausible:
        guard |= {"plausible": asked.plausible, "plausible_every": asked.plausible_every}
    if asked.pairs:
        side_by_side(asked, guard)
        return
    engine = Worker(guard, asked.dtype)
    what = asked.dtype + (f", plausible 1 in {asked.plausible_every}" if asked.plausible else "")
    plan = [(batch, hits) for batch in asked.batch for hits in (0.0, 0.9)]
    draw = random.Random(sum(map(len, cells.values())))
    for batch, hits in plan:
        one_round(engine, draw, batch, hits, 0)  # warms up
    start, number = time.monotonic(), 0
    while time.monotonic() - start < asked.seconds:
        for batch, hits in plan:
            made = one_round(engine, draw, batch, hits, number)
            cells.setdefault(f"{what}, batch {batch}, hits {hits:.0%}", []).append(made)
            asked.out.write_text(json.dumps(cells))
        number += 1
    engine.close()
    for name, rounds in cells.items():
        for what, over in (("guard over none", "on"), ("connector that does nothing over none", "off")):
            wall, cpu = (ratio([r["none"][c] / r[over][c] for r in rounds]) for c in ("wall", "cpu"))
            print(f"{name}: {what}: {wall} by the clock, {cpu} by CPU time, {len(rounds)} rounds")
        share = statistics.median(r["spent"] / r["on"]["wall"] for r in rounds)
        block = statistics.median(1e3 * r["spent"] / max(r["blocks"], 1) for r in rounds)
        print(f"  the guard itself {share:.2%}, {block:.2f} ms per block fingerprinted or verified")


def side_by_side(asked: argparse.Namespace, guard: dict[str, Any]) -> None:
    """How much engines differ from each other, and how much of that is the guard."""
    names = [name for i in range(asked.pairs) for name in (f"bare {i}", f"guarded {i}")]
    with ThreadPoolExecutor(2) as pool:
        engines = dict(
            zip(
                names,
                pool.map(lambda n: Worker(guard if n.startswith("guarded") else None, asked.dtype), names),
                strict=True,
            )
        )
    draw, rounds = random.Random(0), []
    start = time.monotonic()
    while time.monotonic() - start < asked.seconds:
        prompts = [[draw.randrange(10, 40_000) for _ in range(PROMPT)] for _ in range(asked.batch[0])]
        turn = len(rounds) % len(names)
        rounds.append(
            {
                name: engines[name].ask("generate", prompts=prompts, tokens=TOKENS, fresh=True)
                for name in names[turn:] + names[:turn]
            }
        )
    for engine in engines.values():
        engine.close()
    rounds = rounds[1:]  # the first warms up
    for clock in ("wall", "cpu"):
        print(f"seconds over those of bare 0, by {clock}, batch {asked.batch[0]}, {len(rounds)} rounds:")
        for name in names[1:]:
            print(f"  {name}: {ratio([r[name][clock] / r[names[0]][clock] for r in rounds])}")


def ratio(found: list[float]) -> str:
    """The geometric mean with its 95 % interval."""
    logs = [math.log(x) for x in found]
    mean = statistics.fmean(logs)
    wide = 0.0
    if len(logs) > 1:
        wide = float(stats.t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.3f} ({math.exp(mean - wide):.3f} to {math.exp(mean + wide):.3f})"


def one_round(engine: Worker, draw: random.Random, batch: int, hits: float, number: int) -> dict[str, Any]:
    """The same prompts without a connector, with one that does nothing, and with the guard."""
    shared = round(PROMPT * hits)
    prefix = [draw.randrange(10, 40_000) for _ in range(shared)]
    prompts = [prefix + [draw.randrange(10, 40_000) for _ in range(PROMPT - shared)] for _ in range(batch)]
    found: dict[str, Any] = {}
    answers = []
    for turn in range(3):
        name = STATES[(turn + number) % 3]
        engine.ask("switch", to=name)
        engine.ask("generate", prompts=[[*prefix, 5]], tokens=1, fresh=True)
        before = engine.ask("rpc", name="fault_counts", given=[])
        made = engine.ask("generate", prompts=prompts, tokens=TOKENS, fresh=False)
        after = engine.ask("rpc", name="fault_counts", given=[])
        assert min(made["cached"]) == shared // 32 * 32, "the prefix was not hit"
        assert bool(after) == (name != "none"), "the connector was not what it should have been"
        found[name] = {clock: made[clock] for clock in ("wall", "cpu")}
        answers.append(made["tokens"])
        blocks = sum(after[k] - before[k] for k in ("verified", "fingerprinted")) if after else 0
        assert bool(blocks) == (name == "on"), "the guard was not what it should have been"
        if name == "on":
            assert after["bad"] == after["implausible"] == 0, "a false alarm"
            found |= {"spent": after["seconds"] - before["seconds"], "blocks": blocks}
    assert answers[0] == answers[1] == answers[2], "the guard changed an answer"
    return found


if __name__ == "__main__":
    main()
