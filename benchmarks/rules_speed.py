"""How long a normal form takes, beside another build of the project, in one run.

Both builds bring the same programs (a JSON list of [contract as JSON, text]) to their normal forms, in turns,
in processes of their own; printed are the medians of CPU time per program and their ratio.

    python -m benchmarks.rules_speed --beside PATH/TO/OTHER/src [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.rescue_table import DATA, read_rows

CHILD = """
import json, sys, time
try:
    from skyt.repair.rules import Facts, normal_form
    from skyt.contracts.contract import load_contracts
except ImportError:  # the house before it had rooms
    from skyt.rules import Facts, normal_form
    from skyt.contract import load_contracts
contracts = load_contracts()
facts = {}
times = []
for contract, text in json.load(open(sys.argv[1])):
    known = facts.setdefault(contract, Facts.from_contract(contracts[contract]))
    start = time.process_time()
    normal_form(text, known)
    times.append(time.process_time() - start)
print(json.dumps(times))
"""


def run(source: Path, programs: Path) -> list[float]:
    env = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(programs)], env=env, check=True, capture_output=True, text=True
    )
    return [float(t) for t in json.loads(done.stdout)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--beside", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = read_rows(options.data / "dev.jsonl.gz")
    distinct = list(dict.fromkeys((r.contract, r.text) for r in rows))
    here = Path(__file__).parent.parent / "src"
    times: dict[str, list[list[float]]] = {"here": [], "beside": []}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(distinct, file)
        file.flush()
        for _ in range(options.rounds):
            times["here"].append(run(here, Path(file.name)))
            times["beside"].append(run(options.beside, Path(file.name)))
    best = {name: [min(t) for t in zip(*found, strict=True)] for name, found in times.items()}
    for name, found in best.items():
        print(f"{name}: median {1000 * statistics.median(found):.1f} ms, sum {sum(found):.2f} s of CPU")
    ratio = statistics.median(best["here"]) / statistics.median(best["beside"])
    print(f"{len(distinct)} programs, the least of {options.rounds} runs each: ratio of medians {ratio:.2f}")


if __name__ == "__main__":
    main()
