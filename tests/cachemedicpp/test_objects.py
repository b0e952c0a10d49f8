"""Objects that users hold say what they are when they are printed."""

from __future__ import annotations

from typing import Any

import torch

from cachemedicpp import Guard, KVState, heuristic


def test_a_guard_a_repair_and_a_report_print_what_they_are_and_did(tiny_llama: Any) -> None:
    ids = torch.randint(3, 256, (1, 40))
    with torch.no_grad():
        cache = tiny_llama(input_ids=ids, use_cache=True).past_key_values
    guard = Guard(tiny_llama, every=4)
    assert "nothing watched" in repr(guard)
    guard.watch(cache, ids)
    assert "1 × 40 positions" in repr(guard) and "healed 0 blocks" in repr(guard)
    assert repr(KVState(cache)) == "KVState(3 layers, 1 × 40 positions, 2 KV heads of 16, torch.float32)"
    smoothing = heuristic("smoothing", [1, 2])
    assert repr(smoothing) == "Smoothing(layers=(1, 2), beta=0.3)"
    report = smoothing.repair_cache(cache)
    assert repr(report).startswith("RepairReport(smoothing: 2 of 2 layers changed, by ")
    assert report["repair"] == "smoothing"
