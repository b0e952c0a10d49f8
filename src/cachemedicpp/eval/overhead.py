"""What a defence costs: tokens per second, wall time and peak memory, side by side in one run."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from cachemedicpp.eval.defences import Defence, Forks
from cachemedicpp.eval.grid import prefill
from homeostat.core.records import Record


def measure_overhead(
    model: Any, ids: Sequence[int], defences: Sequence[Defence], tokens: int, repeats: int
) -> list[Record]:
    """Decode `tokens` after the stored `ids` under every defence, `repeats` times in turn; medians.

    The cache is clean: what is measured is the price of having the defence. `wall_s` is the repair of the
    stored cache, once, and the decoding; throughput is relative to no defence in the same round.
    """
    clean = prefill(model, ids[:-1])
    rounds: dict[str, list[tuple[float, float, int]]] = {defence.name: [] for defence in defences}
    _decode(model, Defence(), ids, clean, tokens)  # not counted: first-use costs
    for _ in range(repeats):
        for defence in defences:
            rounds[defence.name].append(_decode(model, defence, ids, clean, tokens))
    records = []
    for defence in defences:
        own = rounds[defence.name]
        repair, decode = (statistics.median(r[i] for r in own) for i in (0, 1))
        ratios = [
            (none[0] + none[1]) / (mine[0] + mine[1]) for none, mine in zip(rounds["none"], own, strict=True)
        ]
        records.append(
            {
                "defence": defence.name,
                "knowledge": defence.knowledge,
                "repair_s": repair,
                "decode_s": decode,
                "wall_s": repair + decode,
                "tokens_per_s": tokens / (repair + decode),
                "relative_throughput": statistics.median(ratios),
                "peak_memory_bytes": max(r[2] for r in own),
                "memory": "cuda allocated" if model.device.type == "cuda" else "resident set of the process",
                "tokens": tokens,
                "context": len(ids),
                "repeats": repeats,
            }
        )
    return records


def _decode(
    model: Any, defence: Defence, ids: Sequence[int], clean: Any, tokens: int
) -> tuple[float, float, int]:
    forks = Forks(tuple(ids[:-1]), clean, [None])
    with torch.no_grad(), _peak_memory(model.device) as peak:
        cache = clean.cache()
        start = time.perf_counter()
        defence.mend(model, cache, forks)
        _wait(model.device)
        mended = time.perf_counter()
        token = torch.tensor([[ids[-1]]], device=model.device)
        with defence.attached(model):
            for _ in range(tokens):
                logits = model(token, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
                token = logits[:, -1].argmax(-1, keepdim=True)
        _wait(model.device)
        end = time.perf_counter()
    return mended - start, end - mended, peak[0]


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
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(0.005):
            peak[0] = max(peak[0], _resident())

    watcher = threading.Thread(target=sample, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()
        peak[0] = max(peak[0], _resident())


def _resident() -> int:
    """Resident bytes of this process; 0 on systems without /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0
