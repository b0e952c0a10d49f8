"""Programs written against the rules: does each behave as its normal form does?

A file of programs has one JSON object per line: a title, the facts about the parameters of `f`
(`n: int >= 0 <= 9; s: str`) and the code. Both the program and its normal form run in the sandbox on the same
calls, in the same order, in one process each; a difference is another value, another type, another class of
exception, or another change to the arguments (also where the call raises).

    python -m benchmarks.red_team FILE [FILE ...] [--calls 80] [--show]
"""

from __future__ import annotations

import argparse
import ast
import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skyt.contracts.contract import EntryPoint
from skyt.contracts.domain import Call
from skyt.repair.rules import Facts, NormalForm, Parameter, normal_form
from skyt.repair.rules.analysis.types import Type, parse_type
from skyt.sandbox import CallResult, Job, Limits, SandboxPool, encode_calls

ENTRY = "observed_call"
PATIENT = Limits(call_seconds=3.0, cpu_seconds=15.0, wall_seconds=60.0)
OBSERVER = f"""
def {ENTRY}(*arguments):
    try:
        return 'returns', f(*arguments), arguments
    except Exception as error:
        return 'raises', type(error).__name__, arguments
"""
LETTERS = "abzAZ019 _-.,()[]{}\n\t'ßΣσςİ²½é"
WORDS = ("", "a", "abc", "aba", "Ab a", "12", "-3", "0", "()", "([{}])", "a1 b2", "  x ", "()(", "ß", "İ")
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 40, 100, -1, -2, -3, -7, -10, 2**31, -(2**63))
FLOATS = (0.0, -0.0, 0.5, 1.0, -1.5, 2.0, 3.0, 4.0, 1e300, float("nan"), float("inf"), float("-inf"))


@dataclass(frozen=True)
class Program:
    title: str
    facts: str
    code: str


@dataclass(frozen=True)
class Difference:
    program: Program
    form: NormalForm
    call: str
    before: str
    after: str


def read_programs(path: Path) -> list[Program]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    return [Program(row["title"], row["facts"], row["code"]) for row in rows]


def facts_of(text: str) -> Facts:
    """`n: int >= 0 <= 9; s: str` as facts about the function f."""
    parameters = []
    for part in filter(str.strip, text.split(";")):
        name, _, spec = (x.strip() for x in part.partition(":"))
        words = spec.split()
        bounds = dict(zip(words[1::2], map(int, words[2::2]), strict=True))
        parameters.append(Parameter(name, parse_type(words[0]), bounds.get(">="), bounds.get("<=")))
    return Facts(name="f", parameters=tuple(parameters), public=frozenset({"f"}), out_of_domain_free=True)


def constants(code: str) -> tuple[list[int], list[str]]:
    """Integers and texts that a program names, with their neighbours: where behaviour may change."""
    try:
        values = [n.value for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Constant)]
    except (SyntaxError, ValueError):
        return [], []
    numbers = [v + d for v in values if type(v) is int and abs(v) < 10**6 for d in (-1, 0, 1)]
    return numbers, [v for v in values if type(v) is str and len(v) < 20]


class Values:
    """Values of a type, from a seed: small ones, extreme ones, and those a program's constants suggest."""

    def __init__(self, code: str, seed: int) -> None:
        self.rng = random.Random(seed)
        numbers, self.texts = constants(code)
        self.numbers = [*numbers, *NUMBERS]

    def of(self, t: Type, low: int | None = None, high: int | None = None) -> Any:
        rng = self.rng
        if t == "int":
            value = rng.choice(self.numbers) if rng.random() < 0.6 else rng.randint(-30, 60)
            if (low is not None and value < low) or (high is not None and value > high):
                least = low if low is not None else (high or 0) - 60
                return rng.randint(least, high if high is not None else least + 60)
            return value
        if t == "bool":
            return rng.random() < 0.5
        if t == "float":
            return rng.choice(FLOATS) if rng.random() < 0.6 else rng.uniform(-9, 9)
        if t in ("str", "char"):
            if rng.random() < 0.5:
                return rng.choice([*WORDS, *self.texts])
            return "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 8)))
        if isinstance(t, tuple) and t[0] in ("list", "tuple", "set"):
            inner: Type = t[1]  # type: ignore[assignment]
            size = rng.choice((0, 1, 1, 2, 3, 3, 4, 6, 9))
            small = inner == "int" and rng.random() < 0.7
            items = [rng.randint(-3, 9) if small else self.of(inner) for _ in range(size)]
            return {"list": list, "tuple": tuple, "set": set}[str(t[0])](items)
        if isinstance(t, tuple) and t[0] == "dict":
            return {self.of(t[1]): self.of(t[2]) for _ in range(rng.randint(0, 4))}  # type: ignore[arg-type]
        kinds: list[Type] = ["int", "str", "bool", "float", ("list", "int")]
        return self.of(rng.choice(kinds))


def calls_of(program: Program, count: int, seed: int) -> list[Call]:
    values = Values(program.code, seed)
    parameters = facts_of(program.facts).parameters
    return [Call(tuple(values.of(p.type, p.min, p.max) for p in parameters)) for _ in range(count)]


def differences(
    programs: Iterable[Program],
    pool: SandboxPool,
    calls: int = 80,
    seed: int = 1,
    form_of: Callable[[Program], NormalForm] = lambda p: normal_form(p.code, facts_of(p.facts)),
) -> Iterator[tuple[Program, NormalForm, Difference | None]]:
    """Each program with its normal form and the first call that tells them apart."""
    entry = EntryPoint(kind="function", name=ENTRY)
    programs = list(programs)
    forms = [form_of(p) for p in programs]
    made = [calls_of(p, calls, seed) for p in programs]
    jobs = [
        Job(text + OBSERVER, entry, encode_calls(given))
        for program, form, given in zip(programs, forms, made, strict=True)
        for text in (program.code, form.text)
    ]
    results = pool.run_many(jobs)
    for i, program in enumerate(programs):
        both = slice(2 * i, 2 * i + 2)
        found = _first(program, forms[i], made[i], *results[both])
        if found is not None:  # on a busy machine a call may have been stopped too early
            found = _first(program, forms[i], made[i], *pool.run_many(jobs[both], PATIENT))
        yield program, forms[i], found


def _first(
    program: Program, form: NormalForm, calls: list[Call], before: list[CallResult], after: list[CallResult]
) -> Difference | None:
    for call, a, b in zip(calls, before, after, strict=True):
        if a != b and not (_without_end(a) and _without_end(b)):
            return Difference(program, form, call.show("f"), a.show(), b.show())
    return None


def _without_end(result: CallResult) -> bool:
    """Whether a call was stopped: by the clock or, as time and memory are not observed, by its memory."""
    return result.kind in ("timeout", "crash", "unrun") or "MemoryError" in result.text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--calls", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print every difference with both texts")
    options = parser.parse_args()
    for path in options.files:
        with SandboxPool(workers=2) as pool:
            found = list(differences(read_programs(path), pool, options.calls, options.seed))
        bad = [d for _, _, d in found if d is not None]
        alone = [p for p, form, _ in found if form.complete and not form.trace]
        refused = [p for p, form, _ in found if not form.complete]
        for d in bad:
            print(f"{d.program.title}: {d.call}: {d.before}, normal form {d.after}")
            if options.show:
                print(f"{d.program.code}\n--- {' '.join(d.form.rules)}\n{d.form.text}\n")
        print(
            f"{path.name}: {len(bad)} of {len(found)} programs differ from their normal form; "
            f"{len(refused)} are refused and {len(alone)} are left as they are"
        )


if __name__ == "__main__":
    main()
