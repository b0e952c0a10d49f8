from __future__ import annotations

import csv
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.rows import read_rows

from homeostat.core.records import read_jsonl
from homeostat.core.rundir import open_run
from skyt.canon import CanonImmutabilityError
from skyt.contracts.contract import load_contracts
from skyt.generators.base import Generation
from skyt.metrics.summary import summarise
from skyt.runs.config import MeasureConfig
from skyt.runs.judging.pool import JudgePool
from skyt.runs.pipeline import measure
from skyt.sandbox import capability

pytestmark = pytest.mark.skipif(not capability().contained, reason="this machine cannot contain code")

CONTRACTS = load_contracts()
GCD = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"
GCD_NAMES = GCD.replace("a", "x").replace("b", "y")
RECURSIVE = "def gcd(a, b):\n    return a if b == 0 else gcd(b, a % b)"
WRONG = "def gcd(a, b):\n    return 1"
BROKEN = "def gcd(a, b:\n    return 1"
FACTORIAL = (
    "def factorial(n):\n    result = 1\n    for i in range(2, n + 1):\n        result *= i\n    return result"
)


def generations(order: list[int] | None = None) -> list[Generation]:
    texts = [WRONG, GCD, GCD_NAMES, RECURSIVE, BROKEN, GCD, WRONG, ""]
    chosen = [texts[i] for i in order] if order else texts
    rows = [Generation("gcd", "m", 0.7, i, text) for i, text in enumerate(chosen)]
    return [
        *rows,
        Generation("factorial", "m", 0.0, 0, FACTORIAL),
        Generation("slugify", "m", 0.0, 0, "nothing"),
    ]


@pytest.fixture(scope="module")
def pool() -> Any:
    with JudgePool(MeasureConfig(), CONTRACTS) as made:
        yield made


def run_all(folder: Path, rows: list[Generation], pool: JudgePool, **options: Any) -> dict[str, Any]:
    with open_run(folder, command="test", config=MeasureConfig()) as run:
        measure(run, rows, CONTRACTS, pool, mode="test", **options)
        return summarise(run, 0.1, {})


def test_one_pre_and_one_post_row_a_sample_and_samples_in_input_order(
    tmp_path: Path, pool: JudgePool
) -> None:
    rows = generations()
    metrics = run_all(tmp_path / "r", rows, pool)
    expected = [f"{number:06d}" for number in range(len(rows))]
    for name in ("distances_pre.csv", "distances_post.csv"):
        assert [row["sample_id"] for row in read_rows(tmp_path / "r" / name)] == expected
    samples = list(read_jsonl(tmp_path / "r" / "samples.jsonl"))
    assert [sample["raw_output"] for sample in samples] == [row.raw_output for row in rows]
    by_prompt = {row["prompt_id"]: row for row in metrics["skyt.prompts"]}
    assert by_prompt["gcd"]["N"] == 8
    # GCD and its renamed form are canonical, two of them identical already; the rest is not.
    assert by_prompt["gcd"]["R_anchor"] == 3 / 8
    assert by_prompt["gcd"]["R_anchor_pre_measured"] == 2 / 8
    assert by_prompt["gcd"]["rescue_rate"] == 1 / 8
    assert by_prompt["gcd"]["R_raw"] == 2 / 8


def test_a_prompt_without_compliant_output_has_no_canon_and_distance_one(
    tmp_path: Path, pool: JudgePool
) -> None:
    metrics = run_all(tmp_path / "r", generations(), pool)
    assert not (tmp_path / "r" / "canon" / "slugify.json").exists()
    (slugify,) = [row for row in metrics["skyt.prompts"] if row["prompt_id"] == "slugify"]
    assert (slugify["mu_pre"], slugify["mu_post"], slugify["R_anchor"]) == (1.0, 1.0, 0.0)
    assert not [row for row in read_rows(tmp_path / "r" / "repairs.csv") if row["run_id"].endswith(".0002")]


