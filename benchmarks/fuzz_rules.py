"""Programs made up and changed at random, each compared with its normal form: value and type, class of
exception, changes to arguments. Every difference is shrunk to a few lines and printed.

A third of the programs come from a grammar, the others are real ones after one to four random changes
(contracts' references, other styles, held-out tasks, the rules' own examples, programs that differed once,
and, where the data are present, recorded generations). The same seed and number give the same programs.

    python -m benchmarks.fuzz_rules [--minutes 10 | --programs 2000] [--seed 0] [--workers 1]
                                    [--findings FILE.jsonl]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty
from typing import Any

from benchmarks.fuzzing.grammar import program
from benchmarks.fuzzing.judge import Difference, Judged, compared, judge
from benchmarks.fuzzing.mutation import mutate
from benchmarks.fuzzing.shrink import shrink
from benchmarks.fuzzing.subjects import Subject, seeds

from skyt.repair.rules import RULES, normal_form
from skyt.sandbox.pool import SandboxPool

BATCH = 40
OFTEN = 50  # a rule that fired this often has been tested


@dataclass(frozen=True)
class Finding:
    """A shrunken program that differs from its normal form, and the rules that do it alone."""

    subject: Subject
    difference: Difference
    rules: tuple[str, ...]
    number: int

    def record(self) -> dict[str, Any]:
        found = {"rules": list(self.rules), "difference": str(self.difference)}
        return self.subject.record() | found


@dataclass
class Tally:
    """What a run has seen."""

    programs: int = 0
    ran: int = 0
    changed: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, judged: Judged) -> None:
        self.programs += 1
        self.ran += judged.ran
        self.changed += bool(judged.form.trace)
        self.rules.update(applied.rule for applied in judged.form.trace)
        if re.match(r"\w+(Error|Exception)\b", judged.form.failure):
            self.failures[judged.form.failure[:100]] += 1

    def merge(self, other: Tally) -> None:
        self.programs += other.programs
        self.ran += other.ran
        self.changed += other.changed
        self.failures += other.failures
        self.rules += other.rules
        self.findings += other.findings

    def report(self, seconds: float) -> str:
        often = sum(count >= OFTEN for count in self.rules.values())
        never = [rule.name for rule in RULES if rule.name not in self.rules]
        lines = [
            f"{self.programs} programs, {self.ran} of them with results, {self.changed} rewritten, "
            f"{sum(self.rules.values())} applications of rules, in {seconds:.0f} s",
            f"{often} of {len(RULES)} rules fired at least {OFTEN} times, {len(never)} never",
            f"{len(self.findings)} differences",
        ]
        lines += [f"rules that failed: {count} × {what}" for what, count in self.failures.most_common()]
        return "\n".join(lines)


def make(number: int, seed: int, given: Sequence[Subject]) -> Subject:
    """The program of this number."""
    rng = random.Random(f"fuzz:{seed}:{number}")
    if rng.random() < 0.35:
        made = program(rng)
        return made if rng.random() < 0.7 else mutate(made, given, rng) or made
    start = rng.choice(given)
    return mutate(start, given, rng) or start


def fuzz(
    numbers: Iterator[int], seed: int, given: Sequence[Subject], pool: SandboxPool, until: float
) -> Iterator[Tally]:
    """Batches of programs, judged; differences shrunk. Ends with the numbers or at the time."""
    while time.monotonic() < until:
        batch = [n for n, _ in zip(numbers, range(BATCH), strict=False)]
        if not batch:
            return
        tally = Tally()
        for number, judged in zip(batch, judge([make(n, seed, given) for n in batch], pool), strict=True):
            tally.add(judged)
            if judged.difference is not None:
                tally.findings.append(shrunk(judged, number, pool))
        yield tally


def shrunk(judged: Judged, number: int, pool: SandboxPool) -> Finding:
    subject, difference = judged.subject, judged.difference
    extra = [difference.call] if difference else []

    def keeps(code: str) -> bool:
        return judge([replace(subject, code=code)], pool, extra)[0].difference is not None

    small = replace(subject, code=shrink(subject.code, keeps))
    again = judge([small], pool, extra)[0]
    if again.difference is None:
        small, again = subject, judged
    if again.difference is None:
        raise AssertionError("a difference that was there is gone")
    return Finding(small, again.difference, culprits(small, again, pool), number)


def culprits(subject: Subject, judged: Judged, pool: SandboxPool) -> tuple[str, ...]:
    """The rules that alone change what the program does; all that fired where none does so alone."""
    fired = judged.form.rules
    alone = []
    for name in fired:
        form = normal_form(subject.code, subject.known, [rule for rule in RULES if rule.name == name])
        call = [judged.difference.call] if judged.difference else []
        if form.trace and compared(subject, form, pool, call) is not None:
            alone.append(name)
    return tuple(alone) or fired


def _work(worker: int, options: argparse.Namespace, until: float, out: multiprocessing.Queue[Any]) -> None:
    given = seeds()
    last = options.programs or 10**12
    parent = multiprocessing.parent_process()
    with SandboxPool(workers=1) as pool:
        for tally in fuzz(iter(range(worker, last, options.workers)), options.seed, given, pool, until):
            if parent is None or not parent.is_alive():  # whoever was to read this is gone
                return
            out.put(tally)
    out.put(None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--programs", type=int, default=0, help="stop after so many programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--findings", type=Path, help="append differences to this file as they are found")
    options = parser.parse_args()
    start = time.monotonic()
    until = start + 60 * options.minutes
    results: multiprocessing.Queue[Any] = multiprocessing.get_context("spawn").Queue()
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_work, args=(i, options, until, results)) for i in range(options.workers)
    ]
    for worker in workers:
        worker.start()
    total, running = Tally(), len(workers)
    while running:
        try:
            tally = results.get(timeout=5)
        except Empty:
            if not any(worker.is_alive() for worker in workers):
                break
            continue
        if tally is None:
            running -= 1
            continue
        total.merge(tally)
        for finding in tally.findings:
            _show(finding)
            if options.findings:
                with options.findings.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(finding.record(), ensure_ascii=False) + "\n")
    for worker in workers:
        worker.join()
    print(total.report(time.monotonic() - start))
    if any(worker.exitcode for worker in workers):
        raise SystemExit("a worker ended before its time")


def _show(finding: Finding) -> None:
    print(f"program {finding.number}: {finding.difference}  [{', '.join(finding.rules)}]")
    print(f"# {finding.subject.facts or finding.subject.contract.id}\n{finding.subject.code}\n", flush=True)


if __name__ == "__main__":
    main()
