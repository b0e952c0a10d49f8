"""The harness's model `homeostat`: without damage the harness's own `hf`, with damage something else.

Runs where lm-evaluation-harness is installed: `make test-lm-eval`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

lm_eval = pytest.importorskip(
    "lm_eval", reason="lm-evaluation-harness is not installed; `make test-lm-eval` installs it and runs this"
)

CONTEXT = "Birds sing in the tall trees of the old park every morning, and the people of the town listen."
ROWS = [
    {
        "context": f"{CONTEXT} Number {i} says",
        "answer": f" word{i}",
        "choices": [" yes", " no", " perhaps so"],
    }
    for i in range(4)
]
TASKS = {
    "local_likelihood": {"output_type": "loglikelihood", "doc_to_target": "{{answer}}"},
    "local_choice": {
        "output_type": "multiple_choice",
        "doc_to_target": 0,
        "doc_to_choice": "{{choices}}",
        "metric_list": [{"metric": "acc"}],
    },
    "local_generation": {
        "output_type": "generate_until",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 8},
        "metric_list": [{"metric": "exact_match"}],
    },
    "local_rolling": {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{context}}",
        "metric_list": [{"metric": "word_perplexity"}],
    },
}


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tiny_llama: Any) -> str:
    """The tiny Llama as a folder, with a tokenizer of one token per byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("lm_eval_model")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())[:253]
    vocabulary = {t: i for i, t in enumerate(["<pad>", "<bos>", "<eos>", *alphabet])}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>"
    )
    tiny_llama.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory: pytest.TempPathFactory, model_folder: str) -> Any:
    """Run the local tasks with a model of the harness; returns results and samples by task."""
    from lm_eval.tasks import TaskManager

    import cachemedicpp.eval.harness  # noqa: F401

    folder = tmp_path_factory.mktemp("lm_eval_tasks")
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    for name, task in TASKS.items():
        body = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(data)}},
            "test_split": "test",
            "doc_to_text": "{{context}}",
            **task,
        }
        (folder / f"{name}.yaml").write_text(json.dumps(body), encoding="utf-8")
    manager = TaskManager(include_path=str(folder), include_defaults=False)

    def run(model: str, tasks: list[str] | None = None, **options: Any) -> dict[str, list[Any]]:
        found = lm_eval.simple_evaluate(
            model=model,
            model_args={"pretrained": model_folder, "dtype": "float32", **options},
            tasks=tasks or list(TASKS),
            task_manager=manager,
            batch_size=4,
            device="cpu",
            bootstrap_iters=0,
            cache_requests=False,
        )
        return {name: [s["filtered_resps"] for s in samples] for name, samples in found["samples"].items()}

    return run


@pytest.fixture(scope="module")
def plain(evaluate: Any) -> Any:
    return evaluate("homeostat")


def _numbers(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in _numbers(part)]
    return [float(value)] if not isinstance(value, str) else [value]


def test_without_damage_every_kind_of_task_scores_as_with_the_harness_own_model(
    evaluate: Any, plain: Any
) -> None:
    theirs = evaluate("hf")
    assert theirs["local_generation"] == plain["local_generation"]
    for name in ("local_likelihood", "local_choice", "local_rolling"):
        assert _numbers(plain[name]) == pytest.approx(_numbers(theirs[name]), rel=1e-4)


def test_damage_changes_every_kind_of_task_and_the_guard_takes_it_back(evaluate: Any, plain: Any) -> None:
    damage = {"corruption": "gaussian", "epsilon": 4.0}
    damaged = evaluate("homeostat", **damage)
    guarded = evaluate("homeostat", **damage, repair="guard")
    for name in TASKS:
        assert damaged[name] != plain[name], name
        if name == "local_generation":
            assert guarded[name] == plain[name]
        else:
            assert _numbers(guarded[name]) == pytest.approx(_numbers(plain[name]), rel=1e-4), name


def test_the_same_damage_every_time_and_in_any_batch(evaluate: Any) -> None:
    tasks = ["local_choice"]
    found = [evaluate("homeostat", tasks, corruption="mixture", seed=s) for s in (1, 1, 2)]
    assert _numbers(found[0]["local_choice"]) == pytest.approx(_numbers(found[1]["local_choice"]))
    assert _numbers(found[0]["local_choice"]) != pytest.approx(_numbers(found[2]["local_choice"]))


def test_contexts_that_cannot_be_damaged_are_counted_aloud(
    evaluate: Any, plain: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    found = evaluate("homeostat", ["local_choice"], corruption="gaussian", epsilon=4.0, n_recent=400)
    assert "4 of 4 contexts had nothing that could be damaged" in capsys.readouterr().err
    assert _numbers(found["local_choice"]) == pytest.approx(_numbers(plain["local_choice"]), rel=1e-4)


def test_the_command_line_of_the_harness_knows_the_model(model_folder: str, tmp_path: Path) -> None:
    from lm_eval.api.registry import get_model

    from cachemedicpp.eval.harness import DamagedLM

    assert get_model("homeostat") is DamagedLM
