"""The round trips find faults that leave every checksum valid, and find nothing where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from cachemedicpp.engines.conformance.cases import CASES, conform, jobs, line
from cachemedicpp.engines.conformance.subjects import Job
from homeostat.core.errors import UserError


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=40_064,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
    )
    folder = tmp_path_factory.mktemp("model")
    LlamaForCausalLM(config).save_pretrained(folder)
    return Job("transformers", str(folder))


def failed(job: Job) -> dict[str, list[str]]:
    rows = conform(job, tuple(CASES), lambda row: None)
    return {row["case"]: row["wrong"] for row in rows if not row["passed"]}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_round_trip_passes_where_nothing_is_wrong(job: Job, dtype: str) -> None:
    assert failed(replace(job, dtype=dtype)) == {}


@pytest.mark.parametrize(
    ("planted", "cases"),
    [
        ("layout", {"hit", "reloaded", "transferred", "shared-in-part"}),
        ("table", {"hit", "reloaded", "transferred", "shared-in-part"}),
        ("dtype", {"other-dtype"}),
        ("version", {"other-version"}),
    ],
)
def test_planted_faults_are_found_in_the_round_trips_that_meet_them(
    job: Job, planted: str, cases: set[str]
) -> None:
    found = failed(replace(job, planted=planted))
    assert cases <= set(found)
    assert planted in ("layout", "table") or set(found) == cases
    assert all("reused blocks" in " ".join(found[case]) for case in cases)


def test_a_failure_comes_with_the_command_that_repeats_it(job: Job) -> None:
    (row,) = conform(replace(job, planted="table"), ("hit",), lambda row: None)
    said = line(row)
    assert "--engine transformers --case hit --dtype float32 --block 16 --planted table" in said


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"engine": "vlm"}, "vllm"),
        ({"dtypes": ["float8"]}, "float8"),
        ({"engine": "vllm", "planted": "table"}, "only"),
        ({"engine": "llama.cpp", "model": "none.gguf"}, "GGUF"),
    ],
)
def test_wrong_requests_are_said_in_one_line(given: dict[str, object], says: str) -> None:
    usual: dict[str, object] = {"engine": "transformers", "connector": "", "model": "", "dtypes": []}
    asked = {**usual, "blocks": [], "names": [], "planted": "", **given}
    with pytest.raises(UserError, match=says):
        list(jobs(**asked))  # type: ignore[arg-type]
