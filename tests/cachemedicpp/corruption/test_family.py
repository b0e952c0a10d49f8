"""Draws: the same seed gives the same bytes, whatever the batch, the process or the mode."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from cachemedicpp.cache.state import KV, Geometry, KVState
from cachemedicpp.corruption import CORRUPTIONS, CorruptionFamily, sequence_keys
from cachemedicpp.corruption.config import AxesConfig, CorruptionConfig, CorruptionParams
from cachemedicpp.corruption.donor import Donor
from homeostat.core.errors import UserError

GEOMETRY = Geometry(layers=3, heads=4, kv_heads=2, head_dim=8)
CONFIG = CorruptionConfig(
    axes=AxesConfig(N_recent=4, head_mode="all"), params=CorruptionParams(overwrite_window=(2, 8))
)


class FakeDonor(Donor):
    def __init__(self) -> None:
        pass

    def kv(self, layer: int, length: int, which: int = 0) -> KV:
        return KV(torch.full((2, length, 8), 7.0 + layer), torch.full((2, length, 8), -7.0))


def family(seed: int = 0, config: CorruptionConfig = CONFIG) -> CorruptionFamily:
    return CorruptionFamily(config, GEOMETRY, (0, 2), seed, FakeDonor())


def cache(batch: int = 4, length: int = 20) -> DynamicCache:
    generator = torch.Generator().manual_seed(5)
    filled = DynamicCache()
    for layer in range(3):
        filled.update(*torch.randn(2, batch, 2, length, 8, generator=generator), layer)
    return filled


KEYS = ["a", "b", "c", "d"]


@pytest.mark.parametrize("name", [*sorted(CORRUPTIONS), "mixture"])
def test_a_sequence_is_damaged_the_same_alone_and_in_a_batch_and_under_left_padding(name: str) -> None:
    injection = family().mixture() if name == "mixture" else family().at(name, 0.3)
    whole = cache()
    injection.corrupt_cache(whole, KEYS)
    alone = KVState(cache()).rows([2]).cache()
    injection.corrupt_cache(alone, ["c"])
    assert torch.equal(whole.layers[2].keys[2], alone.layers[2].keys[0])
    assert torch.equal(whole.layers[0].values[2], alone.layers[0].values[0])

    pad = torch.nn.functional.pad  # three positions of padding before the same sequence
    padded = DynamicCache()
    for layer, (K, V) in enumerate(KVState(cache()).rows([2])):
        padded.update(pad(K, (0, 0, 3, 0)), pad(V, (0, 0, 3, 0)), layer)
    mask = torch.tensor([[0] * 3 + [1] * 20])
    injection.corrupt_cache(padded, ["c"], mask)
    assert torch.equal(padded.layers[2].keys[0, :, 3:], alone.layers[2].keys[0])
    assert not padded.layers[2].keys[0, :, :3].any()


def test_untouched_layers_and_epsilon_zero_keep_their_tensors() -> None:
    clean = cache()
    before = [layer.keys for layer in clean.layers]
    family().at("gaussian", 0.5).corrupt_cache(clean, KEYS)
    assert clean.layers[1].keys is before[1] and clean.layers[0].keys is not before[0]
    for name in CORRUPTIONS:
        same = cache()
        tensors = [(layer.keys, layer.values) for layer in same.layers]
        family().at(name, 0.0).corrupt_cache(same, KEYS)
        assert all(
            a is layer.keys and b is layer.values for (a, b), layer in zip(tensors, same.layers, strict=True)
        )


def test_other_seeds_sequences_and_draws_give_other_damage() -> None:
    def damaged(seed: int = 0, key: str = "a", draw: int = 0) -> torch.Tensor:
        one = KVState(cache()).rows([0]).cache()
        family(seed).at("gaussian", 0.5, draw).corrupt_cache(one, [key])
        return one.layers[0].keys

    assert torch.equal(damaged(), damaged())
    for other in (damaged(seed=1), damaged(key="b"), damaged(draw=1)):
        assert not torch.equal(damaged(), other)


def test_keys_and_values_are_flipped_independently() -> None:
    same = DynamicCache()
    for layer in range(3):
        x = torch.ones(1, 2, 20, 8)
        same.update(x, x.clone(), layer)
    family().at("bitflipish_sparse", 0.3).corrupt_cache(same, ["a"])
    assert not torch.equal(same.layers[0].keys, same.layers[0].values)


def test_another_process_makes_the_same_bytes() -> None:
    code = (
        "import sys, hashlib; sys.path.insert(0, sys.argv[1]); import test_family as t\n"
        "c = t.cache(); t.family(3).mixture().corrupt_cache(c, t.KEYS)\n"
        "print(hashlib.sha256(b''.join(l.keys.numpy().tobytes() for l in c.layers)).hexdigest())"
    )
    here = str(Path(__file__).parent)
    runs = [subprocess.run([sys.executable, "-c", code, here], capture_output=True, text=True, check=True)]
    import hashlib

    ours = cache()
    family(3).mixture().corrupt_cache(ours, KEYS)
    digest = hashlib.sha256(b"".join(layer.keys.numpy().tobytes() for layer in ours.layers)).hexdigest()
    assert runs[0].stdout.strip() == digest


def test_the_mixture_draws_each_type_about_as_often_as_its_weight() -> None:
    keys = [str(i) for i in range(2000)]
    events = family().mixture().plan(keys, 20).events
    counts = Counter(event.type for event in events)
    for name, weight in CONFIG.mixture.items():
        assert abs(counts[name] / 2000 - weight) < 0.03, name


def test_weights_are_renormalised_and_a_type_without_weight_never_comes() -> None:
    config = CONFIG.model_copy(update={"mixture": {"gaussian": 3.0, "dropout_zero": 1.0, "quant_noise": 0.0}})
    counts = Counter(
        e.type for e in family(config=config).mixture().plan([str(i) for i in range(1000)], 20).events
    )
    assert set(counts) == {"gaussian", "dropout_zero"}
    assert abs(counts["gaussian"] / 1000 - 0.75) < 0.05


def test_training_severities_are_drawn_from_the_given_epsilons() -> None:
    config = CONFIG.model_copy(update={"train_eps": (0.1, 0.4)})
    events = family(config=config).mixture().plan([str(i) for i in range(200)], 20).events
    assert {event.epsilon for event in events} == {0.1, 0.4}


def test_training_and_evaluation_never_draw_the_same_noise_rotation_or_donor() -> None:
    keys = [str(i) for i in range(60)]
    evaluating = family()
    training = evaluating.for_training(None, range(997))
    seen: dict[str, set[str]] = {"noise": set(), "rotation": set(), "donor": set()}
    for draw in range(3):
        for event in training.mixture(draw=draw).plan(keys, 20).events:
            for what, drawn in event.drawn.items():
                seen[what].add(drawn)
    assert len(seen["noise"]) == 180 and len(seen["rotation"]) > 10 and len(seen["donor"]) > 5
    for name in CORRUPTIONS:
        for event in evaluating.at(name, 0.3).plan(keys, 20).events:
            assert all(drawn not in seen[what] for what, drawn in event.drawn.items())


def test_every_sequence_is_turned_by_a_rotation_of_its_own() -> None:
    events = family().at("orthogonal_rotation", 1.0).plan(KEYS, 20).events
    assert len({event.drawn["rotation"] for event in events}) == len(KEYS)


def test_a_map_that_undoes_a_training_rotation_undoes_no_rotation_of_the_evaluation() -> None:
    """The least-squares map fitted on all training pairs of one sequence, tried on the other draws."""
    training = family().for_training(None, range(997))

    def pair(which: CorruptionFamily, key: str) -> tuple[torch.Tensor, torch.Tensor]:
        clean, bad = KVState(cache()).rows([0]).cache(), KVState(cache()).rows([0]).cache()
        which.at("orthogonal_rotation", 1.0).corrupt_cache(bad, [key])
        return bad.layers[0].keys[0, :, :16].reshape(-1, 8), clean.layers[0].keys[0, :, :16].reshape(-1, 8)

    turned, clean = pair(training, "a")
    undo = torch.linalg.lstsq(turned, clean).solution
    torch.testing.assert_close(turned @ undo, clean, atol=1e-4, rtol=1e-4)
    for other in (pair(training, "b"), pair(family(), "a")):
        assert float((other[0] @ undo - other[1]).norm() / other[1].norm()) > 0.5


def test_a_family_is_fitted_to_caches_shorter_than_its_overwrite_window() -> None:
    wide = CONFIG.model_copy(update={"params": CorruptionParams(overwrite_window=(2, 300))})
    with pytest.raises(UserError, match="overwrite_window"):
        family(config=wide).at("contiguous_overwrite", 1.0).plan(["a"], 20)
    plan = family(config=wide).fitted(20).at("contiguous_overwrite", 1.0).plan(["a"], 20)
    assert plan.mask(0)[0, 0].nonzero().flatten().tolist() == list(range(2, 16))


def test_events_say_type_severity_and_mask_and_masks_are_true_to_the_damage() -> None:
    clean, bad = cache(), cache()
    plan = family().at("gaussian", 0.5).corrupt_cache(bad, KEYS)
    event = plan.events[0].as_record()
    assert event["type"] == "gaussian" and event["severity"] == {"epsilon": 0.5} and event["key"] == "a"
    assert event["mask"] == {"heads": {"0": [0, 1], "2": [0, 1]}, "positions": 16, "first": 0, "last": 15}
    for layer in plan.protected:
        mask = plan.mask(layer)
        changed = (clean.layers[layer].keys != bad.layers[layer].keys).any(-1)
        assert torch.equal(changed, mask)


def test_targeted_types_reach_only_their_layer_and_head() -> None:
    config = CONFIG.model_copy(
        update={"axes": AxesConfig(N_recent=4, head_mode="all", layers=(2,), heads=(1,))}
    )
    clean, bad = cache(), cache()
    plan = family(config=config).at("targeted:gaussian", 0.5).corrupt_cache(bad, KEYS)
    assert plan.events[0].type == "targeted:gaussian"
    assert bad.layers[0].keys is not None and torch.equal(bad.layers[0].keys, clean.layers[0].keys)
    assert torch.equal(bad.layers[2].keys[:, 0], clean.layers[2].keys[:, 0])
    assert not torch.equal(bad.layers[2].keys[:, 1], clean.layers[2].keys[:, 1])


def test_unknown_types_and_impossible_severities_are_refused() -> None:
    with pytest.raises(UserError, match="unknown corruption type 'gausian'; did you mean 'gaussian'"):
        family().at("gausian")
    with pytest.raises(UserError, match="epsilon = -1"):
        family().at("gaussian", -1.0)
    with pytest.raises(UserError, match=r"'targeted:gaussian' needs corruption.axes.layers or"):
        family().at("targeted:gaussian", 0.5)
    with pytest.raises(UserError, match="2 keys for a batch of 4"):
        family().at("gaussian", 0.1).corrupt_cache(cache(), ["a", "b"])


def test_sequence_keys_see_the_tokens_and_not_the_padding() -> None:
    short = sequence_keys(torch.tensor([[5, 6]]))
    padded = sequence_keys(
        torch.tensor([[0, 0, 5, 6], [1, 2, 5, 6]]), torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    )
    assert padded[0] == short[0] and padded[1] != short[0]


def test_the_donor_prompt_is_repeated_until_it_is_long_enough(default_model: Any) -> None:
    model, tokenizer = default_model
    donor = Donor.of_prompt(model, tokenizer, "one two three")
    assert donor.kv(5, 40).K.shape == (3, 40, 64)
    assert torch.equal(donor.kv(5, 10).K, donor.kv(5, 40).K)
