from __future__ import annotations

import ast
import gzip
import json
import re
from pathlib import Path

import pytest

from homeostat.core.errors import UserError
from homeostat.core.records import read_jsonl
from skyt.canon import CanonVersionError
from skyt.runs.config import BatchConfig, MeasureConfig
from skyt.runs.measure import RunOptions
from skyt.runs.replay import read_canons, replay
from skyt.sandbox import capability

pytestmark = pytest.mark.skipif(not capability().contained, reason="this machine cannot contain code")

QUIET = RunOptions(workers=1, figures=False)
GCD = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"
ROW = {"contract_id": "gcd", "model": "m", "temperature": 0.7, "sample": 0, "raw_output": GCD}


CANON = '{"contract_id": "gcd", "canonical_code": "%s"}'


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines))
    return path


def is_text(part: ast.stmt) -> bool:
    return (
        isinstance(part, ast.Expr)
        and isinstance(part.value, ast.Constant)
        and isinstance(part.value.value, str)
    )


def independent_text(raw: str) -> str:
    """The longest fence or the whole text, unparsed without docstrings: written for this test only."""
    blocks = re.findall(r"```(?:python)?\n(.*?)(?:```|\Z)", raw, flags=re.DOTALL)
    tree = ast.parse(max(blocks, key=len) if blocks else raw)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
            node.body = [part for part in node.body if not is_text(part)] or [ast.Pass()]
    return ast.unparse(tree)


def test_the_share_of_exact_matches_before_repair_equals_an_independent_computation(
    tmp_path: Path, shared_data: Path
) -> None:
    data = shared_data / "skyt_generations"
    canons = {
        row["contract_id"]: row["canonical_code"]
        for row in json.loads((data / "dev_contracts.json").read_text())
    }
    wanted = {"gcd", "factorial", "fibonacci_basic"}  # cheap ones: the command is the same for all of them
    with gzip.open(data / "dev.jsonl.gz", "rt") as file:
        rows = [row for row in map(json.loads, file) if row["contract_id"] in wanted]
    write(tmp_path / "rows.jsonl", [json.dumps(row) for row in rows])
    done = replay(
        tmp_path / "rows.jsonl", tmp_path / "run", MeasureConfig(), QUIET, canons=data / "dev_contracts.json"
    )
    matches = [
        independent_text(row["raw_output"]) == independent_text(canons[row["contract_id"]]) for row in rows
    ]
    overall = done.metrics["skyt.overall"]
    assert overall["R_anchor_pre_measured"] == sum(matches) / len(matches)
    samples = list(read_jsonl(tmp_path / "run" / "samples.jsonl"))
    assert [sample["d_pre"] == 0.0 for sample in samples] == matches
    assert [sample["raw_output"] for sample in samples] == [row["raw_output"] for row in rows]
    assert overall["R_anchor"] >= 0.99
    assert len(done.metrics["skyt.cells"]) == 3 * 2 * 5


def test_broken_lines_are_returned_with_their_numbers_and_the_rest_is_processed(tmp_path: Path) -> None:
    unknown = json.dumps({**ROW, "contract_id": "gdc"})
    path = write(tmp_path / "rows.jsonl", [json.dumps(ROW), "{", "", unknown, json.dumps(ROW)])
    done = replay(path, tmp_path / "run", MeasureConfig(), QUIET)
    assert done.metrics["skyt.overall"]["N"] == 2
    assert [line.number for line in done.broken] == [2, 4]
    assert "did you mean 'gcd'" in done.broken[1].problem


def test_equivalent_evidence_is_opt_in_and_recorded(tmp_path: Path) -> None:
    guarded = "if b == 0:\n        return a\n    while a % b:\n        a, b = b, a % b\n    return b"
    loop = "while a and b:\n        if a > b:\n            a %= b\n        else:\n            b %= a\n"
    both = f"{loop}    return a + b"
    other, subtract = (f"def gcd(a, b):\n    {body}" for body in (guarded, both))
    rows = [ROW, {**ROW, "raw_output": subtract}, {**ROW, "raw_output": other}]
    path = write(tmp_path / "rows.jsonl", [json.dumps(row) for row in rows])
    plain = replay(path, tmp_path / "plain", MeasureConfig(), QUIET)
    settings = MeasureConfig(evidence="equivalent", inputs=100)
    opted = replay(path, tmp_path / "opted", settings, QUIET)
    assert plain.metrics["skyt.overall"]["evidence_counts"]["equivalent"] == 0
    counts = opted.metrics["skyt.overall"]["evidence_counts"]
    assert counts["none"] == 0
    assert counts["equivalent"] >= 1
    sample = list(read_jsonl(tmp_path / "opted" / "samples.jsonl"))[1]
    assert sample["equivalence"]["equal"]
    assert sample["equivalence"]["inputs"] >= 100


