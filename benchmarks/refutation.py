"""How many calls it takes to tell a program from a mutant of it, and how many mutants 1,000 calls miss.

Mutants of our own programs are compared with the program they were made from. The table says after how many
calls the differing ones are found. Those that 1,000 calls do not distinguish get further calls from other
seeds. What is found only then is the most that better chosen inputs (coverage guidance) could gain.

    python -m benchmarks.refutation [--mutants 300] [--further 10000] [--workers 2]
"""

from __future__ import annotations

import argparse
import statistics

from benchmarks.held_out import PARTS, tasks
from benchmarks.styles import STYLES

from skyt.contracts.contract import Contract, load_contracts
from skyt.repair.equivalence import compare, compare_many
from skyt.sandbox.pool import SandboxPool
from skyt.text.mutants import mutants
from skyt.text.normalise import normalise

INPUTS = 1000


def pairs(wanted: int) -> list[tuple[str, str, Contract]]:
    """(mutant, program, contract), one mutant per program in turn."""
    contracts = load_contracts()
    programs = [(normalise(text).text, contracts[c]) for c, texts in STYLES.items() for text in texts]
    programs += [(text, contract) for part in PARTS for contract, texts in tasks(part) for text in texts]
    found = dict[tuple[str, str], tuple[str, str, Contract]]()
    for seed in range(100):
        for text, contract in programs:
            for mutant in mutants(text, 1, seed):
                found.setdefault((contract.id, mutant), (mutant, text, contract))
            if len(found) >= wanted:
                return list(found.values())
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--further", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    chosen = pairs(options.mutants)
    with SandboxPool(workers=options.workers) as pool:
        results = compare_many(chosen, pool, INPUTS)
        inside = [r.inputs for r in results if r.counterexample and r.counterexample.domain == "inside"]
        print(f"{len(chosen)} mutants, {len(inside)} differ from their programs inside the domain")
        print(f"calls needed: median {statistics.median(inside):.0f}", end="")
        for limit in (10, 100, 320):
            print(f", within {limit}: {sum(n <= limit for n in inside) / len(inside):.3f}", end="")
        print(flush=True)
        late = 0
        left = [pair for pair, result in zip(chosen, results, strict=True) if result.equal]
        for mutant, program, contract in left:
            for seed in range(1, 1 + options.further // INPUTS):
                if not compare(mutant, program, contract, INPUTS, seed, pool).equal:
                    late += 1
                    print(f"only later, {contract.id}:\n{mutant}")
                    break
        print(
            f"{len(left)} without a difference on {INPUTS} calls; "
            f"{late} of these differ on {options.further} further calls"
        )


if __name__ == "__main__":
    main()
