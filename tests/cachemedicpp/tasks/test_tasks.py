"""Tasks against naive scorers written here with plain transformers."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cachemedicpp.eval.grid import CLEAN, evaluate_example, prefill
from cachemedicpp.repair.defences import Defence
from cachemedicpp.tasks import build_tasks
from cachemedicpp.tasks.sst2 import PROMPT, Sst2Task, label_logprobs
from cachemedicpp.tasks.wikitext2 import Wikitext2Task, strided_windows
from homeostat.core.errors import UserError


def _by_name(setup: Any) -> dict[str, Any]:
    return {task.name: task for task in setup.tasks}


def test_windows_are_strided_full_and_in_order() -> None:
    assert strided_windows(range(10), 4, None) == [(0, (0, 1, 2, 3)), (4, (4, 5, 6, 7))]
    assert [at for at, _ in strided_windows(range(10), 4, 3)] == [0, 3, 6]
    assert strided_windows(range(3), 4, None) == []


def _strided_perplexity(model: Any, windows: list[tuple[int, ...]], scored: int) -> float:
    """Independent of the package: one full forward per window, the last `scored` tokens counted."""
    total, count = 0.0, 0
    with torch.no_grad():
        for window in windows:
            logits = model(torch.tensor([window])).logits[0, :-1].double()
            logprob = logits.log_softmax(-1).gather(-1, torch.tensor(window[1:])[:, None])[:, 0]
            total += float(logprob[-scored:].sum())
            count += scored
    return math.exp(-total / count)


def test_clean_perplexity_equals_an_independent_strided_computation(
    small_setup: Callable[..., Any], tiny_llama: Any
) -> None:
    setup = small_setup()
    task = _by_name(setup)["wikitext2"]
    total = count = 0.0
    for example in task.examples:
        found = evaluate_example(tiny_llama, setup.family, task, example, [CLEAN], [Defence()], 1)
        total += found["scores"]["none"][0]["value"]
        count += found["scores"]["none"][0]["count"]
    windows = [(*e.stored, *e.query[:1], *e.target) for e in task.examples]
    assert all(len(w) == setup.config.eval.max_seq_len for w in windows)
    naive = _strided_perplexity(tiny_llama, windows, scored=8)
    assert math.exp(-total / count) == pytest.approx(naive, rel=1e-4)


def test_label_logprobs_sum_over_tokens_and_equal_one_label_at_a_time(tiny_llama: Any) -> None:
    prompt, labels = (5, 6, 7, 8, 9), ((10,), (11, 12, 13))
    cache = prefill(tiny_llama, prompt[:-1]).repeat(3).cache()
    with torch.no_grad():
        found = label_logprobs(tiny_llama, prompt[-1:], labels, cache, forks=3)
        for column, label in enumerate(labels):
            logits = tiny_llama(torch.tensor([[*prompt, *label]])).logits[0].log_softmax(-1)
            naive = sum(float(logits[len(prompt) - 1 + i, token]) for i, token in enumerate(label))
            assert found[:, column].tolist() == pytest.approx([naive] * 3, abs=1e-4)


def test_prompts_are_the_protocols(small_setup: Callable[..., Any], byte_tokenizer: Any) -> None:
    task = _by_name(small_setup())["sst2"]
    ids = (*task.examples[0].stored, *task.examples[0].query)
    text = bytes(ids).decode()
    assert text.startswith("Review: ")
    assert text.endswith("\nSentiment:")
    assert PROMPT == "Review: {x}\nSentiment:"


def test_the_needle_is_old_only_whatever_the_time_mode_and_is_never_cut(
    small_setup: Callable[..., Any],
) -> None:
    setup = small_setup(corruption__axes__time_mode="all_past", eval__max_seq_len=72)
    task = _by_name(setup)["needle"]
    assert task.axes.time_mode == "old_only"
    for example in task.examples:
        assert len(example.stored) + 1 > 72, "the prompt is longer than eval.max_seq_len and stays whole"
        assert f"NEEDLE: the_key = {example.target}.".encode() in bytes(example.stored)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"data__long_context__context_len": 600}, "the model has 512"),
        ({"eval__max_seq_len": 600}, "the model has 512"),
        ({"data__wikitext2__score_len": 71}, "no prefix left"),
        ({"data__long_context__max_new_tokens": 2}, "more than max_new_tokens"),
        ({"eval__corruption_eval__types": ["gausian"]}, "did you mean 'gaussian'"),
        ({"stability__layers": [7]}, "the model has 3 layers"),
        ({"stability__head_subset": [2]}, "2 KV heads"),
        ({"stability__prompt_len": 16, "corruption__axes__N_recent": 16}, "longer prompts"),
        ({"repair__protect_layers": [5]}, "the model has 3 layers"),
    ],
)
def test_bad_settings_are_refused_before_any_long_work(
    small_setup: Callable[..., Any], changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        small_setup(**changes)


def test_an_unknown_task_is_refused(small_config: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="unknown task 'wikitex2'; did you mean 'wikitext2'"):
        small_config(eval__tasks=["wikitex2"])


def _naive_prediction(model: Any, tokenizer: Any, text: str, labels: tuple[str, str]) -> int:
    """One example at a time, full forwards; labels that need the same context share it."""
    prompt = tokenizer(f"Review: {text}\nSentiment:")["input_ids"]
    scores, seen = [], {}
    for label in labels:
        tokens = tokenizer(label, add_special_tokens=False)["input_ids"]
        context = (*prompt, *tokens[:-1])
        if context not in seen:
            with torch.no_grad():
                seen[context] = model(torch.tensor([context])).logits[0].log_softmax(-1)
        scores.append(sum(float(seen[context][len(prompt) - 1 + i, t]) for i, t in enumerate(tokens)))
    return int(scores[1] > scores[0])


@pytest.mark.model
@pytest.mark.timeout(900)
def test_on_the_default_model_tasks_equal_naive_scorers_and_clean_scores_are_high(
    default_model: tuple[Any, Any], shared_data: Path, small_config: Callable[..., Any]
) -> None:
    model, tokenizer = default_model
    config = small_config(
        data__use_offline=False,
        data__wikitext2={
            "path": str(shared_data / "wikitext2" / "test.txt"),
            "num_sequences": 4,
            "score_len": 32,
        },
        data__sst2={"path": str(shared_data / "sst2" / "dev.tsv"), "num_examples": 50},
        data__long_context={"num_examples": 5, "context_len": 256},
        eval__max_seq_len=96,
    )
    wikitext, sst2, needle = build_tasks(config, model, tokenizer)
    assert isinstance(wikitext, Wikitext2Task)
    assert isinstance(sst2, Sst2Task)

    def clean(task: Any, example: Any) -> Any:
        with torch.no_grad():
            return task.score(model, example, prefill(model, example.stored).cache(), 1)[0]

    scores = [clean(wikitext, e) for e in wikitext.examples]
    ours = math.exp(-sum(s.value for s in scores) / sum(s.count for s in scores))
    windows = [(*e.stored, *e.query[:1], *e.target) for e in wikitext.examples]
    assert ours == pytest.approx(_strided_perplexity(model, windows, scored=32), rel=1e-4)

    right = 0
    for example in sst2.examples:
        score = clean(sst2, example)
        text = tokenizer.decode([*example.stored, *example.query])
        review = text.removeprefix("Review: ").removesuffix("\nSentiment:")
        predicted = int(score.detail["margin"] > 0)
        assert predicted == _naive_prediction(model, tokenizer, review, (" negative", " positive"))
        right += int(score.value)
    assert right / len(sst2.examples) > 0.6

    assert sum(clean(needle, e).value for e in needle.examples) / len(needle.examples) >= 0.8
