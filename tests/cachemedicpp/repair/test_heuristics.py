"""Heuristics: values worked out by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cachemedicpp.cache.state import KV
from cachemedicpp.corruption.streams import Stream
from cachemedicpp.repair.base import Stored, layout
from cachemedicpp.repair.heuristics import (
    HEURISTICS,
    ClippingRenorm,
    MaskingDropout,
    ResetClear,
    Smoothing,
    heuristic,
)
from homeostat.core.errors import UserError


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
    fixed = ClippingRenorm((0,), target_rms=3.0).repair_layer(KV(x, x), stored(x)).K
    torch.testing.assert_close(fixed[0, 0, 0], torch.tensor([3.0, 3.0]))


@given(
    name=st.sampled_from(sorted(HEURISTICS)),
    scale=st.sampled_from([0.0, 1e-30, 1.0, 1e15]),
    seed=st.integers(0, 50),
)
def test_heuristics_make_no_non_finite_value_and_touch_only_the_suspects(
    name: str, scale: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    K, V = torch.randn(2, 2, 3, 10, 4, generator=generator) * scale
    suspect = torch.rand(2, 3, 10, generator=generator) < 0.4
    repaired = heuristic(name, [0]).repair_layer(KV(K, V), stored(K, suspect=suspect))
    for before, after in zip((K, V), repaired, strict=True):
        assert torch.isfinite(after).all()
        assert torch.equal(after[~suspect], before[~suspect])


def test_an_unknown_heuristic_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="did you mean 'smoothing'"):
        heuristic("smothing", [0])