def test_re_anchoring_archives_canon_and_rows_and_measures_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "rows.jsonl", [json.dumps(ROW)] * 2)
    replay(path, tmp_path / "run", MeasureConfig(), QUIET)
    canon = tmp_path / "run" / "canon" / "gcd.json"
    stale = json.loads(canon.read_text())
    canon.write_text(json.dumps({**stale, "normalization_version": "0-old"}))
    for file in [*(tmp_path / "run").glob("*.csv"), *(tmp_path / "run").glob("*.sqlite")]:
        file.unlink()  # as if the rows were still to be measured
    (tmp_path / "run" / "samples.jsonl").unlink()
    with pytest.raises(CanonVersionError, match="--re-anchor"):
        replay(path, tmp_path / "run", MeasureConfig(), QUIET)
    done = replay(
        path, tmp_path / "run", MeasureConfig(), RunOptions(workers=1, figures=False, re_anchor=True)
    )
    assert done.metrics["skyt.overall"]["N"] == 2
    (archived,) = (tmp_path / "run" / "canon" / "archive").iterdir()
    assert json.loads(archived.read_text())["normalization_version"] == "0-old"
    assert json.loads(canon.read_text())["normalization_version"] == stale["normalization_version"]


def test_canons_shared_between_runs_stay_fixed(tmp_path: Path) -> None:
    shared = RunOptions(workers=1, figures=False, canon_dir=tmp_path / "canons")
    renamed = GCD.replace("a", "x").replace("b", "y")
    first = write(tmp_path / "a.jsonl", [json.dumps(ROW)])
    second = write(tmp_path / "b.jsonl", [json.dumps({**ROW, "raw_output": renamed})])
    replay(first, tmp_path / "one", MeasureConfig(), shared)
    done = replay(second, tmp_path / "two", MeasureConfig(), shared)
    assert done.metrics["skyt.overall"]["rescue_rate"] == 1.0
    names = ["one/canon/gcd.json", "two/canon/gcd.json", "canons/gcd.json"]
    assert len({json.loads((tmp_path / name).read_text())["canon_signature"] for name in names}) == 1


def test_bad_canon_files_are_one_clear_line(tmp_path: Path) -> None:
    for text, message in (
        ("{", "not JSON"),
        ("{}", "a list of"),
        ('[{"contract_id": "gcd"}]', "entry 1"),
        (
            '[{"contract_id": "gcd", "canonical_code": "a"}, {"contract_id": "gcd", "canonical_code": "b"}]',
            "second",
        ),
    ):
        (tmp_path / "canons.json").write_text(text)
        with pytest.raises(UserError, match=message):
            read_canons(tmp_path / "canons.json")
    with pytest.raises(UserError, match="no such file"):
        read_canons(tmp_path / "none.json")


def test_several_workers_give_the_rows_of_one(tmp_path: Path) -> None:
    """With the settings that a command has, and enough programs for other processes to start."""
    texts = [GCD.replace("gcd(a, b)", f"gcd(a, b, *more{n})") for n in range(20)] + [GCD]
    rows = [{**ROW, "sample": n, "raw_output": text} for n, text in enumerate(texts)]
    file = write(tmp_path / "rows.jsonl", [json.dumps(row) for row in rows])
    settings = BatchConfig(canon="modal", inputs=20)
    for workers in (1, 2):
        replay(file, tmp_path / str(workers), settings, RunOptions(workers=workers, figures=False))
    one, two = (read_jsonl(tmp_path / name / "samples.jsonl") for name in "12")
    own = ("run_id", "timestamp")
    strip = [[{k: v for k, v in row.items() if k not in own} for row in some] for some in (one, two)]
    assert strip[0] == strip[1] and len(strip[0]) == 21