def test_the_first_compliant_output_becomes_the_canon(tmp_path: Path, pool: JudgePool) -> None:
    run_all(tmp_path / "r", generations([0, 4, 3, 1, 2]), pool)
    canon = json.loads((tmp_path / "r" / "canon" / "gcd.json").read_text())
    assert "gcd(b, a % b)" in canon["normalized_code"]
    assert canon["origin"] == "first_compliant"
    assert canon["function_signatures"] == ["gcd(a: int, b: int) -> int"]
    assert canon["constraints_snapshot"]["id"] == "gcd"


def test_sample_order_matters_only_through_which_sample_becomes_canon(
    tmp_path: Path, pool: JudgePool
) -> None:
    order = [0, 1, 2, 3, 4, 5, 6, 7]
    plain = run_all(tmp_path / "plain", generations(), pool)
    for seed in range(3):
        rest = order[2:]
        random.Random(seed).shuffle(rest)
        found = run_all(
            tmp_path / str(seed), generations([1, 0, *rest]), pool
        )  # GCD stays the first compliant
        assert found["skyt.overall"] == plain["skyt.overall"]


def test_given_canons_are_used_and_cannot_be_changed_later(tmp_path: Path, pool: JudgePool) -> None:
    run_all(tmp_path / "r", generations(), pool, given={"gcd": RECURSIVE})
    canon = json.loads((tmp_path / "r" / "canon" / "gcd.json").read_text())
    assert canon["origin"] == "given"
    rows = [*generations(), Generation("gcd", "m", 0.7, 8, GCD)]
    with pytest.raises(CanonImmutabilityError):
        run_all(tmp_path / "r", rows, pool, given={"gcd": GCD})


def test_running_again_changes_nothing(tmp_path: Path, pool: JudgePool) -> None:
    run_all(tmp_path / "r", generations(), pool)
    files = [p for p in sorted((tmp_path / "r").rglob("*")) if p.is_file() and p.name != "run_record.json"]
    before = {p: p.read_bytes() for p in files}
    run_all(tmp_path / "r", generations(), pool)
    assert {p: p.read_bytes() for p in files} == before


def write_jsonl(path: Path, rows: list[Generation]) -> None:
    with gzip.open(path, "wt") as file:
        for row in rows:
            file.write(json.dumps(row.__dict__) + "\n")


def columns(folder: Path, name: str) -> list[list[str]]:
    """Rows without run ids and timestamps, which belong to the moment."""
    with (folder / name).open(newline="") as file:
        header, *rows = csv.reader(file)
    kept = [at for at, column in enumerate(header) if column not in ("run_id", "timestamp")]
    return [[row[at] for at in kept] for row in rows]


def test_kill_9_at_any_point_then_resume_gives_the_same_rows_and_metrics(tmp_path: Path) -> None:
    rows = [row for _ in range(60) for row in generations()]
    write_jsonl(tmp_path / "g.jsonl.gz", rows)

    def command(out: str) -> list[str]:
        arguments = ["code", "replay", str(tmp_path / "g.jsonl.gz"), "--out", str(tmp_path / out)]
        return [sys.executable, "-m", "homeostat", *arguments, "--no-figures", "--workers", "1"]

    begun = time.monotonic()
    subprocess.run(command("whole"), check=True, capture_output=True)
    whole_s = time.monotonic() - begun
    for attempt in range(3):
        process = subprocess.Popen(command("killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        store = tmp_path / "killed" / "records.sqlite"
        until = time.monotonic() + 3 * whole_s
        while time.monotonic() < until and process.poll() is None:
            if (
                attempt > 0 and store.exists()
            ):  # the first attempt dies at a moment of its own, the others while writing
                break
            if attempt == 0 and time.monotonic() - until + 3 * whole_s > 0.6 * whole_s:
                break
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(command("killed"), check=True, capture_output=True)
    for name in ("distances_pre.csv", "distances_post.csv", "repairs.csv"):
        assert columns(tmp_path / "killed", name) == columns(tmp_path / "whole", name)
    ids = [row["sample_id"] for row in read_rows(tmp_path / "killed" / "distances_pre.csv")]
    assert ids == [f"{number:06d}" for number in range(len(rows))]
    metrics = [
        json.loads((tmp_path / name / "metrics" / "repeatability_metrics.json").read_text())["metrics"]
        for name in ("whole", "killed")
    ]
    assert metrics[0] == metrics[1]
