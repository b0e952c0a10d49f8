"""Calibration reads its text once, and where memory is short twice, with the same result."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch

module = import_module("cachemedicpp.repair.gaussian.calibrate")  # the package has a function of that name


def _statistics(model: Any, windows: Any) -> tuple[Any, int]:
    """The statistics, and how many windows of full length the model ran."""
    read = []
    hook = model.get_input_embeddings().register_forward_pre_hook(lambda m, args: read.append(args[0].shape))
    try:
        found = module.calibrate(model, windows)
    finally:
        hook.remove()
    return found, sum(rows for rows, length in read if length == windows.shape[1])


def test_the_text_is_read_once_and_a_second_time_only_where_memory_is_short(
    tiny_llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = torch.randint(3, 256, (40, 32), generator=torch.Generator().manual_seed(0))
    kept, once = _statistics(tiny_llama, windows)
    reading = module._Reading
    monkeypatch.setattr(module, "_Reading", lambda m, w, b, kept_bytes=0: reading(m, w, b, kept_bytes))
    again, more = _statistics(tiny_llama, windows)
    assert once == len(windows)
    assert more > 1.8 * once
    for name in ("scale", "mean", "covariance", "quiet", "loudest", "kinds"):
        assert torch.equal(getattr(kept, name), getattr(again, name)), name
