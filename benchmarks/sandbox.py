"""A verdict from the pre-forked sandbox against starting an interpreter for each sample.

Both ways make as many calls to each program as the contract's oracle does. The naive way starts one Python
process per sample, uncontained. The cost of a new jail for each sample is shown too. With the development
data (`../shared/data`) the samples are its 1,600 rows, of which many repeat, as models do; without it they
are the reference solutions, again and again. Naive times are measured on a subset.

    python -m benchmarks.sandbox [--naive 60]
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from skyt.contracts.contract import Contract, load_contracts
from skyt.contracts.domain import generate_inputs
from skyt.oracle.oracle import Oracle
from skyt.sandbox import EncodedCalls, Job, SandboxPool, encode_calls

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "skyt_generations" / "dev.jsonl.gz"
DRIVER = (
    "import sys; sys.path[:0] = sys.argv[1:3]; import codec, harness; "
    "harness.serve(sys.stdin.buffer.read(), 1, 1.0, 1 << 20, codec)"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--naive", type=int, default=60, help="samples to measure the naive way on")
    arguments = parser.parse_args()
    contracts = load_contracts()
    samples = _samples(contracts)
    distinct = len({(code, contract.id) for code, contract in samples})
    print(f"{len(samples)} samples, {distinct} distinct programs")

    started = time.perf_counter()
    with SandboxPool(workers=2) as pool:
        ready = time.perf_counter() - started
        verdicts = Oracle(pool).check_many(samples)
        pooled = time.perf_counter() - started
        _calls_in_one_process(pool, contracts["gcd"])
    print(f"pool: ready after {ready:.2f} s, all verdicts after {pooled:.2f} s (cold)")
    each, every = 1e3 * pooled / len(samples), 1e3 * pooled / distinct
    print(f"      {each:.2f} ms per sample, {every:.1f} ms per distinct program")
    print(f"      {sum(v.compliant for v in verdicts)} of {len(samples)} compliant")

    chosen = samples[:: max(1, len(samples) // arguments.naive)]
    jobs = {contract.id: _calls(contract) for _, contract in chosen}
    started = time.perf_counter()
    for code, contract in chosen[:10]:
        with SandboxPool(workers=1) as pool:
            pool.run(code, contract.entry_point, jobs[contract.id])
    jailed = (time.perf_counter() - started) / len(chosen[:10])
    times = jailed / (pooled / len(samples))
    print(f"one jail per sample: {1e3 * jailed:.1f} ms each (10 measured), {times:.1f} times the pool's")
    work = [Job(code, contract.entry_point, jobs[contract.id]) for code, contract in chosen]
    for at_once in (1, 2):
        started = time.perf_counter()
        with ThreadPoolExecutor(at_once) as threads:
            list(threads.map(_in_a_process_of_its_own, work))
        naive = (time.perf_counter() - started) / len(chosen)
        ratio = naive / (pooled / len(samples))
        print(
            f"one process per sample, {at_once} at once: {1e3 * naive:.1f} ms per sample "
            f"({len(chosen)} measured), {ratio:.1f} times the pool's"
        )


def _samples(contracts: dict[str, Contract]) -> list[tuple[str, Contract]]:
    if DATA.is_file():
        with gzip.open(DATA, "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        return [(row["raw_output"], contracts[row["contract_id"]]) for row in rows]
    references = ROOT / "tests" / "data" / "references"
    one_each = [((references / f"{c.id}.py").read_text(encoding="utf-8"), c) for c in contracts.values()]
    return one_each * 100


def _calls(contract: Contract) -> EncodedCalls:
    count = len(contract.oracle.cases) * 2 + contract.oracle.generated
    return encode_calls(generate_inputs(contract, count, seed=0))


def _in_a_process_of_its_own(job: Job) -> None:
    import skyt.sandbox

    sandbox = Path(skyt.sandbox.__file__).parent
    command = [sys.executable, "-c", DRIVER, str(sandbox), str(sandbox.parent / "contracts")]
    done = subprocess.run(command, input=job.body(), capture_output=True, check=False)
    assert done.stdout.startswith(b"R\nL\t"), done.stderr


def _calls_in_one_process(pool: SandboxPool, contract: Contract) -> None:
    code = (ROOT / "tests" / "data" / "references" / "gcd.py").read_text(encoding="utf-8")
    for count in (1, 1000):
        calls = encode_calls(generate_inputs(contract, count, seed=0))
        started = time.perf_counter()
        for _ in range(10):
            pool.run(code, contract.entry_point, calls)
        print(
            f"pool: {count} calls of gcd in one process take {100 * (time.perf_counter() - started):.1f} ms"
        )


if __name__ == "__main__":
    main()
