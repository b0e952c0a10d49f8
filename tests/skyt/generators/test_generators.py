from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from homeostat.core.errors import UserError
from homeostat.core.models import ModelConfig
from skyt.generators.base import Failure, Generator, Output, Request, sample_seed
from skyt.generators.function import Function
from skyt.generators.local import LocalGenerator, LocalModel
from skyt.generators.openai import Endpoint, OpenAIGenerator
from skyt.generators.recorded import BrokenLine, RecordedGenerator, read_generations
from skyt.runs.generate import CellJob, collect, collect_cell


def requests(n: int, temperature: float = 0.7) -> list[Request]:
    seeds = [sample_seed(0, "gcd", "m", temperature, i) for i in range(n)]
    return [Request(i, "gcd", f"prompt {i}", temperature, i, seed) for i, seed in enumerate(seeds)]


def answers(generator: Generator, todo: Sequence[Request]) -> dict[int, Output | Failure]:
    async def gather() -> list[Output | Failure]:
        return [result async for result in generator.generate(todo)]

    results = asyncio.run(gather())
    assert sorted(result.request.number for result in results) == [request.number for request in todo]
    return {result.request.number: result for result in results}


class Misbehaving(BaseHTTPRequestHandler):
    """Answers `prompt N` by the N-th plan: a list of behaviours, one a visit; the last one repeats."""

    plans: dict[str, list[str]]
    visits: Counter[str]
    bodies: list[dict[str, Any]]
    keys: set[str | None]
    lock: threading.Lock
    at_once: int
    most_at_once: int

    def do_POST(self) -> None:
        cls = type(self)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = body["messages"][-1]["content"]
        with cls.lock:
            cls.at_once += 1
            cls.most_at_once = max(cls.most_at_once, cls.at_once)
            visit = cls.visits[prompt]
            cls.visits[prompt] += 1
            cls.bodies.append(body)
            cls.keys.add(self.headers.get("authorization"))
        plan = cls.plans.get(prompt, ["ok"])
        try:
            self._behave(plan[min(visit, len(plan) - 1)], prompt)
        finally:
            with cls.lock:
                cls.at_once -= 1

    def _behave(self, how: str, prompt: str) -> None:
        good = json.dumps({"choices": [{"message": {"role": "assistant", "content": f"answer to {prompt}"}}]})
        if how == "ok":
            self._send(200, good)
        elif how == "429":
            self._send(429, "slow down", {"Retry-After": "0.05"})
        elif how == "slow":
            threading.Event().wait(1.2)
            self._send(200, good)
        elif how == "truncated":
            self._send(200, good[: len(good) // 2])
        elif how == "hang up":
            self.send_response(200)
            self.send_header("content-length", str(len(good)))
            self.end_headers()
            self.wfile.write(good[:10].encode())
        elif how == "schema":
            self._send(200, '{"result": "wrong shape"}')
        elif how == "null":
            self._send(200, '{"choices": [{"message": {"content": null}}]}')
        else:
            self._send(int(how), "no")

    def _send(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        data = text.encode()
        try:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # the client gave up waiting
            pass

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    fresh = {"plans": {}, "visits": Counter(), "bodies": [], "keys": set(), "lock": threading.Lock()}
    Handler = type("Handler", (Misbehaving,), {**fresh, "at_once": 0, "most_at_once": 0})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    Handler.base_url = f"http://127.0.0.1:{httpd.server_port}/v1"
    yield Handler
    httpd.shutdown()
    httpd.server_close()


def endpoint(server: Any, **changes: Any) -> Endpoint:
    settings = {
        "kind": "openai",
        "name": "m",
        "base_url": server.base_url,
        "api_key_env": None,
        "timeout_s": 0.6,
        "backoff_s": 0.01,
        "retries": 3,
        **changes,
    }
    return Endpoint(OpenAIGenerator.model_validate(settings))


def test_what_may_pass_is_tried_again_and_every_request_is_answered_once(server: Any) -> None:
    server.plans = {
        "prompt 1": ["429", "ok"],
        "prompt 2": ["500", "503", "ok"],
        "prompt 3": ["slow", "ok"],
        "prompt 4": ["truncated", "ok"],
        "prompt 5": ["schema", "ok"],
        "prompt 6": ["hang up", "ok"],
        "prompt 7": ["null", "ok"],
    }
    found = answers(endpoint(server), requests(9))
    assert [found[i] for i in range(9)] == [
        Output(request, f"answer to prompt {request.number}") for request in requests(9)
    ]
    assert server.visits["prompt 2"] == 3
    assert server.visits["prompt 8"] == 1


def test_what_will_not_pass_is_reported_at_once_and_endless_trouble_after_the_last_attempt(
    server: Any,
) -> None:
    server.plans = {"prompt 0": ["400"], "prompt 1": ["500"], "prompt 2": ["schema"]}
    found = answers(endpoint(server), requests(4))
    failures = [found[i] for i in range(3)]
    assert all(isinstance(failure, Failure) for failure in failures)
    assert "HTTP 400" in failures[0].error  # type: ignore[union-attr]
    assert "4 attempts: HTTP 500" in failures[1].error  # type: ignore[union-attr]
    assert "choices[0].message.content" in failures[2].error  # type: ignore[union-attr]
    assert (server.visits["prompt 0"], server.visits["prompt 1"]) == (1, 4)
    assert isinstance(found[3], Output)


def test_the_request_carries_temperature_seed_and_key_and_the_limit_holds(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-test")
    answers(endpoint(server, api_key_env="TEST_KEY", concurrency=2, timeout_s=20), requests(12, 0.3))
    assert server.keys == {"Bearer sk-test"}
    assert {body["temperature"] for body in server.bodies} == {0.3}
    assert {body["seed"] for body in server.bodies} == {request.seed for request in requests(12, 0.3)}
    assert server.most_at_once <= 2
    monkeypatch.delenv("TEST_KEY")
    with pytest.raises(UserError, match="TEST_KEY is not set"):
        endpoint(server, base_url="https://model.example/v1", api_key_env="TEST_KEY")
    endpoint(server, api_key_env="TEST_KEY")  # on this machine no key is needed


def test_a_server_that_is_not_there_is_reported(server: Any) -> None:
    gone = endpoint(server, base_url="http://127.0.0.1:9/v1", retries=1)
    (failure,) = answers(gone, requests(1)).values()
    assert isinstance(failure, Failure)
    assert "ConnectError" in failure.error


def test_a_sample_on_record_is_not_paid_for_twice(server: Any, tmp_path: Path) -> None:
    server.plans = {"the prompt": ["ok", "ok", "400"]}
    job = CellJob(
        path=tmp_path / "cell.jsonl",
        generator=endpoint(server, concurrency=1, timeout_s=20)._config,
        contract_id="gcd",
        prompt="the prompt",
        temperature=0.5,
        n=5,
        seed=0,
    )
    item = job.model_dump(mode="json")
    assert len(collect_cell(item)) == 3  # two answered, three refused
    with (tmp_path / "cell.jsonl").open("a") as file:
        file.write('{"sample": 2, "te')  # a process died here
    server.plans = {}
    assert collect_cell(item) == []
    assert collect_cell(item) == []
    assert server.visits["the prompt"] == 5 + 3
    assert [row.sample for row in job.generations()] == [0, 1, 2, 3, 4]


def test_any_callable_is_a_generator_and_its_mistakes_are_reported() -> None:
    def moody(prompt: str) -> Any:
        if prompt == "prompt 1":
            raise ValueError("not today")
        return 3 if prompt == "prompt 2" else prompt.upper()

    found = answers(Function(moody, concurrency=3), requests(4))
    assert found[0] == Output(requests(4)[0], "PROMPT 0")
    assert found[1] == Failure(requests(4)[1], "ValueError: not today")
    assert found[2] == Failure(requests(4)[2], "the function returned int, not str")
    with pytest.raises(UserError, match="not callable"):
        Function("text")


ROW = {"contract_id": "gcd", "model": "m", "temperature": 0.7, "sample": 0, "raw_output": "x"}


def test_recorded_rows_answer_their_cell_in_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [
        {**ROW, "sample": 5, "raw_output": "a"},
        {**ROW, "model": "other"},
        {**ROW, "raw_output": "b", "extra": 1},
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    recorded = RecordedGenerator(kind="recorded", name="m", file=str(path)).make()
    found = answers(recorded, requests(3))
    assert [r.text for r in found.values() if isinstance(r, Output)] == ["a", "b"]
    assert isinstance(found[2], Failure)


BROKEN_LINES = {
    "not json": b"{nope",
    "not an object": b"[1, 2]",
    "missing field": json.dumps({k: v for k, v in ROW.items() if k != "model"}).encode(),
    "wrong type": json.dumps({**ROW, "raw_output": 3}).encode(),
    "boolean temperature": json.dumps({**ROW, "temperature": True}).encode(),
    "negative sample": json.dumps({**ROW, "sample": -1}).encode(),
    "not utf-8": b'{"contract_id": "\xff"}',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("name", BROKEN_LINES)
@pytest.mark.parametrize("compressed", [True, False])
def test_a_broken_line_costs_that_line_and_keeps_its_number(
    tmp_path: Path, name: str, compressed: bool
) -> None:
    good = json.dumps(ROW).encode()
    data = b"\n".join([good, b"", BROKEN_LINES[name], good, b""])
    path = tmp_path / ("rows.jsonl.gz" if compressed else "rows.jsonl")
    path.write_bytes(gzip.compress(data) if compressed else data)
    rows = list(read_generations(path))
    assert [number for number, _ in rows] == [1, 3, 4]
    assert isinstance(rows[1][1], BrokenLine)
    assert rows[1][1].number == 3


def test_a_cut_gzip_file_gives_what_is_readable_and_says_where_it_ends(tmp_path: Path) -> None:
    import random

    rng = random.Random(0)
    lines = [json.dumps({**ROW, "raw_output": str(rng.random())}) for _ in range(500)]
    data = gzip.compress(("\n".join(lines) + "\n").encode())
    (tmp_path / "cut.jsonl.gz").write_bytes(data[: len(data) // 2])
    rows = [row for _, row in read_generations(tmp_path / "cut.jsonl.gz")]
    assert isinstance(rows[-1], BrokenLine)
    assert "damaged" in rows[-1].problem
    with pytest.raises(UserError, match="no such file"):
        list(read_generations(tmp_path / "none.jsonl"))


class _Words:
    """A tokenizer of one token a character, enough for a random model."""

    pad_token_id = 0
    chat_template = None

    def __call__(self, text: str, return_tensors: str) -> dict[str, Any]:
        import torch

        return {"input_ids": torch.tensor([[3 + ord(c) % 250 for c in text]])}

    def batch_decode(self, ids: Any, skip_special_tokens: bool) -> list[str]:
        return [" ".join(str(int(i)) for i in row if int(i) not in (0, 2)) for row in ids]


def local(model: Any, tokenizer: Any, batch_size: int, tokens: int = 12) -> LocalModel:
    config = LocalGenerator(max_new_tokens=tokens, batch_size=batch_size)
    return LocalModel(config, model, tokenizer)


def test_local_samples_do_not_depend_on_batch_size_or_neighbours(tiny_llama: Any) -> None:
    todo = [Request(i, "gcd", "prompt", 1.0, i, sample_seed(0, "gcd", "m", 1.0, i)) for i in range(6)]
    texts = [answers(local(tiny_llama, _Words(), size), todo) for size in (1, 4, 6)]
    assert texts[0] == texts[1] == texts[2]
    assert len({r.text for r in texts[0].values() if isinstance(r, Output)}) > 1
    assert answers(local(tiny_llama, _Words(), 2), todo[3:5]) == {i: texts[0][i] for i in (3, 4)}


def test_local_sampling_follows_the_softmax_and_temperature_zero_is_greedy() -> None:
    import torch

    from skyt.generators.local import GumbelSampling

    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0]]).repeat(4000, 1)
    sampled = GumbelSampling(range(4000), 0.8, 1.0)(logits, logits.clone()).argmax(-1)
    shares = torch.bincount(sampled, minlength=4) / 4000
    assert torch.allclose(shares, torch.softmax(logits[0] / 0.8, -1), atol=0.03)
    nucleus = GumbelSampling(range(4000), 0.8, 0.6)(logits, logits.clone()).argmax(-1)
    assert set(nucleus.tolist()) == {2}
    assert torch.equal(GumbelSampling([0], 0.0, 1.0)(logits[:1], logits[:1]), logits[:1])


@pytest.mark.model
def test_the_default_model_answers_in_its_chat_format_and_repeats_itself(
    default_model: tuple[Any, Any],
) -> None:
    model, tokenizer = default_model
    todo = [
        Request(i, "gcd", "Write a Python function gcd(a, b).", 0.7, i, sample_seed(0, "gcd", "m", 0.7, i))
        for i in range(2)
    ]
    first = answers(local(model, tokenizer, 2, tokens=24), todo)
    assert answers(local(model, tokenizer, 1, tokens=24), todo) == first
    assert any("def" in r.text or "python" in r.text.lower() for r in first.values() if isinstance(r, Output))


def test_a_prompt_too_long_for_the_model_is_refused(tiny_llama: Any) -> None:
    request = Request(0, "gcd", "x" * 600, 1.0, 0, 1)
    with pytest.raises(UserError, match=r"600 tokens.*512 positions"):
        answers(local(tiny_llama, _Words(), 1), [request])


def test_collect_keeps_outputs_in_sample_order_whatever_order_they_came_in(tmp_path: Path) -> None:
    class Backwards:
        name = "m"

        async def generate(self, todo: Sequence[Request]) -> Any:
            for request in reversed(todo):
                yield Output(request, f"text {request.sample} \ud800")

    job = CellJob(
        path=tmp_path / "c.jsonl", generator=LocalGenerator(model=ModelConfig(name="m")), contract_id="gcd",
        prompt="p", temperature=0.0, n=3, seed=0,
    )  # fmt: skip
    assert collect(job, Backwards()) == []
    assert [row.raw_output for row in job.generations()] == [f"text {i} \ud800" for i in range(3)]
