"""What surviving a power cut costs: samples added to a run and to a service, synced and not synced.

The same samples are written with `durability: process` and `durability: full`, in turn, in one run. What a
sync costs depends on the disk: the figures are of the disk that holds the temporary folder.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skyt.canon import Canon, Versions
from skyt.records import Durability, RunRow, RunStore, Sample
from skyt.records import Versions as RowVersions
from skyt.serve.database.store import Store, Submission
from skyt.text.signature import signature

_CODE = "def gcd(a, b):\n    while b:\n        a, b = (b, a % b)\n    return abs(a)"
_STAMP, _VERSIONS = "2026-01-01T00:00:00.000Z", ("1", "2", "levenshtein-1")
ROUNDS = 40


def _sample(number: int) -> Sample:
    """A sample of the usual size."""
    digest, verdict = signature(_CODE), {"compliant": True, "failures": [], "counterexample": None}
    versions = dict(zip(RowVersions._fields, _VERSIONS, strict=True))
    record: dict[str, Any] = {
        "run_id": "r",
        "sample_id": f"{number:06d}",
        "prompt_id": "gcd",
        "contract_id": "gcd",
        "model": "m",
        "temperature": 0.7,
        "sample": number,
        "raw_output": f"```python\n{_CODE}\n```",
        "parsed": True,
        "normalized_pre": _CODE,
        "normalized_post": _CODE,
        "signature_pre": digest,
        "signature_post": digest,
        "d_pre": 0.5,
        "d_post": 0.5,
        "distance_method": "exact",
        "evidence": "none",
        "reason": "x",
        "repair_steps": [],
        "oracle_pre": verdict,
        "oracle_post": verdict,
        "canon_signature": "c" * 64,
        "equivalence": None,
        **versions,
    }
    return Sample(record, _STAMP)


def _run(folder: Path, durability: Durability, block: int) -> Callable[[int], None]:
    store = RunStore(folder / f"{durability}-{block}", durability)
    row = RunRow("r", "gcd", "bench", _STAMP, "m", 0.7, 0, "2", "1", "gcd", "levenshtein-1")
    return lambda _: store.append([row], [("r", _sample(at)) for at in range(block)])


def _database(folder: Path, durability: Durability) -> Callable[[int], None]:
    store = Store.open(str(folder / f"{durability}.sqlite"), Versions("1", "2"), durability)
    canon = Canon(
        "gcd", signature(_CODE), "2", "1", _STAMP, "gcd", "m", 0.7, ["gcd(a, b)"], {}, _CODE, "given"
    )
    store.set(canon)

    def commit(turn: int) -> None:
        with store.engine.begin() as connection:
            store.record(connection, Submission("gcd", "m", 0.7, [_sample(turn)], canon))

    return commit


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{'what':<34}{'process ms':>12}{'full ms':>10}{'more ms':>10}{'ratio':>8}")
        kinds: dict[str, Callable[[Durability], Callable[[int], None]]] = {
            "run, 1 sample a commit": lambda durability: _run(folder, durability, 1),
            "run, 200 samples a commit": lambda durability: _run(folder, durability, 200),
            "service, 1 sample a commit": lambda durability: _database(folder, durability),
        }
        result = {}
        for kind, make in kinds.items():
            durabilities: tuple[Durability, ...] = ("process", "full")
            writers = {durability: make(durability) for durability in durabilities}
            took: dict[str, list[float]] = {durability: [] for durability in writers}
            for turn in range(ROUNDS):
                for durability, write in writers.items():
                    began = time.perf_counter()
                    write(turn)
                    took[durability].append((time.perf_counter() - began) * 1e3)
            fast, safe = (statistics.median(took[durability]) for durability in durabilities)
            result[kind] = [fast, safe]
            print(f"{kind:<34}{fast:>12.2f}{safe:>10.2f}{safe - fast:>10.2f}{safe / fast:>8.1f}", flush=True)
        print(json.dumps(result))


if __name__ == "__main__":
    main()
