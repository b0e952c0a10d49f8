"""Replay against the obvious way, in one run: the command on recorded rows, and one process per sample.

Run as `python -m benchmarks.replay_speed [FILE.jsonl[.gz] [CANONS.json]]`; without arguments it takes the
development data. Two obvious ways are timed on rows drawn evenly from the file and scaled to all of them: one
process per sample that does the same work (judge in a jail, repair), and one that only makes the calls,
without a jail, a rule or a record.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from skyt.contracts.contract import load_contracts
from skyt.generators.base import Generation
from skyt.generators.recorded import read_generations
from skyt.runs.replay import read_canons

_DATA = Path(__file__).parents[2] / "shared" / "data" / "skyt_generations"
_DRAWN = 48
_SAME_WORK = """
import json, sys
from skyt.runs.config import MeasureConfig
from skyt.contracts.contract import load_contract
from skyt.runs.canons import new_canon
from skyt.runs.judging.assess import Assessor, prepare
row = json.load(sys.stdin)
contract = load_contract(row["contract_id"])
with Assessor(MeasureConfig()) as assessor:
    text = prepare(row["raw_output"], contract).text
    assessor.verdict(contract, text)
    if row["canon"]:
        given = prepare(row["canon"], contract).text
        canon = new_canon(contract, given, origin="given", model=None, temperature=None)
        assessor.repair(contract, text, canon)
"""
_CALLS_ONLY = """
import json, sys
from skyt.contracts.contract import load_contract
from skyt.contracts.domain import generate_inputs
from skyt.text.extract import extract_code
from skyt.text.normalise import normalise
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


def process_a_sample_seconds(rows: list[Generation], program: str, canons: dict[str, str]) -> float:
    """Seconds per row, over rows drawn evenly."""
    drawn = rows[:: max(1, len(rows) // _DRAWN)]
    begun = time.perf_counter()
    for row in drawn:
        told = {
            "contract_id": row.contract_id,
            "raw_output": row.raw_output,
            "canon": canons.get(row.contract_id),
        }
        command = [sys.executable, "-c", program]
        subprocess.run(
            command, input=json.dumps(told), text=True, capture_output=True, timeout=60, check=False
        )
    return (time.perf_counter() - begun) / len(drawn)


def main(file: str | None = None, canons: str | None = None) -> None:
    if file is None:
        file, canons = str(_DATA / "dev.jsonl.gz"), str(_DATA / "dev_contracts.json")
    if not Path(file).exists():
        print(f"skipped: {file} is not here")
        return
    known = load_contracts()
    rows = [row for _, row in read_generations(Path(file)) if isinstance(row, Generation)]
    rows = [row for row in rows if row.contract_id in known]
    given = read_canons(Path(canons)) if canons else {}
    ours = replay_seconds(Path(file), Path(canons) if canons else None)
    print(f"rows                            {len(rows):>8,}")
    print(f"replay, cold                    {ours:>8.1f} s  (judged, repaired, recorded, summarised, drawn)")
    for name, program in (("same work", _SAME_WORK), ("calls only", _CALLS_ONLY)):
        each = process_a_sample_seconds(rows, program, given)
        print(
            f"one process per sample, {name:<11} {each * len(rows):>8.1f} s  ({each * 1000:.0f} ms per row)"
            f"  {each * len(rows) / ours:.1f} times as long"
        )


if __name__ == "__main__":
    main(*sys.argv[1:3])
