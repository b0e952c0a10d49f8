"""Blocks with valid checksums that are not of their tokens are computed again; those that are, are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cachemedicpp.engines.fake import SIZE, FakeCache
from transformers import LlamaConfig, LlamaForCausalLM

from cachemedicpp.engines.blocks.audit import Auditor
from cachemedicpp.engines.blocks.paged import PagedCache
from cachemedicpp.engines.blocks.plan import Loaded, RequestStep, StepPlan
from cachemedicpp.engines.blocks.watch import Watch
from cachemedicpp.engines.events import Events
from cachemedicpp.engines.settings import GuardSettings
from cachemedicpp.engines.vllm.sources import StoreSource
from homeostat.core.errors import UserError

TOKENS = tuple(range(3 * SIZE))


class Auditing:
    """A guard whose auditor takes a block for right if it holds its tokens."""

    def __init__(self, hits: bool = False) -> None:
        self.cache, self.asked = FakeCache(16), 0
        self.watch = Watch(self.cache, Events(), audit=self.audit, audit_hits=hits)

    def audit(self, blocks: Sequence[int], tokens: Sequence[int]) -> Mapping[int, str]:
        self.asked += 1
        stored = self.cache.content[list(blocks)].ravel().tolist()
        wrong = (i for i, (a, b) in enumerate(zip(stored, tokens, strict=False)) if a != b)
        return {blocks[i // SIZE]: "not of its tokens" for i in wrong}

    def hit(self, name: str, blocks: tuple[int, ...], load: Sequence[int] = ()) -> set[int]:
        """A request that finds its first blocks; those in `load` come from a store, with fingerprints."""
        known = (len(blocks) - 1) * SIZE
        plan = StepPlan([RequestStep(name, blocks, known, known + 1, True, TOKENS[:known])])
        spans = self.watch.begin(plan)
        for block in load:
            self.watch.load(spans[0], block, self.cache.sums([block], [SIZE])[0], broken=False)
        return self.watch.end(spans)


def test_intact_blocks_of_another_text_are_reported_and_no_others() -> None:
    engine = Auditing()
    engine.cache.content[1:4].ravel()[:] = TOKENS
    engine.cache.content[2] += 100  # foreign, whatever its fingerprint says
    assert engine.hit("a", (1, 2, 3, 9), load=[1, 2, 3]) == {2}
    counts = engine.watch.events.counts
    assert (counts.audited, counts.foreign, counts.unknown) == (3, 1, 0)
    assert engine.watch.foreign == {2} and 2 in engine.watch.quarantine


def test_a_block_is_audited_once_and_again_when_it_was_loaded_again() -> None:
    engine = Auditing()
    engine.cache.content[1:3].ravel()[:] = TOKENS[: 2 * SIZE]
    assert engine.hit("a", (1, 2, 9)) == set() and engine.asked == 1
    assert engine.hit("b", (1, 2, 10)) == set() and engine.asked == 1
    engine.cache.content[2] = 77
    assert engine.hit("c", (1, 2, 11), load=[2]) == {2} and engine.asked == 2


@pytest.mark.parametrize("hits", [False, True])
def test_blocks_that_were_computed_here_are_audited_only_where_that_is_asked(hits: bool) -> None:
    engine = Auditing(hits)
    spans = engine.watch.begin(StepPlan([RequestStep("a", (1,), 0, SIZE, admitted=True)]))
    engine.cache.content[1] = 55  # computed wrong, and fingerprinted as it is
    assert engine.watch.end(spans) == set()
    assert engine.hit("b", (1, 9)) == ({1} if hits else set())


def test_what_is_not_of_its_tokens_leaves_the_store_and_is_stored_anew(tmp_path: Path) -> None:
    def audit(blocks: Sequence[int], tokens: Sequence[int]) -> Mapping[int, str]:
        return {block: "not of its tokens" for block in blocks if float(cache.layers[0][block].min()) < 0}

    cache, events = PagedCache({"0": torch.zeros(8, 2, SIZE, 4)}, 8, SIZE), Events()
    watch = Watch(cache, events, audit=audit)
    source = StoreSource(GuardSettings.read({"mode": "store", "store": str(tmp_path)}), "m", SIZE, events)
    cache.layers[0][1], cache.layers[0][2] = 1.0, -1.0
    for key, block in (("aa", 1), ("bb", 2)):  # both whole; one is another text's
        source.store.write(key, cache.layout, cache.read(block), cache.sums([block], [SIZE])[0])
    known = 2 * SIZE
    steps = [RequestStep("r", (4, 5, 6), known, known + 1, True, TOKENS[:known])]
    plan = StepPlan(steps, loads=[Loaded("r", 4, "aa"), Loaded("r", 5, "bb")], keys={"r": ("aa", "bb")})
    spans = watch.begin(plan)
    source.load(plan, spans, watch, None)
    assert events.counts.loaded == 2 and watch.end(spans) == {5}
    source.save(plan, watch)
    assert "aa" in source.store and "bb" not in source.store and events.counts.refused == 1
    plan = StepPlan([RequestStep("r", (), SIZE, known + 1)])
    spans = watch.begin(plan)
    cache.layers[0][5] = 2.0
    assert watch.end(spans) == set()
    source.save(plan, watch)
    source.store.flush()
    assert "bb" in source.store and float(source.store.load("bb", cache.layout)[0].min()) == 2.0


def test_what_cannot_be_set_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        GuardSettings.read({"audit": str(tmp_path / "none")})
    with pytest.raises(UserError, match="needs audit"):
        GuardSettings.read({"audit_hits": True})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    torch.manual_seed(0)
    shape = {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 3}
    config = LlamaConfig(**shape, num_attention_heads=4, num_key_value_heads=2, initializer_range=0.2)
    made = LlamaForCausalLM(config).eval()
    folder = tmp_path_factory.mktemp("model")
    made.save_pretrained(folder)
    return made, folder


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_with_the_model_foreign_shifted_and_transposed_blocks_are_found_in_a_paged_cache(
    model: tuple[Any, Path], dtype: torch.dtype
) -> None:
    llm, folder = model
    size, count = 16, 4
    ids = torch.randint(0, 512, (2, size * count), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        caches = [llm(row[None], use_cache=True).past_key_values for row in ids]
    layers = {str(n): torch.zeros(2 * count, 2, size, 32, dtype=dtype) for n in range(3)}
    order = torch.arange(2 * size * 32).view(2, size, 32)
    order = torch.stack((order[..., :16], order[..., 16:]))
    paged = PagedCache(layers, 2 * count, size, order)
    for row, cache in enumerate(caches):
        for number, layer in enumerate(cache.layers):
            for block in range(count):
                at = slice(block * size, (block + 1) * size)
                paged.put_kv(row * count + block, number, layer.keys[0, :, at], layer.values[0, :, at])
    auditor, mine, tokens = Auditor(str(folder)), list(range(count)), ids[0].tolist()
    assert auditor.foreign(paged, mine, tokens) == {}
    foreign, shifted = [0, 1, count + 2, 3], [0, 2, 1, 3]
    assert set(auditor.foreign(paged, foreign, tokens)) >= {count + 2}
    assert set(auditor.foreign(paged, shifted, tokens)) >= {1, 2}
    for layer in paged.layers:
        layer[1] = layer[1].transpose(1, 2).reshape(layer[1].shape)
        layer[2, 0, 0, 0] = float("nan")
    found = auditor.foreign(paged, mine, tokens)
    assert {1, 2} <= set(found) and found[2] == "not finite" and 0 not in found
