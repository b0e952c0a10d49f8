"""The needle generator: deterministic, complete, never cut; the answer is extracted as the protocol says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cachemedicpp.tasks.haystack import (
    PREFIX,
    LongContextConfig,
    extract,
    generate,
    matches,
    matches_strictly,
    needle_value,
)
from cachemedicpp.tasks.needle_value import NeedleValueTask
from homeostat.core.errors import UserError

STATEMENT = "NEEDLE: the_key = violet-7."


@given(length=st.integers(200, 900), fraction=st.floats(0, 1), index=st.integers(0, 5))
def test_every_prompt_holds_the_needle_once_and_never_exceeds_its_length(
    byte_tokenizer: Any, length: int, fraction: float, index: int
) -> None:
    config = LongContextConfig(context_len=length, position_frac=fraction)
    prompt = generate(config, byte_tokenizer, seed=0, index=index)
    assert prompt.text.count(f"NEEDLE: the_key = {prompt.answer}.") == 1
    assert prompt.text.startswith(PREFIX)
    assert prompt.text.endswith("Question: What is the_key? Answer:")
    assert length - 11 <= len(prompt.ids) <= length  # a byte is a token: "It rained." takes eleven
    assert prompt.text.rpartition("\n\n")[0].endswith(".")
    assert bytes(prompt.ids[prompt.focus :]).decode("latin-1").strip().startswith("NEEDLE")


def test_depths_and_lengths_are_taken_in_turn(byte_tokenizer: Any) -> None:
    config = LongContextConfig(depths=[0.0, 1.0], lengths=[400, 600])
    made = [generate(config, byte_tokenizer, 0, index) for index in range(4)]
    assert [round(len(prompt.ids), -2) for prompt in made] == [400, 400, 600, 600]
    assert [prompt.focus < 100 for prompt in made] == [True, False, True, False]


def test_the_needle_stands_at_position_frac_of_the_filler(byte_tokenizer: Any) -> None:
    for fraction in (0.0, 0.35, 1.0):
        config = LongContextConfig(context_len=4000, position_frac=fraction)
        text = generate(config, byte_tokenizer, seed=1, index=0).text
        body = text.removeprefix(PREFIX).rpartition("\n\n")[0]
        assert body.index(STATEMENT) / (len(body) - len(STATEMENT)) == pytest.approx(fraction, abs=0.05)


def test_same_seed_same_text_and_other_seeds_or_numbers_differ(byte_tokenizer: Any) -> None:
    config = LongContextConfig(context_len=600)
    first = generate(config, byte_tokenizer, 5, 0)
    assert first == generate(config, byte_tokenizer, 5, 0)
    assert first.text != generate(config, byte_tokenizer, 6, 0).text
    assert first.text != generate(config, byte_tokenizer, 5, 1).text


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("violet-7", True),
        ("  violet-7. ", True),
        ("The_key = violet-7", True),
        ("NEEDLE: the_key = violet-7", True),
        ("The answer is violet-7.", True),
        ("the key: 'Violet-7', as written", True),
        ("violet-7\nviolet-8", False),
        ("violet-7 or violet-8", False),
        ("violet-7, yes: violet-7", True),
        ("violet-7.5", False),
        ("violet\u20117", True),
        ("violet\u20137.", True),
        ("violet-8, not violet-7", False),
        ("not violet-7", False),
        ("It isn't the violet-7", False),
        ("I do not know, but I think it is violet-7", True),
        ("violet-8", False),
        ("violet", False),
        ("The_key = violet-77", False),
        ("ultra-violet-7", False),
        ("violet-7-b", False),
        ("", False),
    ],
)
def test_the_value_counts_wherever_it_stands_unless_another_stands_there_too(
    answer: str, right: bool
) -> None:
    assert matches(answer, "violet-7") is right


def test_strictly_the_answer_is_the_value_whitespace_and_punctuation_aside() -> None:
    assert matches_strictly(" 'violet-7'.\n", "violet-7")
    for answer in ("The_key = violet-7", "violet-7 violet-8", "Violet-7", ""):
        assert not matches_strictly(answer, "violet-7")


def test_a_value_of_two_words_is_extracted_whole() -> None:
    assert extract("the_key = deep violet, I think", "deep violet") == ["deep violet"]


def test_a_template_without_the_needle_token_is_refused() -> None:
    for template in (
        "What is it?",
        "What is {needle}?",
        "What {needle_token} {0}?",
        "What is {needle_token?",
    ):
        with pytest.raises(ValueError, match=r"needle_token|template"):
            LongContextConfig(question_template=template)


def test_a_context_too_short_for_the_needle_is_refused(byte_tokenizer: Any) -> None:
    with pytest.raises(UserError, match="longer context"):
        generate(LongContextConfig(context_len=100), byte_tokenizer, 0, 0)


def test_chat_is_refused_without_a_template(byte_tokenizer: Any) -> None:
    with pytest.raises(UserError, match="no chat template"):
        generate(LongContextConfig(chat=True), byte_tokenizer, 0, 0)


def test_every_example_has_a_value_of_its_own_and_the_first_the_configured_one() -> None:
    config = LongContextConfig()
    values = [needle_value(config, 5, index) for index in range(30)]
    assert values[0] == "violet-7" and len(set(values)) > 15
    assert all(extract(value, "violet-7") == [value] for value in values)


def test_needle_values_are_asked_for_among_values_of_equal_length(
    byte_tokenizer: Any, small_config: Callable[..., Any], tiny_llama: Any
) -> None:
    config = small_config(data__needle_value={"context_len": 400, "num_examples": 6})
    task = NeedleValueTask.build(config, tiny_llama, byte_tokenizer)
    rights = []
    for example in task.examples:
        right, choices = example.target
        rights.append(right)
        assert len(choices) == 6 == len(set(choices)) and len({len(choice) for choice in choices}) == 1
        text, *values = byte_tokenizer.batch_decode([torch.tensor(x) for x in (example.stored, *choices)])
        assert [value.strip() in text for value in values] == [i == right for i in range(6)]
    assert len(set(rights)) > 1
