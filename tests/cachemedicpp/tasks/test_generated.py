"""Generated tasks: seeded, full to their length, right by construction, and asking for what is old."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cachemedicpp.cache.prefill import prefill
from cachemedicpp.tasks import TASKS
from cachemedicpp.tasks.base import within_reach
from cachemedicpp.tasks.config import MedicConfig
from cachemedicpp.tasks.wikitext2 import stride_for
from homeostat.core.errors import UserError

CHOICES = ("multikey", "tracking", "fewshot")


class Words:
    """A tokenizer with 180 words, one token each, for a model with 256 tokens."""

    chat_template = None

    def __len__(self) -> int:
        return 200

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        return {"input_ids": []}

    def decode(self, ids: list[int]) -> str:
        a, b = divmod(ids[0], 26)
        return f" word{chr(97 + a)}{chr(97 + b)}" if ids[0] >= 20 else "#"


def small(config: Callable[..., Any], name: str, **changes: Any) -> Any:
    wanted = {"num_examples": 4, "context_len": 500, **changes}
    return config(eval__tasks=[name], **{f"data__{name}": wanted})


@pytest.mark.parametrize("name", CHOICES)
def test_prompts_are_seeded_and_the_right_choice_is_what_the_prompt_says(
    name: str, small_config: Callable[..., Any], tiny_llama: Any, byte_tokenizer: Any
) -> None:
    config = small(small_config, name)
    task = TASKS[name].build(config, tiny_llama, byte_tokenizer)
    again = TASKS[name].build(small(small_config, name), tiny_llama, byte_tokenizer)
    other = TASKS[name].build(small(small_config, name, seed=9), tiny_llama, byte_tokenizer)
    assert task.examples == again.examples and task.examples[0] != other.examples[0]
    for example in task.examples:
        text = bytes((*example.stored, *example.query)).decode("latin-1")
        right, choices = example.target
        answer = bytes(choices[right]).decode("latin-1").strip()
        assert len({*choices}) == len(choices)
        assert 480 <= len(example.stored) + 1 <= 500 or name == "fewshot"  # the filler ends with a sentence
        if name == "multikey":
            key = text.rpartition("code word of the ")[2].removesuffix(" is")
            assert f"The code word of the {key} is {answer}." in text
            assert text.count("The code word of the") == len(choices) + 1
        elif name == "tracking":
            owner = text.rpartition(" Now ")[2].removesuffix(" has the")
            giver = text.partition(f" gives that box to {owner}.")[0].rpartition(" ")[2]
            assert f"{giver} has the {answer} box." in text and text.count(answer) == 1
        else:
            asked = text.rpartition("\n")[2].removesuffix(":")
            assert f"{asked}: " not in text and f": {answer}\n" in text
            assert f": {answer}" not in text[-config.corruption.axes.N_recent :]
        assert within_reach(example, config.corruption.axes)


@pytest.mark.parametrize("setting", MedicConfig.grows)
def test_more_prompts_leave_those_there_are(
    setting: str, small_config: Callable[..., Any], tiny_llama: Any, byte_tokenizer: Any
) -> None:
    name = setting.split(".")[1]
    tokenizer = Words() if name == "induction" else byte_tokenizer
    wanted = {"context_len": {"induction": 120, "needle_value": 400}.get(name, 500)}
    few, more = (
        TASKS[name].build(small(small_config, name, num_examples=n, **wanted), tiny_llama, tokenizer)
        for n in (2, 5)
    )
    assert few.examples == more.examples[:2] and len(more.examples) == 5


def test_what_has_to_be_remembered_is_redrawn_until_damage_can_reach_it(
    small_config: Callable[..., Any], tiny_llama: Any, byte_tokenizer: Any
) -> None:
    wide = {"corruption__axes": {"head_mode": "all", "N_recent": 200}}
    for name in ("multikey", "needle"):
        wanted = {"num_examples": 4, "context_len": 500, "max_new_tokens": 9}
        data = {"long_context": {**wanted, "depths": [0.2, 0.9]}, "multikey": {"context_len": 500, "keys": 3}}
        config = small_config(data=data, **wide)
        task = TASKS[name].build(config, tiny_llama, byte_tokenizer)
        assert all(within_reach(example, task.axes) for example in task.examples)
        assert task.examples[0].focus is not None
    never = {"corruption__axes": {"head_mode": "all", "N_recent": 470}}
    with pytest.raises(UserError, match="never stood wholly before the last N_recent = 470"):
        TASKS["multikey"].build(small_config(data=data, **never), tiny_llama, byte_tokenizer)


@pytest.mark.parametrize("name", CHOICES)
def test_every_fork_is_scored_and_equals_a_plain_forward(
    name: str, small_config: Callable[..., Any], tiny_llama: Any, byte_tokenizer: Any
) -> None:
    task = TASKS[name].build(small(small_config, name, num_examples=1), tiny_llama, byte_tokenizer)
    example = task.examples[0]
    with torch.no_grad():
        cache = prefill(tiny_llama, example.stored).repeat(2).cache()
        found = task.score(tiny_llama, example, cache, 2)
        right, choices = example.target
        plain = []
        for choice in choices:
            ids = (*example.stored, *example.query, *choice)
            logprob = tiny_llama(torch.tensor([ids])).logits[0].log_softmax(-1)
            places = range(len(ids) - len(choice) - 1, len(ids) - 1)
            plain.append(float(sum(logprob[at, ids[at + 1]] for at in places)) / len(choice))
    for score in found:
        assert score.detail["logprobs"] == pytest.approx(plain, abs=1e-3)
        assert score.value == float(plain.index(max(plain)) == right)


def test_copied_words_stand_in_the_list_and_are_distinct(
    small_config: Callable[..., Any], tiny_llama: Any
) -> None:
    config = small(small_config, "induction", context_len=90, score_len=5)
    task = TASKS["induction"].build(config, tiny_llama, Words())
    for example in task.examples:
        whole = (*example.stored, *example.query, *example.target[-1:])
        assert len(whole) == 90 and len(example.query) == len(example.target) == 5
        listed = whole[: 90 - 13]
        assert len(set(listed)) == len(listed)
        at = listed.index(example.target[0])
        assert listed[at : at + 5] == example.target and at == example.focus
        assert within_reach(example, config.corruption.axes)
    with torch.no_grad():
        cache = prefill(tiny_llama, task.examples[0].stored).repeat(3).cache()
        assert [s.count for s in task.score(tiny_llama, task.examples[0], cache, 3)] == [5, 5, 5]
    with pytest.raises(UserError, match="distinct words"):
        TASKS["induction"].build(small(small_config, "induction"), tiny_llama, Words())


def test_windows_overlap_only_where_counts_ask_for_it_and_scored_parts_never_do() -> None:
    assert stride_for(1000, 100, 5, 10) == 100
    assert stride_for(1000, 100, 10, 10) == 100
    assert stride_for(1000, 100, 19, 10) == 50  # (1000 - 100) / 18
    assert stride_for(1000, 100, 5000, 10) == 10


def test_counts_that_fall_short_are_told(
    small_config: Callable[..., Any], tiny_llama: Any, byte_tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = small_config(
        data__wikitext2={"num_sequences": 10**6, "score_len": 40}, data__sst2={"num_examples": 10**5}
    )
    for name in ("wikitext2", "sst2"):
        task = TASKS[name].build(wanted, tiny_llama, byte_tokenizer)
        told = f"task {name} has {len(task.examples)} examples, not the 1000"
        assert told in capsys.readouterr().err
        assert task.settings["asked"] > task.settings["n"] == len(task.examples)
