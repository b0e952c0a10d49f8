"""Metrics over the store of a generated run of a million samples: samples per second, and memory.

Run as `python -m benchmarks.metrics_stream [SAMPLES]`. Each size is measured in a fresh process, whose peak
resident memory is reported: the tallies alone, and the whole command with the files it writes. The last run
has every output different and its samples in no order.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import insert

from skyt.records import RunRow, RunStore
from skyt.records.store import RUN, add_runs
from skyt.records.tables import ledgers, samples

_STAMP = "2026-01-01T00:00:00.000Z"
_MEASURE = """
import json, resource, sys, time
from pathlib import Path
from skyt.metrics.aggregation import aggregate
from skyt.records import RunStore, write_files
begun = time.perf_counter()
with RunStore(Path(sys.argv[1])) as store:
    if sys.argv[2] == "files":
        write_files(store)
    with store.reading() as connection:
        found = aggregate(connection, 0.1)
spent = time.perf_counter() - begun
peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": spent, "peak_mb": peak_kb / 1024, "n": found.overall.n}))
"""


def rows(count: int, distinct: int, cells: list[RunRow]) -> Iterator[dict[str, object]]:
    """Samples as the table has them, of programs that are `distinct` different ones."""
    rng = random.Random(0)
    digests = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(distinct)]
    verdict = {"compliant": True, "failures": [], "counterexample": None}
    for number in range(count):
        cell, which = cells[number * len(cells) // count], rng.randrange(distinct)
        digest, d, rescued = digests[which], which / distinct, 0 < which < distinct // 3
        evidence = "identical" if which == 0 else "rewritten" if rescued else "none"
        after, d_after = (digests[0], 0.0) if rescued else (digest, d)
        record = {
            "run_id": cell.run_id, "sample_id": f"{number:06d}", "prompt_id": cell.prompt_id,
            "signature_pre": digest, "signature_post": after, "d_pre": d, "d_post": d_after,
            "canon_signature": digests[0], "oracle_pre": verdict, "oracle_post": verdict, "repair_steps": [],
            "evidence": evidence, "reason": "same normal form", "raw_output": digest,
            "oracle_version": "o", "normalization_version": "n", "distance_version": "d",
        }  # fmt: skip
        yield {
            "ledger": RUN, "number": number, "run_id": cell.run_id, "prompt_id": cell.prompt_id,
            "normalization_version": "n", "signature_pre": digest, "signature_post": after, "d_pre": d,
            "d_post": d_after, "compliant_pre": True, "compliant_post": True, "evidence": evidence,
            "canon_signature": digests[0], "timestamp": _STAMP, "record": json.dumps(record),
        }  # fmt: skip


def generate(folder: Path, count: int, distinct: int, shuffled: bool) -> None:
    """Write a consistent run of samples over 4 prompts and 4 models."""
    cells = [
        RunRow(f"r{at}", f"prompt_{at // 4}", "bench", _STAMP, f"model_{at % 4}", 0.7, 0, "o", "n", "p", "d")
        for at in range(16)
    ]
    with RunStore(folder) as store, store.writing() as connection:
        opened = {"name": RUN, "created_at": _STAMP, "next_sample": count, "next_run": len(cells)}
        connection.execute(insert(ledgers).values(**opened))
        add_runs(connection, RUN, cells)
        made = rows(count, distinct, cells)
        order = list(range(count))
        if shuffled:
            random.Random(1).shuffle(order)
        for at in range(0, count, 10_000):
            block = [next(made) for _ in range(min(10_000, count - at))]
            for row, number in zip(block, order[at : at + len(block)], strict=True):
                row["number"] = number
            connection.execute(insert(samples), block)


def measure(count: int, distinct: int, *, shuffled: bool = False) -> None:
    with tempfile.TemporaryDirectory() as name:
        generate(Path(name), count, distinct, shuffled)
        for what in ("tallies", "files"):
            command = [sys.executable, "-c", _MEASURE, name, what]
            begun = time.perf_counter()
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found = json.loads(done.stdout)
            assert found["n"] == count
            print(
                f"{count:>9,} samples  {distinct:>9,} distinct  {'shuffled' if shuffled else 'in order':<9} "
                f"{what:<8} {found['seconds']:6.1f} s  {count / found['seconds']:>9,.0f} samples/s  "
                f"peak {found['peak_mb']:4.0f} MB  ({time.perf_counter() - begun:.0f} s with its start)",
                flush=True,
            )


def main(count: int = 1_000_000) -> None:
    measure(count // 10, 2_000)
    measure(count, 2_000)
    measure(count, count)
    measure(count, count, shuffled=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
