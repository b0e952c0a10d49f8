"""No tensor is made on the wrong device: damage, heuristics, guard, operators and G, elsewhere."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from tests.support.elsewhere import DEVICE, Elsewhere, WrongDeviceError, elsewhere, moved

from cachemedicpp.cache.prefill import prefill
from cachemedicpp.cache.state import Geometry
from cachemedicpp.corruption import CORRUPTIONS, CorruptionFamily
from cachemedicpp.corruption.config import AxesConfig, CorruptionConfig
from cachemedicpp.guard import Guard
from cachemedicpp.repair.attach import medic
from cachemedicpp.repair.base import Repair
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.gaussian import store
from cachemedicpp.repair.gaussian.calibrate import calibrate
from cachemedicpp.repair.heuristics import heuristic, heuristics, measure_levels
from cachemedicpp.repair.operators import build_operator

IDS = list(range(5, 40))


@pytest.fixture(scope="module")
def model(tiny_llama: Any) -> Any:
    """The tiny Llama on another device, with the attention whose every operation is visible."""
    twin = copy.deepcopy(tiny_llama)
    twin.set_attn_implementation("eager")
    return moved(twin.eval().requires_grad_(False))


@pytest.fixture
def family(model: Any, byte_tokenizer: Any) -> CorruptionFamily:
    config = CorruptionConfig(axes=AxesConfig(head_mode="all", N_recent=4))
    layers = range(Geometry.of(model).layers)
    return CorruptionFamily.build(config, model, byte_tokenizer, tuple(layers), 0).fitted(len(IDS) - 1)


def read(model: Any, family: CorruptionFamily, repair: Repair, name: str, oracle: bool = False) -> None:
    """Read the last token through damage and repair, and repair at rest what can be."""
    ids = torch.tensor([IDS], device=model.device)
    damage = family.at(name, 0.3)
    if not repair.whole_cache:
        with medic(model, repair=repair, corruption=damage, oracle=oracle):
            cache = model(ids[:, :-2], use_cache=True).past_key_values
            logits = model(ids[:, -2:], past_key_values=cache).logits
        assert logits.device == DEVICE and bool(logits.isfinite().all())
    if not repair.query_conditioned:
        cache = prefill(model, IDS).cache()
        damage.corrupt_cache(cache, ["k"])
        repair.repair_cache(cache)
        assert cache.layers[0].keys.device == DEVICE


def test_an_operation_on_two_devices_is_noticed() -> None:
    with elsewhere():
        there = torch.arange(6, device=DEVICE).view(2, 3) + 1
        with pytest.raises(WrongDeviceError, match=r"aten\.add"):
            there + torch.ones(3)
        there[0] = 0
        assert isinstance(there, Elsewhere) and there.cpu().tolist() == [[0, 0, 0], [4, 5, 6]]


@pytest.mark.parametrize("name", list(CORRUPTIONS))
def test_every_corruption_type_damages_a_cache_elsewhere(
    model: Any, family: CorruptionFamily, name: str
) -> None:
    with elsewhere():
        clean = prefill(model, IDS)
        cache = clean.cache()
        family.at(name, 0.3).corrupt_cache(cache, ["k"])
        assert cache.layers[0].keys.device == DEVICE
        assert not torch.equal(cache.layers[0].keys.cpu(), clean[0].K.cpu())


@pytest.mark.parametrize("name", heuristics())
def test_every_heuristic_repairs_elsewhere(
    model: Any, family: CorruptionFamily, name: str, tiny_llama: Any
) -> None:
    windows = torch.randint(3, 256, (4, 24), generator=torch.Generator().manual_seed(0))
    layers = tuple(range(Geometry.of(model).layers))
    repair = heuristic(name, layers, measure_levels(tiny_llama, windows), family.config.axes)
    with elsewhere():
        read(model, family, repair, "gaussian", oracle=not repair.query_conditioned)


def test_the_guard_watches_and_heals_elsewhere(model: Any) -> None:
    with elsewhere():
        cache = prefill(model, IDS).cache()
        guard = Guard(model)
        guard.watch(cache, torch.tensor([IDS], device=model.device))
        cache.layers[1].keys[0, 0, 3] *= 2
        assert len(guard.heal(cache)) == 1 and guard.verify(cache) == []


@pytest.mark.parametrize("settings", [{}, {"before_rotary": True}], ids=["stored", "before_rotary"])
@pytest.mark.parametrize("name", ["A", "B", "C", "D"])
def test_every_operator_is_prepared_and_read_elsewhere(
    model: Any, family: CorruptionFamily, name: str, settings: dict[str, Any]
) -> None:
    raw = {"family": name, "protect_layers": "all", "rank": 4, **settings}
    windows = torch.randint(3, 256, (8, 24), generator=torch.Generator().manual_seed(0))
    with elsewhere():
        operator = build_operator(RepairConfig.model_validate(raw), Geometry.of(model))
        operator.prepare(model, lambda: windows)
        moved(operator.requires_grad_(False))
        read(model, family, operator, "gaussian")


def test_g_is_calibrated_and_repairs_elsewhere(model: Any, family: CorruptionFamily) -> None:
    windows = torch.randint(3, 256, (16, 48), generator=torch.Generator().manual_seed(0))
    with elsewhere():
        operator = store.make(calibrate(model, windows), model, {})
        for name in CORRUPTIONS:
            read(model, family, operator, name)
