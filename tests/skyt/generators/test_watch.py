"""Samples are handed out as they end, work under way is told, and a batch stops when it is told to."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from skyt.generators.base import Output
from skyt.generators.watch import Watch

END, PAD = 2, 0


def run(watch: Watch, rows: list[list[int]], prompt: int = 1) -> list[list[bool]]:
    """Feed a batch token by token, as `generate` does; what the criterion said at each step."""
    ids = torch.full((len(rows), prompt), 9)
    said = []
    for column in zip(*rows, strict=True):
        ids = torch.cat([ids, torch.tensor(column)[:, None]], dim=1)
        said.append(watch(ids, None).tolist())
        if all(said[-1]):
            break
    return said


def test_each_sample_is_handed_out_once_when_it_ends() -> None:
    ended: list[tuple[int, list[int]]] = []
    far: list[float] = []
    watch = Watch(1, 4, frozenset({END}), lambda row, t: ended.append((row, t.tolist())), far.append)
    rows = [[5, END, PAD, PAD], [5, 6, 7, 8], [END, END, PAD, PAD]]
    run(watch, rows)
    assert ended == [(2, [END]), (0, [5, END])]
    assert far == [2 * 1 / 4, 1 * 2 / 4, 1 * 3 / 4, 1 * 4 / 4]
    watch.finish(torch.tensor(rows))
    assert ended[-1] == (1, [5, 6, 7, 8]) and len(ended) == 3


def test_another_criterion_ends_samples_too() -> None:
    class Sevens:
        def __call__(self, ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
            return ids[:, -1] == 7

    ended: list[int] = []
    watch = Watch(1, 3, frozenset({END}), lambda row, _: ended.append(row), also=Sevens())  # type: ignore[arg-type]
    assert run(watch, [[5, 7], [5, 6]]) == [[False, False], [True, False]] and ended == [0]


def test_a_stopped_batch_ends_with_its_next_token_and_hands_out_nothing_unfinished() -> None:
    stop, ended = threading.Event(), list[int]()
    watch = Watch(1, 4, frozenset({END}), lambda row, _: ended.append(row), stop=stop)
    stop.set()
    assert run(watch, [[5, 6, 7], [5, 6, 7]]) == [[True, True]]
    watch.finish(torch.tensor([[5], [5]]))
    assert ended == []


def test_a_local_model_yields_samples_before_their_batch_is_done_and_stops_when_left(
    tiny_llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skyt.generators.base import Request
    from skyt.generators.local import LocalGenerator, LocalModel

    config = LocalGenerator(max_new_tokens=12, batch_size=4)
    model = LocalModel(config, tiny_llama, None)
    batches: list[int] = []

    def sample(batch: list[Request], hand_out: Any, stop: threading.Event) -> None:
        batches.append(len(batch))
        hand_out(Output(batch[2], "early"))
        assert stop.wait(30), "nobody stopped the batch"
        hand_out(None)

    monkeypatch.setattr(model, "_sample", sample)
    requests = [Request(n, "gcd", "p", 0.7, n, n) for n in range(4)]

    async def first() -> str:
        outputs = model.generate(requests)
        async for output in outputs:
            await outputs.aclose()
            return output.text  # type: ignore[union-attr]
        raise AssertionError("no output")

    assert asyncio.run(first()) == "early" and batches == [4]


def test_samples_are_collected_where_an_event_loop_runs_already_as_in_a_notebook(tmp_path: Path) -> None:
    from skyt.generators.function import CallableGenerator, Function
    from skyt.runs.generate import CellJob, collect

    config = CallableGenerator(kind="callable", target="m:f")
    job = CellJob(
        path=tmp_path / "kept.jsonl",
        generator=config,
        contract_id="gcd",
        prompt="p",
        temperature=0.7,
        n=3,
        seed=0,
    )

    async def cell() -> list[str]:
        return collect(job, Function(lambda prompt: "text", name=config.name))

    assert asyncio.run(cell()) == [] and len(job.generations()) == 3
