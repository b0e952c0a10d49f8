"""Metrics over a generated run of two million distance rows: rows per second, and memory.

Run as `python -m benchmarks.metrics_stream [SAMPLES]`. Each size is aggregated in a fresh process, whose peak
resident memory is reported; then with every output different, and with the rows in another order.
"""

from __future__ import annotations

import csv
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from skyt import records

_STAMP = "2026-01-01T00:00:00.000Z"
_VERSION = "bench"
_MEASURE = """
import json, resource, sys, time
from pathlib import Path
from skyt.metrics.aggregation import aggregate
start_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begun = time.perf_counter()
tallies = aggregate(Path(sys.argv[1]), 0.1, json.loads(sys.argv[2]))
spent = time.perf_counter() - begun
peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": spent, "peak_mb": peak_kb / 1024, "n": tallies.overall.n}))
"""


def generate(folder: Path, samples: int, distinct: int) -> tuple[dict[str, str], int]:
    """Write a consistent run of `samples` samples over 4 prompts and 4 models; returns canons and rows."""
    rng = random.Random(0)
    prompts = [f"prompt_{i}" for i in range(4)]
    digests = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(distinct)]
    canons = dict.fromkeys(prompts, digests[0])
    cells = [(prompt, f"model_{m}") for prompt in prompts for m in range(4)]
    rows = 0
    with (
        (folder / records.RUNS).open("w", newline="") as runs,
        (folder / records.PRE).open("w", newline="") as pre,
        (folder / records.POST).open("w", newline="") as post,
        (folder / records.REPAIRS).open("w", newline="") as repairs,
    ):
        writers = {file: csv.writer(file, lineterminator="\n") for file in (runs, pre, post, repairs)}
        for name, file in (
            (records.RUNS, runs),
            (records.PRE, pre),
            (records.POST, post),
            (records.REPAIRS, repairs),
        ):
            writers[file].writerow(records.COLUMNS[name])
        for at, (prompt, model) in enumerate(cells):
            writers[runs].writerow(
                records.RunRow(f"r{at}", prompt, "bench", _STAMP, model, 0.7, 0, "o", _VERSION, prompt, "d")
            )
        for number in range(samples):
            at = number * len(cells) // samples
            which = rng.randrange(distinct)
            digest, d = digests[which], which / distinct
            rescued = 0 < which < distinct // 3
            run, prompt, sample = f"r{at}", cells[at][0], f"{number:06d}"
            writers[pre].writerow((run, sample, prompt, "pre", digest, d, "true", _VERSION, _STAMP, "o", "d"))
            after, d_after = (digests[0], 0.0) if rescued else (digest, d)
            writers[post].writerow(
                (run, sample, prompt, "post", after, d_after, "true", _VERSION, _STAMP, "o", "d")
            )
            rows += 2
            if d > 0:
                reason = "rewritten: same normal form" if rescued else "none: other normal form"
                success = "true" if rescued else "false"
                writers[repairs].writerow(
                    (run, sample, digest, after, d, d_after, 3, success, reason, _STAMP, "o", _VERSION, "d")
                )
                rows += 1
    return canons, rows


def shuffle(folder: Path) -> None:
    """Put the rows of one file in another order."""
    header, *rows = (folder / records.PRE).read_text().splitlines(keepends=True)
    random.Random(1).shuffle(rows)
    (folder / records.PRE).write_text("".join([header, *rows]))


def measure(samples: int, distinct: int, *, shuffled: bool = False) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begun = time.perf_counter()
        canons, rows = generate(folder, samples, distinct)
        if shuffled:
            shuffle(folder)
        made = time.perf_counter() - begun
        command = [sys.executable, "-c", _MEASURE, name, json.dumps(canons)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        assert found["n"] == samples
        print(
            f"{samples:>9,} samples  {rows:>9,} rows  {distinct:>9,} distinct  "
            f"{'shuffled' if shuffled else 'in order'}  {found['seconds']:6.1f} s  "
            f"{rows / found['seconds']:>9,.0f} rows/s  peak {found['peak_mb']:4.0f} MB  "
            f"(written in {made:.0f} s)"
        )


def main(samples: int = 1_000_000) -> None:
    measure(samples // 10, 2_000)
    measure(samples, 2_000)
    measure(samples, samples)
    measure(samples, samples, shuffled=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
