"""Pairs of programs that differ on rare inputs alone: how many testing calls equivalent.

Into our own programs a branch is planted that gives a wrong result where a condition holds: a constant, what
an equation says of two numbers, a size, a sum, a particular text, a count. The table says for each kind how
many pairs are called equivalent, and how many of those with enough branches reached (the others are called
weak). Then programs that one contract accepts are compared with each other: what is told apart there is
another reading of the prompt, or a false refusal.

    python -m benchmarks.rare_differences [--inputs 1000] [--equal 40] [--show]
"""

from __future__ import annotations

import argparse
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.styles import STYLES

from skyt.contracts.contract import Contract, load_contracts
from skyt.contracts.kinds.containers import ListSpec
from skyt.contracts.kinds.numbers import IntSpec
from skyt.oracle.oracle import Oracle
from skyt.repair.equivalence import compare
from skyt.sandbox.pool import SandboxPool
from skyt.text.normalise import normalise

REFERENCES = Path(__file__).parents[1] / "tests" / "data" / "references"
CONTRACTS = (
    "gcd", "factorial", "is_prime", "fibonacci_basic", "merge_sort", "quick_sort", "binary_search",
    "is_palindrome", "slugify", "balanced_brackets",
)  # fmt: skip
WORDS = (
    "level",
    "noon",
    "()[]",
    "a-b",
    "Hello World",
    "x_y",
    "zz9",
    "([{}])",
    "abba",
    "Was it",
    "radar!",
    "12 21",
)


def planted(text: str, name: str, condition: str) -> str:
    """The program with another result where the condition holds."""
    head, _, rest = text.partition(f"def {name}(")
    signature, _, body = rest.partition("\n")
    indent = body[: len(body) - len(body.lstrip())]
    return f"{head}def {name}({signature}\n{indent}if {condition}:\n{indent}    return 'wrong'\n{body}"


