"""What a defence costs: tokens per second, wall time and peak memory, side by side in one run.

Other processes disturb a machine for tenths of a second at a time. So the defences take turns token by token,
in a new random order each time, and throughput compares medians over the same turns.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor

from cachemedicpp.cache.prefill import prefill
from cachemedicpp.repair.defences import Defence, Forks
from homeostat.core.progress import track
from homeostat.core.records import Record
from homeostat.core.stats import paired_bootstrap


def measure_overhead(
    model: Any, ids: Sequence[int], defences: Sequence[Defence], tokens: int, repeats: int
) -> list[Record]:
    """Decode `tokens` after the stored `ids` under every defence, in `repeats` rounds.

    The cache is clean: what is measured is the price of having the defence. `repair_s` is the repair of the
    stored cache, once (median over rounds), `decode_s` is `tokens` times the median token, and `wall_s` their
    sum. `relative_throughput` is `tokens_per_s` over that of no defence, with a paired interval over turns.
    A first round of two tokens, which pays for first use, is not counted.
    """
    clean = prefill(model, ids[:-1])
    order = random.Random(0)
    lengths = [2, *[tokens] * repeats]
    _, *rounds = [_round(model, defences, ids, clean, n, order) for n in track(lengths, "overhead")]
    turns = {d.name: [t for found in rounds for t in found[d.name].turns] for d in defences}
    repair = {d.name: statistics.median(found[d.name].repair for found in rounds) for d in defences}
    records = []
    for defence in defences:
        mine, own = repair[defence.name], turns[defence.name]
        none, base = repair["none"], turns["none"]

        def relative(a: Any, b: Any, axis: int = -1, mine: float = mine, none: float = none) -> Any:
            return (none + tokens * np.median(a, axis=axis)) / (mine + tokens * np.median(b, axis=axis))

        ratio = paired_bootstrap(base, own, relative)
        decode = tokens * statistics.median(own)
        records.append(
            {
                "defence": defence.name,
                "knowledge": defence.knowledge,
                "repair_s": mine,
                "decode_s": decode,
                "wall_s": mine + decode,
                "tokens_per_s": tokens / (mine + decode),
                "relative_throughput": ratio.estimate,
                "relative_throughput_ci": [ratio.low, ratio.high],
                "peak_memory_bytes": _peak(model, defence, ids, clean),
                "memory": "cuda allocated" if model.device.type == "cuda" else "resident set of the process",
                "tokens": tokens,
                "context": len(ids),
                "repeats": repeats,
            }
        )
    return records


@dataclass
class _Way:
    """One defence: its cache, its last token, and the seconds that repair and each token took."""

    defence: Defence
    cache: Any
    token: Tensor
    repair: float = 0.0
    turns: list[float] = field(default_factory=list)


def _round(
    model: Any, defences: Sequence[Defence], ids: Sequence[int], clean: Any, tokens: int, order: random.Random
) -> dict[str, _Way]:
    start = torch.tensor([[ids[-1]]], device=model.device)
    ways = [_Way(defence, clean.cache(), start) for defence in defences]
    with torch.no_grad():
        for way in order.sample(ways, len(ways)):
            began = _now(model.device)
            way.defence.mend(model, way.cache, Forks(tuple(ids[:-1]), clean, [None]))
            way.repair = _now(model.device) - began
        for _ in range(tokens):
            for way in order.sample(ways, len(ways)):
                with way.defence.attached(model):  # attaching happens once in use: it is not counted
                    began = _now(model.device)
                    output = model(way.token, past_key_values=way.cache, use_cache=True, logits_to_keep=1)
                    way.token = output.logits[:, -1].argmax(-1, keepdim=True)
                    way.turns.append(_now(model.device) - began)
    return {way.defence.name: way for way in ways}


def _peak(model: Any, defence: Defence, ids: Sequence[int], clean: Any) -> int:
    """The most memory in use while the stored cache is repaired and one token is decoded."""
    with torch.no_grad(), _peak_memory(model.device) as peak:
        cache = clean.cache()
        defence.mend(model, cache, Forks(tuple(ids[:-1]), clean, [None]))
        with defence.attached(model):
            token = torch.tensor([[ids[-1]]], device=model.device)
            model(token, past_key_values=cache, use_cache=True, logits_to_keep=1)
        _wait(model.device)
    return peak[0]


def _now(device: torch.device) -> float:
    _wait(device)
    return time.perf_counter()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def _peak_memory(device: torch.device) -> Iterator[list[int]]:
    """The most memory in use, weights included: CUDA's count, or the resident set sampled while running."""
    peak = [0]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield peak
        peak[0] = torch.cuda.max_memory_allocated(device)
        return
    stop, memory = threading.Event(), psutil.Process().memory_info

    def sample() -> None:
        while not stop.wait(0.005):
            peak[0] = max(peak[0], memory().rss)

    watcher = threading.Thread(target=sample, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()
        peak[0] = max(peak[0], memory().rss)
