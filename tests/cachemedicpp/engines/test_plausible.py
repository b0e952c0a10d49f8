"""Numbers that cannot be are told from clean ones, computed again once, and reported if they stay so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from cachemedicpp.cache.state import KVState
from cachemedicpp.engines.blocks.paged import PagedCache
from cachemedicpp.engines.blocks.plan import RequestStep, StepPlan
from cachemedicpp.engines.blocks.plausible import Judge, Plausibility
from cachemedicpp.engines.blocks.watch import Watch
from cachemedicpp.engines.events import Events
from cachemedicpp.repair.gaussian.calibrate import calibrate
from cachemedicpp.repair.gaussian.store import make, save

SIZE, COUNT = 16, 6


def text(count: int, seed: int) -> Tensor:
    return torch.randint(3, 256, (count, COUNT * SIZE), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def judge(tiny_llama: Any, tmp_path_factory: pytest.TempPathFactory) -> Plausibility:
    folder = tmp_path_factory.mktemp("operator") / "G"
    save(make(calibrate(tiny_llama, text(32, 1), batch=32), tiny_llama, {}), folder)
    return Plausibility(str(folder))


@pytest.fixture
def blocks(tiny_llama: Any) -> tuple[Tensor, Tensor, list[int]]:
    """Keys and values `[B, L, H, 16, d]` of text that calibration has not seen, with first positions."""
    with torch.no_grad():
        state = KVState(tiny_llama(input_ids=text(1, 2), use_cache=True).past_key_values)
    K, V = (
        torch.stack([kv[i][0].unflatten(1, (-1, SIZE)).transpose(0, 1) for kv in state], 1) for i in (0, 1)
    )
    return K, V, list(range(0, COUNT * SIZE, SIZE))


def test_clean_blocks_can_be_alone_and_together(judge: Plausibility, blocks: Any) -> None:
    K, V, first = blocks
    assert not any(score.impossible for score in judge.score(K, V, first))
    together = judge.ratios(K, V, first)
    for i in range(COUNT):
        alone = judge.ratios(K[i : i + 1], V[i : i + 1], first[i : i + 1])
        torch.testing.assert_close(alone[0], together[i])


def test_one_number_that_is_not_finite_and_one_that_is_huge_cannot_be(
    judge: Plausibility, blocks: Any
) -> None:
    K, V, first = blocks
    K[1, 2, 0, 3, 4] = torch.nan
    V[3, 1, 1, 0, 0] *= 1e6
    scores = judge.score(K, V, first)
    assert [score.impossible for score in scores] == [False, True, False, True, False, False]
    assert scores[1].kind == "not finite" and scores[1].layer == 2
    assert scores[3].layer == 1


def test_loud_noise_in_one_layer_cannot_be(judge: Plausibility, blocks: Any) -> None:
    K, V, first = blocks
    K[2, 1] += 16 * K[2, 1].std() * torch.randn(K[2, 1].shape, generator=torch.Generator().manual_seed(0))
    assert [score.impossible for score in judge.score(K, V, first)].index(True) == 2


@pytest.mark.parametrize("mended", [True, False])
def test_a_block_is_computed_once_more_and_reported_if_it_stays_so(
    judge: Plausibility, blocks: Any, tmp_path: Path, mended: bool
) -> None:
    """One request writes block 1, wrong; then again."""
    torch.manual_seed(0)
    K, V, _ = blocks
    whole = torch.cat((K, V), -1)  # [B, L, H, 16, 2 d]
    d = K.shape[-1]
    at = torch.arange(whole[0, 0].numel()).view(whole.shape[2:])
    order = torch.stack((at[..., :d], at[..., d:]))
    layers = {str(i): torch.zeros(4, *whole.shape[2:]) for i in range(whole.shape[1])}
    cache, events = PagedCache(layers, 4, SIZE, order), Events()
    watch, looks = Watch(cache, events), Judge(judge, cache, events, every=1)
    for turn in (0, 1):
        cache.write(
            1, whole[0] if mended and turn else whole[0].masked_fill(torch.rand(whole[0].shape) < 0.1, 1e9)
        )
        spans = watch.begin(StepPlan([RequestStep("r", (1,), 0, SIZE, admitted=True)]))
        watch.end(spans)
        looks.look(watch)
        assert (1 in watch.quarantine) == (turn == 0)
    assert events.counts.implausible == (1 if mended else 2)
