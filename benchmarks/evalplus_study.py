"""The study of recorded generations on imported tasks: tables and the figure, from a run's records.

    homeostat code contracts import ../shared/data/evalplus/HumanEvalPlus.jsonl.gz --out contracts-he
    homeostat code replay ../shared/data/humaneval_generations/dev.jsonl.gz --contracts contracts-he \\
        --evidence equivalent --out runs/humaneval
    python -m benchmarks.evalplus_study runs/humaneval --contracts contracts-he --figure study.png

With `--contracts`, every sample that was replaced by its canon is run beside it on inputs that neither the
judging nor the comparison used: small changes to the task's own inputs that its preconditions allow. A call
on which the two differ is a false rescue.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from homeostat.core.figures import PALETTE, save, style
from skyt import records
from skyt.contracts.contract import Contract, EntryPoint, load_contract
from skyt.contracts.domain import Call
from skyt.metrics.summary import read_metrics
from skyt.sandbox import SandboxPool, same
from skyt.sandbox.job import Job, encode_calls

PATIENCE = 20.0  # seconds for a call that ran out of time
SLOW = 6  # such calls for each program; what follows them is not tried
LEVELS = ("identical", "rewritten", "equivalent", "none")
WORDS = {
    "identical": "the canon's text",
    "rewritten": "by rules",
    "equivalent": "by testing alone",
    "none": "stays as it is",
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--contracts", type=Path, help="the folder of imported contracts: check the rescues")
    parser.add_argument("--fresh", type=int, default=300, help="inputs for each rescue")
    parser.add_argument("--seed", type=int, default=2027)
    parser.add_argument("--figure", type=Path, help="draw the figure here")
    parser.add_argument("--by-task", action="store_true", help="print a row for every task")
    args = parser.parse_args()
    with records.RunStore.existing(args.run) as store:
        samples = [sample.record for sample in store.samples()]
    metrics = read_metrics(args.run)
    passing = [sample for sample in samples if sample["oracle_pre"]["compliant"]]
    _overall(samples, passing, metrics["skyt.overall"])
    if args.by_task:
        _by_task(samples, {row["prompt_id"]: row for row in metrics["skyt.prompts"]})
    if args.figure is not None:
        _draw(passing, args.figure)
    return _rescues(passing, args) if args.contracts is not None else 0


def _overall(samples: list[Any], passing: list[Any], overall: dict[str, Any]) -> None:
    found = Counter(sample["evidence"] for sample in passing)
    tasks, share = {sample["prompt_id"] for sample in passing}, len(passing) / len(samples)
    print(f"{len(samples)} outputs, {len(passing)} pass ({share:.1%}), of {len(tasks)} tasks")
    before, after = overall["R_anchor_pre_measured"], overall["R_anchor"]
    print(f"all outputs: R_raw {overall['R_raw']:.3f}, R_anchor before {before:.3f}, after {after:.3f}")
    for level in LEVELS:
        share = found[level] / max(len(passing), 1)
        print(f"  passing, {WORDS[level]:>20}: {found[level]:5} ({share:.1%})")
    canonical = len(passing) - found["none"]
    share = canonical / max(len(passing), 1)
    print(f"passing outputs that become canonical: {canonical} of {len(passing)} ({share:.2%})")
    reasons = Counter(_shortly(sample["reason"]) for sample in passing if sample["evidence"] == "none")
    for reason, count in reasons.most_common(12):
        print(f"    not canonical, {count}: {reason}")


def _shortly(reason: str) -> str:
    return reason if len(reason) < 160 else reason[:157] + "..."


def _by_task(samples: list[Any], metrics: dict[str, Any]) -> None:
    print("| task | pass | R_raw | before | identical | by rules | by testing | not canonical |")
    print("|---|---|---|---|---|---|---|---|")
    by_task = defaultdict(list)
    for sample in samples:
        by_task[sample["prompt_id"]].append(sample)
    for name, rows in by_task.items():
        good = [row for row in rows if row["oracle_pre"]["compliant"]]
        found = Counter(row["evidence"] for row in good)
        cells = [str(found[level]) for level in LEVELS]
        row = metrics[name]
        print(
            f"| {name} | {len(good)} | {row['R_raw']:.2f} | {row['R_anchor_pre_measured']:.2f} "
            f"| {' | '.join(cells)} |"
        )


def _draw(passing: list[Any], path: Path) -> None:
    import matplotlib.pyplot as plt

    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sample in passing:
        counts[sample["prompt_id"]][sample["evidence"]] += 1
    names = sorted(counts, key=lambda name: -sum(counts[name].values()))
    with style():
        figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
        bottom = [0] * len(names)
        for level, colour in zip(LEVELS, (PALETTE[0], PALETTE[2], PALETTE[1], "#bbbbbb"), strict=True):
            heights = [counts[name][level] for name in names]
            axes.bar(range(len(names)), heights, bottom=bottom, color=colour, label=WORDS[level], width=0.85)
            bottom = [a + b for a, b in zip(bottom, heights, strict=True)]
        axes.set_xticks(
            range(len(names)), [name.rpartition("_")[2] for name in names], fontsize=6, rotation=90
        )
        axes.set_xlabel("HumanEval task (those with a passing output)")
        axes.set_ylabel("passing outputs of 100")
        axes.set_xlim(-0.7, len(names) - 0.3)
        axes.legend(frameon=False)
        save(figure, path)


def _rescues(passing: list[Any], args: argparse.Namespace) -> int:
    """Run every rescued program beside its canon on fresh inputs; returns 1 if any differs."""
    pairs: dict[str, dict[tuple[str, str], int]] = defaultdict(Counter)
    for sample in passing:
        if sample["evidence"] in ("rewritten", "equivalent"):
            pairs[sample["prompt_id"]][sample["normalized_pre"], sample["normalized_post"]] += 1
    false, rows, tried = 0, 0, 0
    with SandboxPool(2) as pool:
        for name, found in pairs.items():
            contract = load_contract(name, args.contracts)
            calls = _fresh(contract, args.fresh, args.seed, pool)
            tried += len(calls)
            for (text, canon), count in found.items():
                rows += count
                if difference := _difference(text, canon, contract, calls, pool):
                    false += count
                    print(f"  false rescue, {count} rows of {name}: {difference}")
    print(f"{rows} rescues on {tried / max(len(pairs), 1):.0f} fresh inputs each: {false} false")
    return int(false > 0)


def _difference(text: str, canon: str, contract: Contract, calls: list[Call], pool: SandboxPool) -> str:
    """The first call on which the two differ. One that runs out of time is made again, alone, with twenty
    times as much: a program may be slower than its canon."""
    entry, equality = contract.entry_point, contract.equality
    limits, patient = pool.limits.lasting(contract.oracle.seconds), pool.limits.lasting(2 * PATIENCE)
    patient = replace(patient, call_seconds=PATIENCE)
    left = calls
    for _ in range(SLOW):
        encoded = encode_calls(left)
        one, other = pool.run_many([Job(code, entry, encoded, equality) for code in (text, canon)], limits)
        for at, (call, *both) in enumerate(zip(left, one, other, strict=True)):
            if any(result.kind in ("timeout", "unrun") for result in both):
                alone = [Job(code, entry, encode_calls([call]), equality) for code in (text, canon)]
                both = [results[0] for results in pool.run_many(alone, patient)]
                left = left[at + 1 :]
            got, wanted = both
            if not same(got, wanted, equality) and (got.comparable or wanted.comparable):
                shown = call.show(entry.name)[:200]
                return f"{shown} gives {got.show()[:80]}, of the canon {wanted.show()[:80]}"
            if len(left) < len(one):
                break
        else:
            return ""
    return ""


def _fresh(contract: Contract, count: int, seed: int, pool: SandboxPool) -> list[Call]:
    """Small changes to the contract's own inputs that are not among them and that the preconditions allow."""
    rng = random.Random(f"{contract.id}:{seed}")
    given = [arguments.args for arguments in contract.oracle.inputs]
    known = {repr(arguments) for arguments in given}
    made = []
    for _ in range(4 * count):
        arguments = list(rng.choice(given))
        at = rng.randrange(len(arguments)) if arguments else 0
        if arguments:
            arguments[at] = _changed(arguments[at], rng)
        if repr(tuple(arguments)) not in known:
            known.add(repr(tuple(arguments)))
            made.append(Call(tuple(arguments)))
    if contract.domain.where is not None:
        names = ", ".join(contract.domain.parameters)
        judge = f"{contract.domain.setup}\ndef judge({names}):\n    return bool({contract.domain.where})\n"
        answers = pool.run(judge, EntryPoint(kind="function", name="judge"), made)
        made = [call for call, answer in zip(made, answers, strict=True) if answer.text == "true"]
    return made[:count]


def _changed(value: Any, rng: random.Random) -> Any:
    """A value of the same type that is a little different."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice((-2, -1, 1, 2, 10, -value, value))
    if isinstance(value, float):
        return rng.choice((value + 1.0, value - 0.5, value * 1.5, -value, round(value)))
    if isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        letter = rng.choice(value) if value else "a"
        return rng.choice(
            (value[:at] + letter + value[at:], value[:at] + value[at + 1 :], value[::-1], value + value[:at])
        )
    if isinstance(value, list | tuple):
        items = list(value)
        at = rng.randrange(len(items) + 1)
        how = rng.randrange(4)
        if how == 0 and items:
            items.insert(at, rng.choice(items))
        elif how == 1 and items:
            del items[at % len(items)]
        elif how == 2 and items:
            items[at % len(items)] = _changed(items[at % len(items)], rng)
        else:
            rng.shuffle(items)
        return type(value)(items)
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        return {**value, key: _changed(value[key], rng)}
    return value


if __name__ == "__main__":
    sys.exit(main())
