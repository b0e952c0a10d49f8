"""Inside attention: nothing changes unasked, both modes agree, and the model is given back as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from cachemedicpp.cache.attention import check_decoder
from cachemedicpp.cache.state import Geometry
from cachemedicpp.corruption import CORRUPTIONS, CorruptionFamily, sequence_keys
from cachemedicpp.corruption.config import AxesConfig, CorruptionConfig, CorruptionParams
from cachemedicpp.repair.attach import medic
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.heuristics import heuristic, heuristics
from cachemedicpp.repair.operators import build_operator
from cachemedicpp.repair.registry import DEFENCES
from homeostat.core.errors import UserError

CONFIG = CorruptionConfig(
    axes=AxesConfig(N_recent=4, head_mode="all"), params=CorruptionParams(overwrite_window=(2, 8))
)
PREFIX, TOTAL = 20, 28


class Letters:
    """A tokenizer for the tiny models: one token a character."""

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [3 + ord(letter) % 250 for letter in text]}


@contextmanager
def implementation(model: Any, name: str) -> Iterator[None]:
    before = model.config._attn_implementation
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def batch(vocabulary: int = 256) -> tuple[Tensor, Tensor, Tensor]:
    """Four sequences, two of them padded on the left: ids, mask, positions `[4, 28]`."""
    ids = torch.randint(3, vocabulary, (4, TOTAL), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, :5], mask[3, :2] = 0, 0
    return ids, mask, (mask.cumsum(-1) - 1).clamp(min=0)


def run(model: Any, change: Any = None, extra: Tensor | None = None) -> Tensor:
    """Prefill, optionally change the stored cache, read the continuation: logits `[4, 8, V]`."""
    ids, mask, where = batch(model.config.vocab_size)
    if extra is not None:
        ids = torch.cat((ids[:, : TOTAL - extra.shape[1]], extra), dim=1)
    with torch.no_grad():
        out = model(
            input_ids=ids[:, :PREFIX],
            attention_mask=mask[:, :PREFIX],
            position_ids=where[:, :PREFIX],
            use_cache=True,
        )
        if change is not None:
            change(out.past_key_values, sequence_keys(ids[:, :PREFIX], mask[:, :PREFIX]), mask[:, :PREFIX])
        return model(
            input_ids=ids[:, PREFIX:], attention_mask=mask, position_ids=where[:, PREFIX:],
            past_key_values=out.past_key_values,
        ).logits  # fmt: skip


def family(model: Any, tokenizer: Any = None, seed: int = 0) -> CorruptionFamily:
    layers = range(Geometry.of(model).layers)
    return CorruptionFamily.build(CONFIG, model, tokenizer or Letters(), layers, seed)


@pytest.fixture(params=["llama-sdpa", "llama-eager", "gpt2-sdpa", "gpt2-eager"])
def model(request: pytest.FixtureRequest, tiny_llama: Any, tiny_gpt2: Any) -> Iterator[Any]:
    kind, attention = request.param.split("-")
    chosen = tiny_llama if kind == "llama" else tiny_gpt2
    with implementation(chosen, attention):
        yield chosen


def test_an_idle_medic_and_a_left_one_change_no_bit(model: Any) -> None:
    before = run(model)
    with medic(model):
        inside = run(model)
    assert torch.equal(before, inside) and torch.equal(before, run(model))


def test_epsilon_zero_changes_no_bit_for_any_type(model: Any) -> None:
    before = run(model)
    for name in CORRUPTIONS:
        with medic(model, corruption=family(model).at(name, 0.0)):
            assert torch.equal(run(model), before), name


def test_untrained_operators_change_logits_by_less_than_1e_4(model: Any) -> None:
    before = run(model)
    for kind in ("A", "B", "C"):
        operator = build_operator(RepairConfig(family=kind, protect_layers="all"), Geometry.of(model))
        with medic(model, repair=operator):
            assert (run(model) - before).abs().max() <= 1e-4, kind
    assert torch.equal(run(model), before)


@pytest.mark.parametrize("name", [*sorted(CORRUPTIONS), "mixture"])
def test_damage_inline_and_at_rest_give_the_same_logits(model: Any, name: str) -> None:
    injection = family(model).mixture() if name == "mixture" else family(model).at(name, 0.3)
    with medic(model, corruption=injection) as session:
        inline = run(model)
        assert [event["type"] for event in session.events] != []
    at_rest = run(model, lambda cache, keys, mask: injection.corrupt_cache(cache, keys, mask))
    assert torch.equal(inline, at_rest)
    assert not torch.equal(inline, run(model))


@pytest.mark.parametrize(
    "name", [n for n in heuristics(calibrated=False) if not DEFENCES[n].repair.query_conditioned]
)
@pytest.mark.parametrize("oracle", [False, True])
def test_query_independent_repair_inline_and_at_rest_agree(model: Any, name: str, oracle: bool) -> None:
    injection = family(model).at("gaussian", 0.5)
    repair = heuristic(name, range(3))

    def change(cache: Any, keys: list[str], mask: Tensor) -> None:
        plan = injection.corrupt_cache(cache, keys, mask)
        report = repair.repair_cache(
            cache, mask, {i: plan.mask(i) for i in plan.protected} if oracle else None
        )
        assert report["repair"] == name and set(report["relative_change"]) == {"0", "1", "2"}

    with medic(model, repair=repair, corruption=injection, oracle=oracle):
        inline = run(model)
    assert torch.equal(inline, run(model, change))


def trained(model: Any, kind: str = "A", seed: int = 0, **settings: Any) -> Any:
    """An operator with weights as training might leave them: far from the identity."""
    config = RepairConfig.model_validate({"family": kind, "protect_layers": "all", "rank": 4, **settings})
    operator = build_operator(config, Geometry.of(model), seed).requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for parameter in operator.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return operator


@pytest.mark.parametrize("kind", ["A", "B", "C"])
def test_a_later_token_cannot_change_an_earlier_logit(model: Any, kind: str) -> None:
    other = torch.randint(3, 256, (4, 3), generator=torch.Generator().manual_seed(9))
    with medic(model, repair=trained(model, kind), corruption=family(model).at("gaussian", 0.3)):
        one, two = run(model), run(model, extra=other)
    assert torch.allclose(one[:, :5], two[:, :5], atol=1e-5)
    assert not torch.allclose(one[:, 5:], two[:, 5:], atol=1e-3)


@pytest.mark.parametrize("kind", ["A", "B", "C"])
def test_reading_token_by_token_equals_reading_all_at_once(model: Any, kind: str) -> None:
    ids, mask, where = batch()
    with (
        medic(model, repair=trained(model, kind), corruption=family(model).at("dropout_zero", 0.2)),
        torch.no_grad(),
    ):
        at_once = run(model)
        out = model(
            input_ids=ids[:, :PREFIX],
            attention_mask=mask[:, :PREFIX],
            position_ids=where[:, :PREFIX],
            use_cache=True,
        )
        singly = [
            model(
                input_ids=ids[:, t : t + 1], attention_mask=mask[:, : t + 1],
                position_ids=where[:, t : t + 1], past_key_values=out.past_key_values,
            ).logits
            for t in range(PREFIX, TOTAL)
        ]  # fmt: skip
    torch.testing.assert_close(torch.cat(singly, dim=1), at_once, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("sample", [False, True])
def test_generate_equals_the_plain_model_where_nothing_is_corrupted(model: Any, sample: bool) -> None:
    ids, mask, _ = batch()

    def generate() -> Tensor:
        torch.manual_seed(0)
        return model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=8, do_sample=sample)

    plain = generate()
    untrained = build_operator(RepairConfig(protect_layers="all"), Geometry.of(model))
    for options in ({}, {"corruption": family(model).at("gaussian", 0.0)}, {"repair": untrained}):
        with medic(model, **options):
            assert torch.equal(generate(), plain)
    with medic(model, corruption=family(model).at("gaussian", 3.0), repair=trained(model)) as session:
        assert generate().shape[0] == 4
        assert len(session.events) == 4


def test_the_default_model_keeps_its_outputs(default_model: Any) -> None:
    model, tokenizer = default_model
    before = run(model)
    for name in CORRUPTIONS:
        with medic(model, corruption=family(model, tokenizer).at(name, 0.0)):
            assert torch.equal(run(model), before), name
    for kind in ("A", "B", "C"):
        operator = build_operator(RepairConfig(family=kind, protect_layers="all"), Geometry.of(model))
        with medic(model, repair=operator):
            assert (run(model) - before).abs().max() <= 1e-4, kind
    assert torch.equal(run(model), before)


def test_the_default_model_generates_under_the_context_with_left_padding(default_model: Any) -> None:
    model, tokenizer = default_model
    texts = ["The capital of France is", "Water", "One, two, three, four,", "A cache stores"]
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    for attention in ("sdpa", "eager"):
        with implementation(model, attention):
            plain = model.generate(**inputs, max_new_tokens=6, do_sample=False)
            with medic(model):
                assert torch.equal(model.generate(**inputs, max_new_tokens=6, do_sample=False), plain)


def test_a_second_prefill_in_one_block_starts_afresh(tiny_llama: Any) -> None:
    with medic(tiny_llama, corruption=family(tiny_llama).at("gaussian", 0.5)):
        assert torch.equal(run(tiny_llama), run(tiny_llama))


def test_caches_of_other_lengths_in_one_block_do_not_inherit_what_was_stored(tiny_llama: Any) -> None:
    ids, _, _ = batch()
    operator = trained(tiny_llama)

    def read(length: int) -> Tensor:
        return tiny_llama(input_ids=ids[:, PREFIX:], past_key_values=caches[length]).logits

    def prefilled() -> dict[int, Any]:
        return {n: tiny_llama(input_ids=ids[:, :n], use_cache=True).past_key_values for n in (12, 20)}

    with torch.no_grad():
        caches = prefilled()
        with medic(tiny_llama, repair=operator):
            together = [read(12), read(20)]
        caches = prefilled()
        for n, expected in zip((12, 20), together, strict=True):
            with medic(tiny_llama, repair=operator):
                assert torch.equal(read(n), expected)


def test_attaching_twice_is_refused_and_an_error_inside_restores_the_model(tiny_llama: Any) -> None:
    before = run(tiny_llama)
    with medic(tiny_llama), pytest.raises(UserError, match="already has a medic"), medic(tiny_llama):
        pass
    with pytest.raises(RuntimeError, match="boom"), medic(tiny_llama):
        raise RuntimeError("boom")
    assert tiny_llama.config._attn_implementation == "sdpa" and torch.equal(run(tiny_llama), before)


def test_a_cache_from_outside_the_block_needs_keys(tiny_llama: Any) -> None:
    ids, _, _ = batch()
    with torch.no_grad():
        cache = tiny_llama(input_ids=ids[:, :PREFIX], use_cache=True).past_key_values
    injection = family(tiny_llama).at("gaussian", 0.5)
    with (
        pytest.raises(UserError, match="no keys for its corruption"),
        medic(tiny_llama, corruption=injection),
    ):
        tiny_llama(input_ids=ids[:, PREFIX:], past_key_values=cache)


def test_a_query_conditioned_operator_cannot_repair_at_rest(tiny_llama: Any) -> None:
    operator = build_operator(RepairConfig(protect_layers="all"), Geometry.of(tiny_llama))
    with pytest.raises(UserError, match="conditioned on the query"):
        run(tiny_llama, lambda cache, keys, mask: operator.repair_cache(cache, mask))


def test_encoders_are_refused() -> None:
    from transformers import BertConfig, BertLMHeadModel, T5Config, T5ForConditionalGeneration

    small = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    with pytest.raises(UserError, match="encoder-only"):
        check_decoder(BertLMHeadModel(BertConfig(**small, intermediate_size=16)))
    with pytest.raises(UserError, match="encoder-decoder"):
        check_decoder(T5ForConditionalGeneration(T5Config(vocab_size=32, d_model=16, d_ff=16, num_layers=1)))


def test_a_guard_sees_every_read_and_every_write_of_the_cache(tiny_llama: Any) -> None:
    calls: list[tuple[str, int]] = []

    class Watch:
        def before_forward(self, cache: Any, attention_mask: Tensor | None) -> None:
            calls.append(("before", cache.get_seq_length()))

        def after_forward(
            self,
            cache: Any,
            input_ids: Tensor | None,
            attention_mask: Tensor | None,
            position_ids: Tensor | None = None,
        ) -> None:
            assert input_ids is not None
            calls.append(("after", cache.get_seq_length()))

        def finish(self) -> None:
            calls.append(("finish", TOTAL))

    with medic(tiny_llama, guard=cast(Any, Watch())):
        run(tiny_llama)
    assert calls == [("after", PREFIX), ("before", PREFIX), ("after", TOTAL), ("finish", TOTAL)]
