"""Masks touch what they may and nothing else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cachemedicpp.cache.state import Geometry
from cachemedicpp.corruption.config import AxesConfig
from cachemedicpp.corruption.masks import check_axes, draw_mask, time_mask
from cachemedicpp.corruption.streams import Stream
from homeostat.core.errors import UserError

GEOMETRY = Geometry(layers=6, heads=4, kv_heads=4, head_dim=8)


def test_time_modes_by_hand() -> None:
    assert time_mask(AxesConfig(time_mode="all_past"), 3).tolist() == [True] * 3
    assert time_mask(AxesConfig(N_recent=2), 5).tolist() == [True, True, True, False, False]
    window = AxesConfig(time_mode="window", window=(1, 3))
    assert time_mask(window, 4).tolist() == [False, True, True, False]


def test_old_only_on_a_prompt_no_longer_than_n_recent_is_refused_not_ignored() -> None:
    with pytest.raises(UserError, match=r"N_recent = 32.*32 positions"):
        time_mask(AxesConfig(), 32)


def test_a_window_outside_the_cache_is_refused() -> None:
    with pytest.raises(UserError, match=r"window = \[2, 9\].*4 positions"):
        time_mask(AxesConfig(time_mode="window", window=(2, 9)), 4)


def test_targets_that_are_not_there_are_refused() -> None:
    with pytest.raises(UserError, match="layer 5 is not protected"):
        check_axes(AxesConfig(layer_mode="targeted", layers=(1, 5)), GEOMETRY, (1, 2))
    with pytest.raises(UserError, match="4 KV heads"):
        check_axes(AxesConfig(head_mode="targeted", heads=(4,)), GEOMETRY, (1, 2))


@given(
    layer_mode=st.sampled_from(["all", "bernoulli", "targeted"]),
    head_mode=st.sampled_from(["all", "bernoulli", "targeted"]),
    time_mode=st.sampled_from(["all_past", "old_only", "window"]),
    p=st.floats(0, 1),
    length=st.integers(5, 20),
    recent=st.integers(0, 4),
    seed=st.integers(0, 999),
)
def test_masks_never_touch_unprotected_layers_unmasked_heads_or_recent_positions(
    layer_mode: str, head_mode: str, time_mode: str, p: float, length: int, recent: int, seed: int
) -> None:
    axes = AxesConfig.model_validate(
        {
            "layer_mode": layer_mode, "p_layer": p, "layers": (2,), "head_mode": head_mode, "p_head": p,
            "heads": (0, 3), "time_mode": time_mode, "N_recent": recent, "window": (1, 4),
        }
    )  # fmt: skip
    protected = (1, 2, 4)
    mask = draw_mask(axes, GEOMETRY, protected, length, Stream((seed,)))
    assert set(mask.heads) <= ({2} if layer_mode == "targeted" else set(protected))
    for heads in mask.heads.values():
        assert heads.any()
        if head_mode == "targeted":
            assert heads.tolist() == [True, False, False, True]
    time = mask.time.tolist()
    if time_mode == "old_only":
        assert not any(time[length - recent :]) and all(time[: length - recent])
    if time_mode == "window":
        assert [t for t, touched in enumerate(time) if touched] == [1, 2, 3]


def test_what_a_layer_gets_does_not_depend_on_which_others_are_protected() -> None:
    few = draw_mask(AxesConfig(), GEOMETRY, (2,), 40, Stream((7,)))
    many = draw_mask(AxesConfig(), GEOMETRY, (0, 1, 2, 3), 40, Stream((7,)))
    assert (2 in few.heads) == (2 in many.heads)
    if 2 in few.heads:
        assert torch.equal(few.heads[2], many.heads[2])


def test_bernoulli_heads_are_chosen_about_as_often_as_asked() -> None:
    draws = [draw_mask(AxesConfig(), GEOMETRY, (0, 1, 2, 3, 4, 5), 40, Stream((s,))) for s in range(200)]
    chosen = sum(int(h.sum()) for mask in draws for h in mask.heads.values())
    assert abs(chosen / (200 * 6 * 4) - 0.25) < 0.02