def conditions(contract: Contract, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Kinds of conditions on the parameters of a contract, each with a condition."""
    specs = contract.domain.parameters
    names = list(specs)
    for name, spec in specs.items():
        if isinstance(spec, IntSpec):
            yield from _of_number(name, spec, rng)
        elif isinstance(spec, ListSpec):
            yield from _of_list(name, rng)
        else:
            yield from _of_text(name, rng)
    if names == ["a", "b"]:
        yield from _of_two_numbers(*names, rng)
    if names == ["items", "target"]:
        yield "relation", f"target == len(items) + {rng.randrange(9, 20)}"
        yield "relation", f"items[-1:] == [target + {rng.randrange(3, 9)}] and len(items) > 6"


def _of_number(name: str, spec: IntSpec, rng: random.Random) -> Iterator[tuple[str, str]]:
    low, high = spec.sample_range
    k = rng.randrange((low + high) // 2, high)
    yield "constant", f"{name} == {k}"
    yield "constant", f"{k} <= {name} < {k + 2}"
    yield "equation", f"{name} * 3 + 7 == {k * 3 + 7}"
    yield "equation", f"{name} * {name} - {name} == {k * k - k}"
    yield "equation", f"{name} // 7 == {k // 7}"
    yield "equation", f"({name} ^ {k // 3}) == {k ^ (k // 3)}"
    yield "text", f"str({name}) == '{k}'"
    yield "remainder", f"{name} > {k - 30} and {name} % 29 == {k % 29}"


def _of_two_numbers(a: str, b: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    x, y = rng.randrange(3000, 20000), rng.randrange(3000, 20000)
    yield "two numbers", f"{a} * 7 + {b} == {x * 7 + y}"
    yield "two numbers", f"{a} - {b} == {x - 2000}"
    yield "two numbers", f"{a} + {b} == {x + y}"
    yield "two numbers", f"{a} == {b} + {y}"
    yield "two numbers", f"{a} * {b} == {x * y}"
    yield "two numbers", f"{a} == {x} and {b} == {y}"
    yield "two numbers", f"{a} > 100 and {a} == {b} * {rng.randrange(20, 90)}"


def _of_list(name: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    k = rng.randrange(20, 55)
    yield "size", f"len({name}) == {rng.randrange(60, 300)}"
    yield "size", f"len({name}) > {rng.randrange(60, 90)}"
    yield "sum", f"sum({name}) == {rng.randrange(400, 900)}"
    yield "sum", f"max({name}, default=0) - min({name}, default=0) == {rng.randrange(88, 99)}"
    yield "element", f"{name}[:1] == [{k}] and len({name}) > 20"
    yield "element", f"{k} in {name} and {k + 1} in {name} and {k + 2} in {name}"
    yield "element", f"{name}.count({k}) == 4"
    yield "element", f"len({name}) > 3 and {name}[3] == {k}"
    yield "element", f"len({name}) > 8 and len(set({name})) == 2"
    yield "sum", f"sum(x * x for x in {name}) == {k * k + (k + 1) ** 2}"


def _of_text(name: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    word, other = rng.sample(WORDS, 2)
    yield "text", f"{name} == {word!r}"
    yield "text", f"{name}[::-1] == {other!r}"
    yield "text", f"{name}.upper() == {word.upper()!r}"
    yield "text", f"{word[:3]!r} in {name}"
    yield "text", f"{name}.startswith({other[:3]!r})"
    yield "text", f"{name}.count({word[0]!r}) == 7"
    yield "text", f"{name}[2:3] == {word[1]!r} and len({name}) == 11"
    yield "size", f"len({name}) == {rng.randrange(60, 200)}"
    yield "text", f"sum(map(ord, {name})) == {sum(map(ord, word))}"
    yield "text", f"sorted({name}) == {sorted(word)!r}"
    yield "text", f"{name} in {set(rng.sample(WORDS, 4))!r}"


def pairs(seed: int = 41) -> list[tuple[str, str, str, Contract]]:
    """(kind, sample, canon, contract); the same for the same seed."""
    rng, contracts = random.Random(seed), load_contracts()
    found = []
    for name in CONTRACTS:
        contract = contracts[name]
        canon = normalise((REFERENCES / f"{name}.py").read_text(encoding="utf-8")).text
        for _ in range(1 if name == "gcd" else 2):
            for kind, condition in conditions(contract, rng):
                text = normalise(planted(canon, contract.entry_point.name, condition)).text
                found.append((kind, text, canon, contract))
    return found


def equal_pairs(most: int, pool: SandboxPool) -> list[tuple[str, str, Contract]]:
    """Different programs that the oracle of one contract accepts."""
    oracle, contracts, found = Oracle(pool), load_contracts(), []
    for name, texts in STYLES.items():
        good = [normalise(t).text for t in texts if oracle.check(t, contracts[name]).compliant]
        found += [(text, good[0], contracts[name]) for text in good[1:]]
    return random.Random(0).sample(found, min(most, len(found)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--equal", type=int, default=40, help="pairs of equal programs")
    parser.add_argument("--show", action="store_true", help="print the pairs that are called equivalent")
    args = parser.parse_args()
    table: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    with SandboxPool(workers=1) as pool:
        begun = time.perf_counter()
        for kind, sample, canon, contract in pairs():
            found = compare(sample, canon, contract, args.inputs, 0, pool)
            row = table[kind]
            row[0] += 1
            row[1] += found.equal
            row[2] += found.equal and not found.weak
            if found.equal and args.show:
                planted_line = next(line for line in sample.splitlines() if line.lstrip().startswith("if "))
                print(f"{contract.id}: {planted_line.strip()}")
        spent = time.perf_counter() - begun
        print(f"{'kind':12} {'pairs':>6} {'equivalent':>11} {'not weak':>9}")
        for kind, row in [
            *sorted(table.items()),
            ("all", [sum(c) for c in zip(*table.values(), strict=True)]),
        ]:
            print(f"{kind:12} {row[0]:6} {row[1]:11} {row[2]:9}")
        print(f"{1000 * spent / sum(row[0] for row in table.values()):.0f} ms a pair")
        begun, told, weak = time.perf_counter(), 0, 0
        equal = equal_pairs(args.equal, pool)
        for sample, canon, contract in equal:
            found = compare(sample, canon, contract, args.inputs, 0, pool)
            told += not found.equal
            weak += found.weak
            if not found.equal and args.show:
                print(contract.id, found.counterexample and found.counterexample.shown)
        print(f"{len(equal)} pairs of equal programs: {told} told apart, {weak} weak")


if __name__ == "__main__":
    main()
