"""The default model inside the service, asked by the real OpenAI client: nothing changes but `base_url`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from tests.skyt.serve.conftest import running

from skyt.contracts.contract import Contract
from skyt.serve.config import LocalUpstream, ServeConfig
from skyt.serve.database.live import latest
from skyt.serve.service import Service
from skyt.serve.upstream.local import LocalUpstreamModel

MODEL = "smollm2-135m"
ASK: Any = [{"role": "user", "content": "Name one colour."}]


@pytest.fixture(scope="module")
def served(
    default_model: tuple[Any, Any], contracts: dict[str, Contract], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[openai.OpenAI, Service]]:
    config = ServeConfig.model_validate(
        {
            "port": 0,
            "database": str(tmp_path_factory.mktemp("local") / "skyt.sqlite"),
            "judges": 1,
            "upstream": {"kind": "local", "max_waiting": 1, "threads": 1},
        }
    )
    assert isinstance(config.upstream, LocalUpstream)
    service = Service(config, contracts, upstream=LocalUpstreamModel(config.upstream, *default_model))
    with (
        running(service) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120) as client,
    ):
        yield client, service


def test_chat_gives_text_usage_and_the_same_text_for_the_same_seed(
    served: tuple[openai.OpenAI, Service],
) -> None:
    client, _ = served
    first, again = (
        client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=5, seed=3, temperature=0.8)
        for _ in range(2)
    )
    assert first.choices[0].message.content and first.usage and first.usage.completion_tokens <= 5
    assert first.choices[0].message.content == again.choices[0].message.content


def test_a_stream_is_the_same_text_token_by_token(served: tuple[openai.OpenAI, Service]) -> None:
    client, _ = served
    options: Any = {"model": MODEL, "messages": ASK, "max_tokens": 6, "seed": 4}
    whole = client.chat.completions.create(**options).choices[0]
    parts, finish, usage = [], None, None
    for chunk in client.chat.completions.create(
        **options, stream=True, stream_options={"include_usage": True}
    ):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            parts.append(choice.delta.content or "")
            finish = choice.finish_reason or finish
    assert "".join(parts) == whole.message.content and finish == whole.finish_reason
    assert usage is not None and usage.completion_tokens <= 6 and len([p for p in parts if p]) > 1


def test_n_gives_that_many_different_streams_of_chance(served: tuple[openai.OpenAI, Service]) -> None:
    client, _ = served
    answer = client.chat.completions.create(model=MODEL, messages=ASK, n=4, max_tokens=4, temperature=1.5)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert len({choice.message.content for choice in answer.choices}) > 1
    streamed = client.chat.completions.create(model=MODEL, messages=ASK, n=2, max_tokens=2, stream=True)
    assert {choice.index for chunk in streamed for choice in chunk.choices} == {0, 1}


def test_stop_words_and_plain_completions(served: tuple[openai.OpenAI, Service]) -> None:
    client, _ = served
    options: Any = {"model": MODEL, "prompt": "1, 2, 3, 4,", "max_tokens": 8, "temperature": 0}
    free = client.completions.create(**options).choices[0]
    assert "5" in free.text and free.finish_reason == "length"
    cut = client.completions.create(**options, stop=[" 6"]).choices[0]
    assert cut.text == free.text.split(" 6")[0] and cut.finish_reason == "stop"
    streamed = client.completions.create(**options, stop=[" 6"], stream=True)
    assert "".join(choice.text for chunk in streamed for choice in chunk.choices) == cut.text


def test_mistakes_are_the_clients_own_errors(served: tuple[openai.OpenAI, Service]) -> None:
    client, _ = served
    create = client.chat.completions.create
    with pytest.raises(openai.NotFoundError):
        create(model="gpt-4o", messages=ASK)
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model=MODEL, input="x")
    with pytest.raises(openai.BadRequestError, match="positions"):
        create(model=MODEL, messages=ASK, max_tokens=1_000_000)
    with pytest.raises(openai.BadRequestError, match="tools"):
        create(model=MODEL, messages=ASK, tools=[{"type": "function", "function": {"name": "f"}}])
    with pytest.raises(openai.BadRequestError):
        create(model=MODEL, messages=ASK, temperature=-1)


def test_more_requests_than_the_queue_holds_get_429(served: tuple[openai.OpenAI, Service]) -> None:
    client, _ = served
    outcomes: list[str] = []

    def ask() -> None:
        try:
            client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=8)
            outcomes.append("answered")
        except openai.RateLimitError:
            outcomes.append("refused")

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("answered") >= 2 and outcomes.count("refused") >= 1 and len(outcomes) == 6


def test_a_contracts_prompt_is_anchored_and_recorded(served: tuple[openai.OpenAI, Service]) -> None:
    client, service = served
    prompt = service.matcher.contracts["gcd"].prompt
    asked: Any = [{"role": "user", "content": prompt}]
    answer = client.chat.completions.create(
        model=MODEL, messages=asked, n=2, max_tokens=48, seed=1, temperature=0.2
    )
    told = answer.model_dump()["skyt"]
    assert told["contract"] == "gcd" and told["matched_by"] == "prompt" and len(told["samples"]) == 2
    kept = {sample["sample_id"]: sample for sample in latest(service.store, "gcd")}
    for choice, sample in zip(answer.choices, told["samples"], strict=True):
        record = kept[sample["sample_id"]]
        assert record["d_post"] == sample["d_post"] and record["evidence"] == sample["evidence"]
        if not sample["replaced"]:
            assert choice.message.content == record["raw_output"]
