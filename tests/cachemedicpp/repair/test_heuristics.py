"""Heuristics: values worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cachemedicpp.cache.rotary import Rotary
from cachemedicpp.cache.state import KV, KVState
from cachemedicpp.corruption.config import AxesConfig
from cachemedicpp.corruption.streams import Stream
from cachemedicpp.repair.base import Stored, layout
from cachemedicpp.repair.heuristics import (
    Levels,
    heuristic,
    heuristics,
    measure_levels,
)
from cachemedicpp.repair.heuristics.clamp import Clamp
from cachemedicpp.repair.heuristics.clipping_renorm import ClippingRenorm
from cachemedicpp.repair.heuristics.limits import LimitsClamp, LimitsMean, LimitsZero
from cachemedicpp.repair.heuristics.masking_dropout import MaskingDropout
from cachemedicpp.repair.heuristics.renorm_calibrated import RenormCalibrated
from cachemedicpp.repair.heuristics.reset_clear import ResetClear
from cachemedicpp.repair.heuristics.robust_smoothing import RobustSmoothing
from cachemedicpp.repair.heuristics.smoothing import Smoothing
from homeostat.core.errors import UserError

LEVELS = (
    Levels(  # one layer, three heads of four channels: from -1 to 2, on average 0.5; the first position ± 9
        low=torch.stack([torch.full((1, 2, 3, 4), -9.0), torch.full((1, 2, 3, 4), -1.0)]),
        high=torch.stack([torch.full((1, 2, 3, 4), 9.0), torch.full((1, 2, 3, 4), 2.0)]),
        mean=torch.full((2, 1, 2, 3, 4), 0.5),
        rms=torch.full((2, 1, 2, 3, 1), 2.0),
        theta=torch.zeros(1, 4),
        partner=torch.arange(4),
    )
)


def stored(x: Tensor, mask: Tensor | None = None, suspect: Tensor | None = None) -> Stored:
    return Stored(0, *layout(x.shape[2], x.shape[0], mask, x.device), suspect)


def over_time(*values: float) -> KV:
    x = torch.tensor(values).view(1, 1, -1, 1)  # [B, H, T, d]
    return KV(x, -x)


def test_reset_clear_zeroes_what_is_suspect() -> None:
    kv = over_time(1.0, 2.0, 3.0)
    suspect = torch.tensor([[[False, True, False]]])
    assert ResetClear((0,)).repair_layer(kv, stored(kv.K, suspect=suspect)).K.flatten().tolist() == [1, 0, 3]
    assert not ResetClear((0,)).repair_layer(kv, stored(kv.K)).V.any()


def test_smoothing_leans_on_the_unsmoothed_neighbour() -> None:
    kv = over_time(1.0, 3.0, 5.0)
    smooth = Smoothing((0,)).repair_layer(kv, stored(kv.K))
    # 0.7·3 + 0.3·1, 0.7·5 + 0.3·3
    torch.testing.assert_close(smooth.K.flatten(), torch.tensor([1.0, 2.4, 4.4]))
    torch.testing.assert_close(smooth.V, -smooth.K)


def test_smoothing_never_mixes_padding_into_the_first_token() -> None:
    kv = over_time(9.0, 1.0, 3.0)
    smooth = Smoothing((0,)).repair_layer(kv, stored(kv.K, mask=torch.tensor([[0, 1, 1]])))
    torch.testing.assert_close(smooth.K.flatten(), torch.tensor([9.0, 1.0, 2.4]))


def test_masking_dropout_zeroes_fixed_elements_and_scales_the_rest() -> None:
    x = torch.ones(2, 1, 50, 4)
    dropped = MaskingDropout((0,), p=0.2).repair_layer(KV(x, x), stored(x))
    draw = Stream((0, "masking_dropout", 0, "K")).uniform(1, 50, 4)
    torch.testing.assert_close(dropped.K[0], (draw >= 0.2).float() / 0.8)
    assert torch.equal(dropped.K[0], dropped.K[1]) and not torch.equal(dropped.K, dropped.V)


def test_clipping_cuts_and_restores_the_vector_size() -> None:
    x = torch.tensor([[[[8.0, 6.0], [5.0, -6.0]]]])
    clipped = ClippingRenorm((0,)).repair_layer(KV(x, x), stored(x)).K
    rms = 50**0.5  # sqrt((64 + 36) / 2), before clamping to (6, 6)
    torch.testing.assert_close(clipped, torch.tensor([[[[rms, rms], [5.0, -6.0]]]]))


@given(
    name=st.sampled_from([n for n in heuristics() if "forget" not in n]),
    scale=st.sampled_from([0.0, 1e-30, 1.0, 1e15]),
    seed=st.integers(0, 50),
)
def test_heuristics_make_no_non_finite_value_and_touch_only_the_suspects(
    name: str, scale: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    K, V = torch.randn(2, 2, 3, 10, 4, generator=generator) * scale
    suspect = torch.rand(2, 3, 10, generator=generator) < 0.4
    repaired = heuristic(name, [0], LEVELS).repair_layer(KV(K, V), stored(K, suspect=suspect))
    for before, after in zip((K, V), repaired, strict=True):
        assert torch.isfinite(after).all()
        assert torch.equal(after[~suspect], before[~suspect])


def test_reset_clear_spares_what_the_time_mask_protects() -> None:
    kv = over_time(1.0, 2.0, 3.0, 4.0)
    reset = ResetClear((0,), AxesConfig(N_recent=2))
    assert reset.repair_layer(kv, stored(kv.K)).K.flatten().tolist() == [0, 0, 3, 4]
    padded = stored(kv.K, mask=torch.tensor([[0, 1, 1, 1]]))  # three real positions: one is old
    assert reset.repair_layer(kv, padded).K.flatten().tolist() == [1, 0, 3, 4]
    window = ResetClear((0,), AxesConfig(time_mode="window", window=(1, 2)))
    assert window.repair_layer(kv, stored(kv.K)).K.flatten().tolist() == [1, 0, 3, 4]


def test_clamping_alone_keeps_what_is_inside_and_does_not_stretch_the_rest() -> None:
    x = torch.tensor([[[[8.0, 6.0], [5.0, -7.0]]]])
    assert Clamp((0,)).repair_layer(KV(x, x), stored(x)).K.flatten().tolist() == [6, 6, 5, -6]


def test_calibrated_limits_replace_what_no_clean_channel_has_held() -> None:
    x = torch.zeros(1, 3, 2, 4)  # positions 0 and 1: the first has wider limits
    x[0, 0, :, 0], x[0, 0, :, 1], x[0, 0, 1, 2] = 5.0, -3.0, torch.nan
    expected = {LimitsClamp: [2.0, -1.0, 0.0], LimitsZero: [0.0, 0.0, 0.0], LimitsMean: [0.5, 0.5, 0.5]}
    for kind, values in expected.items():
        mended = kind((0,), LEVELS).repair_layer(KV(x, x), stored(x)).V
        assert mended[0, 0, 1].tolist() == [*values, 0.0], kind
        assert mended[0, 0, 0].tolist() == [5.0, -3.0, 0.0, 0.0]


def test_a_cut_vector_gets_the_calibrated_size_and_others_keep_theirs() -> None:
    x = torch.tensor([8.0, 6.0, -6.0, 6.0]).expand(1, 3, 2, 4).clone()
    x[0, 0, 1] = 5.0
    mended = RenormCalibrated((0,), LEVELS).repair_layer(KV(x, x), stored(x)).K
    torch.testing.assert_close(mended[0, 0, 0], torch.tensor([2.0, 2.0, -2.0, 2.0]))  # clamped RMS 6 → 2
    assert mended[0, 0, 1].tolist() == [5.0] * 4


def test_robust_smoothing_replaces_only_what_none_of_its_neighbours_is_like() -> None:
    kv = over_time(1.0, 2.0, 90.0, 4.0, 5.0, 6.0)
    smooth = RobustSmoothing((0,)).repair_layer(kv, stored(kv.K))
    # the five around 90 are 1, 2, 90, 4, 5: median 4, distances 3, 2, 86, 0, 1 with median 2, and 86 > 6 · 2
    assert smooth.K.flatten().tolist() == [1, 2, 4, 4, 5, 6]


def test_measured_levels_bound_the_clean_cache_and_know_the_first_position(tiny_llama: Any) -> None:
    ids = torch.randint(3, 200, (5, 12), generator=torch.Generator().manual_seed(1))
    levels = measure_levels(tiny_llama, ids, batch=2)
    with torch.no_grad():
        cache = tiny_llama(ids, use_cache=True).past_key_values
    for layer, kv in enumerate(KVState(cache)):
        where = Stored(layer, *layout(12, 5, None, ids.device))
        for kind in (LimitsClamp, LimitsZero, LimitsMean):
            mended = kind((layer,), levels).repair_layer(kv, where)
            assert torch.equal(mended.K, kv.K) and torch.equal(mended.V, kv.V)
        torch.testing.assert_close(levels.mean[0, layer, 0], kv.K[:, :, 0].mean(0))
        torch.testing.assert_close(levels.mean[1, layer, 1], kv.V[:, :, 1:].mean((0, 2)))
        plain = Rotary(tiny_llama).unrotate(kv.K, where.positions, layer)
        torch.testing.assert_close(levels.high[1, layer, 0], plain[:, :, 1:].amax((0, 2)))
        torch.testing.assert_close(levels.turned(plain, layer, where.positions), kv.K)


def test_limits_hold_at_positions_far_beyond_the_calibration_text(tiny_llama: Any) -> None:
    """The same keys, rotated to another place, are as usual there as here."""
    ids = torch.randint(3, 200, (5, 12), generator=torch.Generator().manual_seed(1))
    levels = measure_levels(tiny_llama, ids)
    with torch.no_grad():
        K, V = KVState(tiny_llama(ids, use_cache=True).past_key_values)[1]
    rotary, here = Rotary(tiny_llama), torch.arange(12).expand(5, -1)
    far = here + 700 * (here > 0)
    moved = rotary.rotate(rotary.unrotate(K, here, 1), far, 1)
    assert not any(x.any() for x in levels.beyond(KV(moved, V), 1, far))
    assert levels.beyond(KV(moved + 40.0, V), 1, far).K.any()


def test_calibrated_heuristics_ask_for_their_levels() -> None:
    with pytest.raises(UserError, match="needs calibrated levels"):
        heuristic("limits_zero", [0])


def test_an_unknown_heuristic_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="did you mean 'smoothing'"):
        heuristic("smothing", [0])
