"""The audit on tiny models: what is not of its tokens is named, what is keeps its bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cachemedicpp import KVState
from cachemedicpp.auditing import audit, heal
from cachemedicpp.repair.gaussian import GaussianRepair, calibrate
from cachemedicpp.repair.gaussian.store import make
from homeostat.core.errors import UserError

LENGTH = 64


def text(rows: int, length: int = LENGTH, seed: int = 0) -> torch.Tensor:
    """Token ids with few common and many rare ones, like text."""
    generator = torch.Generator().manual_seed(seed)
    return (3 + 250 * torch.rand(rows, length, generator=generator) ** 3).long()


@pytest.fixture(scope="module", params=["tiny_llama", "tiny_gpt2"])
def model(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def operator(model: Any) -> GaussianRepair:
    stats = calibrate(model, text(64, seed=1), batch=32, other=text(96, seed=2))
    return make(stats, model, {"text": "random"})


@torch.no_grad()
def stored(model: Any, ids: torch.Tensor, mask: torch.Tensor | None = None) -> KVState:
    places = None if mask is None else (mask.cumsum(-1) - 1).clamp(min=0)
    options = {} if mask is None else {"attention_mask": mask, "position_ids": places}
    return KVState(model(input_ids=ids, use_cache=True, **options).past_key_values)


def with_block(
    own: KVState, other: KVState, positions: slice, layers: range | None = None, heads: slice = slice(None)
) -> KVState:
    """`own` with the positions of `other`."""
    changed = {}
    for layer in layers or range(len(own)):
        kv = tuple(x.clone() for x in own[layer])
        for x, y in zip(kv, other[layer], strict=True):
            x[:, heads, positions] = y[:, heads, positions]
        changed[layer] = kv
    return own.replace(changed)


def named(found: Any) -> list[tuple[int, int, int]]:
    return [(one["row"], one["first"], one["last"]) for one in found.findings()]


def test_a_cache_of_its_own_tokens_is_sound_by_both_and_keeps_its_bits(
    model: Any, operator: GaussianRepair
) -> None:
    ids = text(4, seed=7)
    cache = stored(model, ids).cache()
    before = [x.clone() for kv in KVState(cache) for x in kv]
    for judge in (model, operator):
        found = audit(judge, cache, ids)
        assert found.sound, found
        assert found.as_record()["judged"] == 16
    assert all(
        torch.equal(x, y) for x, y in zip(before, (x for kv in KVState(cache) for x in kv), strict=True)
    )


@pytest.mark.parametrize("part", ["all layers", "one layer", "one head"])
def test_a_block_of_another_text_is_named_where_it_is(
    model: Any, operator: GaussianRepair, part: str
) -> None:
    ids = text(2, seed=7)
    layers = None if part == "all layers" else range(1, 2)
    heads = slice(1) if part == "one head" else slice(None)
    damaged = with_block(stored(model, ids), stored(model, text(2, seed=8)), slice(16, 32), layers, heads)
    for judge in (model, operator):
        found = audit(judge, damaged.cache(), ids)
        assert named(found) == [(0, 16, 31), (1, 16, 31)], judge
        assert part == "all layers" or found.findings()[0]["layers"] == [1]


def test_what_an_audit_names_is_recomputed_to_rounding(model: Any) -> None:
    ids = text(2, seed=7)
    clean = stored(model, ids)
    cache = with_block(clean, stored(model, text(2, seed=8)), slice(32, 48)).cache()
    assert heal(model, cache, ids, audit(model, cache, ids)) == 2
    for kv, was in zip(KVState(cache), clean, strict=True):
        assert all(torch.allclose(x, y, atol=1e-5) for x, y in zip(kv, was, strict=True))


def test_a_page_whose_second_half_is_stale_is_named(model: Any, operator: GaussianRepair) -> None:
    ids = text(2, seed=7)
    torn = with_block(stored(model, ids), stored(model, text(2, seed=8)), slice(24, 32))
    for judge in (model, operator):
        assert named(audit(judge, torn.cache(), ids)) == [(0, 16, 31), (1, 16, 31)]


def test_padding_moves_the_blocks_with_the_text(model: Any, operator: GaussianRepair) -> None:
    ids, mask = text(2, seed=7), torch.ones(2, LENGTH, dtype=torch.long)
    mask[1, :5] = 0
    damaged = with_block(stored(model, ids, mask), stored(model, text(2, seed=8), mask), slice(21, 37))
    for judge in (model, operator):
        assert audit(judge, stored(model, ids, mask).cache(), ids, mask).sound
        assert (1, 21, 36) in named(audit(judge, damaged.cache(), ids, mask))


def test_a_repair_that_knows_the_tokens_brings_a_foreign_block_nearer(
    model: Any, operator: GaussianRepair
) -> None:
    ids = text(2, seed=7)
    clean = stored(model, ids)
    damaged = with_block(clean, stored(model, text(2, seed=8)), slice(16, 32))
    blind, told = damaged.cache(), damaged.cache()
    operator.repair_cache(blind)
    report = operator.repair_cache(told, input_ids=ids)
    assert {(one["row"], one["first"]) for one in report["replaced"]} == {(0, 16), (1, 16)}

    def far(cache: Any) -> float:
        return float(
            sum(
                (x - y).square().sum()
                for kv, was in zip(KVState(cache), clean, strict=True)
                for x, y in zip(kv, was, strict=True)
            )
        )

    assert far(told) < 0.7 * far(blind)


def test_a_clean_cache_is_left_alone_by_a_repair_that_knows_the_tokens(
    model: Any, operator: GaussianRepair
) -> None:
    ids = text(2, seed=7)
    cache = stored(model, ids).cache()
    assert operator.repair_cache(cache, input_ids=ids)["replaced"] == []


def test_a_rate_that_the_text_cannot_support_is_refused(model: Any, operator: GaussianRepair) -> None:
    ids = text(1, seed=7)
    with pytest.raises(UserError, match=r"rate of 1e-06 needs 100000 blocks of held-out text"):
        audit(operator, stored(model, ids).cache(), ids, alpha=1e-6)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (text(1, LENGTH - 1), "the cache holds 1 × 64 positions"),
        (torch.full((1, LENGTH), 10_000), "the model knows"),
        (torch.zeros(1, LENGTH), "input_ids has shape"),
    ],
)
def test_tokens_that_cannot_be_those_of_the_cache_are_refused(
    model: Any, operator: GaussianRepair, ids: torch.Tensor, message: str
) -> None:
    for judge in (model, operator):
        with pytest.raises(UserError, match=message):
            audit(judge, stored(model, text(1)).cache(), ids)


def test_an_operator_that_was_not_told_of_tokens_says_so(model: Any) -> None:
    blind = make(calibrate(model, text(48, seed=1), batch=32), model, {"text": "random"})
    with pytest.raises(UserError, match="knows nothing of tokens"):
        audit(blind, stored(model, text(1)).cache(), text(1))
