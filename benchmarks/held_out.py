"""How far the rules reach on tasks they were not made for.

Tasks beside the twelve contracts, each in several styles as language models write them, all written before
any rule was tried on them; those of the `blind` parts by writers who had not seen the rules. Gaps seen in the
`open` part were used to generalise rules; the `opened` parts were sealed at first and then used in the same
way; the `sealed` parts are only counted. Over all pairs of programs of one task: the share with the same
text, with the same normal form, and (with `--equivalent`) without a difference in differential testing. The
last column therefore says how much of what is equivalent the rules reach.

    python -m benchmarks.held_out [--equivalent] [--inputs 1000]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import yaml

from homeostat.core.config import parse_config
from homeostat.core.stats import wilson
from skyt.contracts.contract import Contract
from skyt.oracle.oracle import Oracle
from skyt.repair.equivalence import compare_many
from skyt.repair.rules import Facts, normal_form
from skyt.sandbox.pool import SandboxPool
from skyt.text.normalise import normalise

FOLDER = Path(__file__).parent / "held_out"
PARTS = ("open", "opened", "sealed", "blind_opened", "blind_sealed")
Pair = tuple[str, str]
Same = Callable[[str, str], bool]


def tasks(part: str) -> list[tuple[Contract, list[str]]]:
    """The contracts of one part with their programs, normalised."""
    found = []
    for path in sorted((FOLDER / part).glob("*.yaml")):
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        contract = parse_config(Contract, data["contract"], source=str(path))
        found.append((contract, [normalise(code).text for code in data["programs"]]))
    return found


def counts(contract: Contract, programs: list[str], tested: dict[Pair, bool] | None) -> list[int]:
    """Pairs: all, with the same text, with the same normal form, equivalent."""
    form = {p: normal_form(p, Facts.from_contract(contract)).text for p in programs}
    pairs = list(combinations(programs, 2))
    tests: list[Same] = [lambda a, b: True, lambda a, b: a == b, lambda a, b: form[a] == form[b]]
    if tested is not None:
        tests.append(lambda a, b: form[a] == form[b] or tested[a, b])
    return [sum(test(a, b) for a, b in pairs) for test in tests]


def differential(contract: Contract, programs: list[str], pool: SandboxPool, inputs: int) -> dict[Pair, bool]:
    """By pair, whether both satisfy the oracle and no call tells them apart."""
    good = Oracle(pool).check_many([(p, contract) for p in programs])
    rejected = {p: v.failures for p, v in zip(programs, good, strict=True) if not v.compliant}
    for program, why in rejected.items():
        print(f"{contract.id}: rejected by the oracle: {why}\n{program}")
    pairs = list(combinations(programs, 2))
    results = compare_many([(a, b, contract) for a, b in pairs], pool, inputs)
    return {(a, b): r.equal and not {a, b} & set(rejected) for (a, b), r in zip(pairs, results, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--equivalent", action="store_true")
    parser.add_argument("--inputs", type=int, default=1000)
    options = parser.parse_args()
    alone: list[str] = []
    for part in PARTS:
        print(f"{part:18} programs  forms  pairs  same text  same form" + "  equivalent" * options.equivalent)
        total = [0, 0, 0, 0]
        for contract, programs in tasks(part):
            tested = None
            if options.equivalent:
                with SandboxPool(workers=1) as pool:
                    tested = differential(contract, programs, pool, options.inputs)
            found = counts(contract, programs, tested)
            forms = [normal_form(p, Facts.from_contract(contract)) for p in programs]
            alone += [f"{contract.id}: {form.failure}" for form in forms if not form.complete]
            print(
                f"{contract.id:18} {len(programs):8} {len({form.text for form in forms}):6}"
                + "".join(f"{n:{w}}" for n, w in zip(found, (7, 11, 11, 12), strict=False))
            )
            total = [a + b for a, b in zip(total, [*found, 0][:4], strict=True)]
        share = wilson(total[2], total[0])
        print(f"{'all':34}{total[0]:7}{total[1]:11}{total[2]:11}" + f"{total[3]:12}" * options.equivalent)
        print(
            f"same normal form: {share.estimate:.3f} [{share.low:.3f}–{share.high:.3f}] of all pairs", end=""
        )
        print(f", {total[2] / total[3]:.3f} of the equivalent ones\n" if total[3] else "\n")
    print(f"programs that the rules leave alone: {len(alone)}", *alone, sep="\n  ")


if __name__ == "__main__":
    main()
