"""Whether imported contracts say of recorded programs what EvalPlus's own rule says.

Every recorded output is judged twice: by the contract imported from EvalPlus's file (extraction, sandbox,
oracle), and by `benchmarks.evalplus_judge`, which shares no code with it, on the output's longest beginning
that Python can parse, without what stands there beside definitions and imports. Every disagreement is listed.

    homeostat code contracts import HumanEvalPlus.jsonl.gz --out contracts-he
    python -m benchmarks.evalplus_agreement contracts-he [--tasks HumanEvalPlus.jsonl.gz] [--rows GZ]
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.evalplus_judge import Judge

from skyt.contracts.contract import read_contracts
from skyt.generators.base import Generation
from skyt.runs.config import MeasureConfig
from skyt.runs.judging.pool import JudgePool

DATA = Path(__file__).parents[2] / "shared" / "data"
_KEPT = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign)


def beginning(raw: str, entry: str) -> str:
    """What the direct judge runs: definitions and imports up to where the text stops being Python.

    Imports after the function cannot belong to it and often name what does not exist; those go, too.
    """
    lines = raw.split("\n")
    for end in range(len(lines), 0, -1):
        try:
            body = ast.parse("\n".join(lines[:end])).body
        except (SyntaxError, ValueError):
            continue
        at = next((i for i, n in enumerate(body) if getattr(n, "name", "") == entry), len(body))
        late = [n for n in body[at:] if not isinstance(n, ast.Import | ast.ImportFrom | ast.Assign)]
        kept = [node for node in [*body[:at], *late] if isinstance(node, _KEPT)]
        return ast.unparse(ast.Module(kept, []))
    return raw


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("contracts", type=Path, help="the folder to which the tasks were imported")
    parser.add_argument("--tasks", type=Path, default=DATA / "evalplus" / "HumanEvalPlus.jsonl.gz")
    parser.add_argument("--rows", type=Path, default=DATA / "humaneval_generations" / "dev.jsonl.gz")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write both verdicts of every row to this JSONL file")
    args = parser.parse_args()
    for path in (args.tasks, args.rows):
        if not path.exists():
            print(f"{path} is not here: nothing to compare")
            return 0
    warnings.simplefilter("ignore")
    with gzip.open(args.rows, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    wanted = {row["contract_id"] for row in rows}
    contracts = read_contracts(args.contracts)
    started = time.monotonic()
    ours = by_contracts(rows, contracts, args.workers)
    print(f"contracts: {time.monotonic() - started:.0f} s", flush=True)
    judge = Judge(args.tasks, wanted)
    started = time.monotonic()
    theirs = directly(rows, judge, args.workers)
    print(f"directly: {time.monotonic() - started:.0f} s", flush=True)
    return told(rows, ours, theirs, args.out)


def by_contracts(rows: list[dict[str, Any]], contracts: dict[str, Any], workers: int) -> list[str]:
    """`pass`, or the first failure, of each row; verdicts that an earlier run kept are not made again."""
    jobs = [
        (Generation(name, "", 0.0, at, row["raw_output"]), contracts[name], None)
        for at, (name, row) in enumerate((row["contract_id"], row) for row in rows)
    ]
    with JudgePool(MeasureConfig(), contracts, workers) as pool:
        samples = dict(pool.samples(jobs))
    verdicts = [samples[at]["oracle_pre"] for at in range(len(rows))]
    return ["pass" if verdict["compliant"] else verdict["failures"][0] for verdict in verdicts]


def directly(rows: list[dict[str, Any]], judge: Judge, workers: int) -> list[str]:
    entries = {name: task["entry_point"] for name, task in judge.tasks.items()}
    keys = [(row["contract_id"], beginning(row["raw_output"], entries[row["contract_id"]])) for row in rows]
    distinct = list(dict.fromkeys(keys))
    known = dict(zip(distinct, judge.verdicts(distinct, workers), strict=True))
    return [known[key] for key in keys]


def told(rows: list[dict[str, Any]], ours: list[str], theirs: list[str], out: Path | None) -> int:
    pairs = Counter((a == "pass", b == "pass") for a, b in zip(ours, theirs, strict=True))
    agreed = pairs[True, True] + pairs[False, False]
    print(
        f"{len(rows)} rows: {agreed} agree ({agreed / len(rows):.2%}); {pairs[True, True]} pass for both, ",
        end="",
    )
    print(f"{pairs[True, False]} only here, {pairs[False, True]} only directly")
    for row, one, other in zip(rows, ours, theirs, strict=True):
        if (one == "pass") != (other == "pass"):
            print(f"  {row['contract_id']} sample {row['sample']}: here {one}; directly {other}")
    if out is not None:
        with out.open("w", encoding="utf-8") as file:
            for row, one, other in zip(rows, ours, theirs, strict=True):
                file.write(json.dumps([row["contract_id"], row["sample"], one, other]) + "\n")
    return 0 if agreed >= 0.99 * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
