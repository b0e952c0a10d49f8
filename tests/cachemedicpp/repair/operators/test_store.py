"""Stored operators come back bit for bit, and only to the model they were made for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from cachemedicpp.cache.state import Geometry
from cachemedicpp.repair.attach import medic
from cachemedicpp.repair.base import load_repair
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.repair.operators import build_operator
from cachemedicpp.repair.operators.store import save
from homeostat.core.errors import UserError


def stored(folder: Path, model: Any, family: str = "A") -> Any:
    config = RepairConfig.model_validate({"family": family, "protect_layers": (0, 2), "rank": 4})
    operator = build_operator(config, Geometry.of(model), seed=3)
    save(operator, folder, config, model, "c" * 64, {"steps": 1})
    return operator


@pytest.mark.parametrize("family", ["A", "B", "C"])
def test_an_operator_survives_storage_bit_for_bit(tmp_path: Path, tiny_llama: Any, family: str) -> None:
    operator = stored(tmp_path / "op", tiny_llama, family)
    again: Any = load_repair(tmp_path / "op", tiny_llama)
    assert (again.name, again.layers) == (family, (0, 2))
    for (name, a), (_, b) in zip(operator.state_dict().items(), again.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
    card = json.loads((tmp_path / "op" / "card.json").read_text())
    assert card["family"] == family and card["geometry"]["kv_heads"] == 2 and card["config_hash"] == "c" * 64
    assert sorted(path.name for path in (tmp_path / "op").iterdir()) == ["card.json", "operator.safetensors"]


def test_a_model_of_another_shape_is_refused_with_both_shapes(
    tmp_path: Path, tiny_llama: Any, tiny_gpt2: Any
) -> None:
    stored(tmp_path / "op", tiny_llama)
    both = r"3 layers × 2 KV heads × 16 .*3 layers × 4 KV heads × 16"
    with pytest.raises(UserError, match=both):
        load_repair(tmp_path / "op", tiny_gpt2)
    with pytest.raises(UserError, match=both), medic(tiny_gpt2, repair=load_repair(tmp_path / "op")):
        pass


def test_an_operator_belongs_to_weights_and_not_to_where_they_were_loaded_from(
    tmp_path: Path, tiny_llama: Any
) -> None:
    from transformers import AutoModelForCausalLM

    stored(tmp_path / "op", tiny_llama)
    tiny_llama.save_pretrained(tmp_path / "elsewhere")
    same: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "elsewhere")
    load_repair(tmp_path / "op", same)
    with torch.no_grad():
        same.model.layers[2].self_attn.k_proj.weight.mul_(1.5)
    with pytest.raises(UserError, match=r"has other weights .* strict=False"):
        load_repair(tmp_path / "op", same)
    with medic(same, repair=load_repair(tmp_path / "op", same, strict=False)):
        pass


def test_an_operator_whose_numbers_were_changed_is_refused(tmp_path: Path, tiny_llama: Any) -> None:
    stored(tmp_path / "op", tiny_llama)
    data = bytearray((tmp_path / "op" / "operator.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "op" / "operator.safetensors").write_bytes(data)
    with pytest.raises(UserError, match="was changed: its SHA-256"):
        load_repair(tmp_path / "op", tiny_llama)


def test_missing_and_damaged_operators_are_refused_never_replaced(tmp_path: Path, tiny_llama: Any) -> None:
    with pytest.raises(UserError, match="holds no repair"):
        load_repair(tmp_path)
    stored(tmp_path / "op", tiny_llama)
    card = json.loads((tmp_path / "op" / "card.json").read_text())
    card["shapes"] = {}
    (tmp_path / "op" / "card.json").write_text(json.dumps(card))
    with pytest.raises(UserError, match="does not match its card"):
        load_repair(tmp_path / "op")
    (tmp_path / "op" / "operator.safetensors").write_bytes(b"torn")
    with pytest.raises(UserError, match="cannot read"):
        load_repair(tmp_path / "op")
    (tmp_path / "op" / "card.json").write_text("{")
    with pytest.raises(UserError, match="damaged record"):
        load_repair(tmp_path / "op")
