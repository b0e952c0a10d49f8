"""What results that attack their reader cost the trusted side, and what run-time rules change.

First, every program of `tests/support/hostile_results.py` is judged with the default limits, one after the
other; printed are the CPU time and memory of this process and the seconds until the verdict. Then, with the
development data (`../shared/data`), strangers' programs run without rules and with rules that allow every
module of the sandbox; what differs is printed.

    python -m benchmarks.hostile_results [--programs 1500]
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.hostile_results import PROGRAMS

from skyt.contracts.contract import Contract, EntryPoint, load_contract
from skyt.contracts.domain import Call
from skyt.oracle.oracle import Oracle
from skyt.sandbox import Job, Limits, Rules, SandboxPool, encode_calls

DATA = Path(__file__).parents[2] / "shared" / "data"
GOOD = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=1500, help="recorded generations to run with rules")
    arguments = parser.parse_args()
    _attacks()
    if DATA.is_dir():
        _rules(arguments.programs)
    else:
        print(f"no strangers' programs: {DATA} is absent")


def _attacks() -> None:
    contract = _contract()
    rows = []
    with SandboxPool(workers=1) as pool:
        oracle = Oracle(pool)
        assert oracle.check(GOOD, contract).compliant
        for name, code in PROGRAMS.items():
            before, cpu, clock = _reset_peak(), time.process_time(), time.monotonic()
            verdict = oracle.check(code, contract)
            assert not verdict.compliant, name
            rows.append((time.process_time() - cpu, _peak() - before, time.monotonic() - clock, name))
    print(f"{len(rows)} hostile programs, none compliant; of this process:")
    print(f"{'program':<40} {'CPU s':>7} {'memory MB':>10} {'seconds until the verdict':>26}")
    for cpu, memory, seconds, name in sorted(rows, reverse=True):
        print(f"{name:<40} {cpu:7.2f} {memory:10.1f} {seconds:26.1f}")
    for label, column in (("CPU s", 0), ("memory MB", 1), ("seconds", 2)):
        print(f"most {label}: {max(row[column] for row in rows):.2f}")


def _contract() -> Contract:
    """gcd, with properties that look at results and the modules that the attacks use."""
    data = load_contract("gcd").model_dump(mode="json")
    data["constraints"]["imports"] = ["os", "time"]
    data["oracle"]["properties"] = [
        {"name": "divides", "holds": "a % result == 0 and b % result == 0"},
        {"name": "symmetric", "then": "(b, a)", "holds": "again == result"},
    ]
    return Contract.model_validate(data)


def _rules(count: int) -> None:
    limits = Limits(call_seconds=0.5, cpu_seconds=1.5, wall_seconds=6)
    changed: Counter[str] = Counter()
    with SandboxPool(workers=2, limits=limits) as pool:
        rules = Rules(imports=pool.modules)
        pairs = [
            (Job(code, entry, calls), Job(code, entry, calls, rules=rules))
            for code, entry, calls in _programs(count)
        ]
        free = pool.run_many([job for job, _ in pairs])
        ruled = pool.run_many([job for _, job in pairs])
    for without, with_rules in zip(free, ruled, strict=True):
        if without != with_rules:
            found = next(r for r, other in zip(with_rules, without, strict=True) if r != other)
            changed[f"{found.kind}: {found.show()}"] += 1
    print(
        f"{len(pairs)} strangers' programs with rules that allow every module: {sum(changed.values())} differ"
    )
    for what, times in changed.most_common():
        print(f"  {times} × {what}")


def _programs(count: int) -> Iterator[tuple[str, EntryPoint, Any]]:
    tasks = {}
    for name in ("HumanEvalPlus", "MbppPlus"):
        for task in _lines(DATA / "evalplus" / f"{name}.jsonl.gz"):
            tasks[task["task_id"].replace("/", "_")] = task
    chosen = [
        (name, (task["prompt"] if name.startswith("Human") else "") + task["canonical_solution"])
        for name, task in tasks.items()
    ]
    generations = list(_lines(DATA / "humaneval_generations" / "dev.jsonl.gz"))
    chosen += [(row["contract_id"], row["raw_output"]) for row in random.Random(0).sample(generations, count)]
    for name, code in chosen:
        task = tasks[name]
        calls = encode_calls([Call(tuple(args)) for args in task["base_input"][:6]])
        yield code, EntryPoint(kind="function", name=task["entry_point"]), calls


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines)


def _reset_peak() -> float:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _peak()


def _peak() -> float:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return float(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
