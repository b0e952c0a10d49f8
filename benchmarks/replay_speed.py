"""Replay against the obvious way, in one run: the command on recorded rows, and a process a sample.

Run as `python -m benchmarks.replay_speed FILE.jsonl[.gz] [CANONS.json]`. The obvious way starts a
process for each sample and makes the generated calls in it, without a jail, a rule or a record; timed on
rows drawn evenly from the file and scaled to all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from skyt.contract import load_contracts
from skyt.generators.base import Generation
from skyt.generators.recorded import read_generations

_DRAWN = 48
_ONE_SAMPLE = """
import json, sys
from skyt.contract import load_contract
from skyt.domain import generate_inputs
from skyt.extract import extract_code
from skyt.normalise import normalise
row = json.load(sys.stdin)
contract = load_contract(row["contract_id"])
space = {}
exec(normalise(extract_code(row["raw_output"])).text, space)
entry = space[contract.entry_point.name]
for call in generate_inputs(contract, contract.oracle.generated, 0):
    try:
        target = entry(*call.args)
        for operation in call.operations or ():
            getattr(target, operation.method)(*operation.args)
    except Exception:
        pass
"""


def replay_seconds(file: Path, canons: Path | None) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "homeostat", "code", "replay", str(file), "--out", f"{folder}/run"]
        command += ["--canons", str(canons)] if canons else []
        begun = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return time.perf_counter() - begun


def process_a_sample_seconds(rows: list[Generation]) -> float:
    """Seconds a row, over rows drawn evenly."""
    drawn = rows[:: max(1, len(rows) // _DRAWN)]
    begun = time.perf_counter()
    for row in drawn:
        text = json.dumps({"contract_id": row.contract_id, "raw_output": row.raw_output})
        subprocess.run(
            [sys.executable, "-c", _ONE_SAMPLE], input=text, text=True, capture_output=True, timeout=60
        )
    return (time.perf_counter() - begun) / len(drawn)


def main(file: str, canons: str | None = None) -> None:
    known = load_contracts()
    rows = [row for _, row in read_generations(Path(file)) if isinstance(row, Generation)]
    rows = [row for row in rows if row.contract_id in known]
    ours = replay_seconds(Path(file), Path(canons) if canons else None)
    each = process_a_sample_seconds(rows)
    naive = each * len(rows)
    print(f"rows                 {len(rows):>8,}")
    print(f"replay, cold         {ours:>8.1f} s  (judged twice, repaired, recorded, summarised, drawn)")
    print(f"a process a sample   {naive:>8.1f} s  ({each * 1000:.0f} ms a row; calls only)")
    print(f"ratio                {naive / ours:>8.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
