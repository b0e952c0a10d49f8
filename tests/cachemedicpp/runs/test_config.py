"""Configurations that ship are valid, the schema is in step, and mistakes are one clear line."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from cachemedicpp.corruption.config import default_types
from cachemedicpp.repair.config import RepairConfig
from cachemedicpp.tasks.config import MedicConfig
from homeostat.core.config import load_config, resolved
from homeostat.core.errors import UserError
from homeostat.core.resources import resource

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "name", ["smoke", "mve", *(f"models/{p.stem}" for p in (ROOT / "configs/models").glob("*.yaml"))]
)
def test_shipped_configurations_are_valid(name: str) -> None:
    config = load_config(MedicConfig, name)
    schema = json.loads(resource("schemas/config.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(resolved(config), schema)


def test_the_default_mixture_file_is_the_default() -> None:
    config = load_config(MedicConfig, "corruption/default_mix")
    assert config.corruption == MedicConfig().corruption
    assert sum(config.corruption.mixture.values()) == pytest.approx(1.0)


def test_there_is_one_leave_one_out_split_a_type() -> None:
    splits = yaml.safe_load(resource("configs/corruption/ood_splits.yaml").read_text(encoding="utf-8"))
    assert set(splits) == {f"loto_holdout_{name}" for name in default_types()}
    for name, split in splits.items():
        assert name.endswith(split["test_type"])
        assert {*split["train_types"], split["test_type"]} == set(default_types())
        assert split["test_type"] not in split["train_types"]


def test_blocks_of_layers_follow_the_depth_of_the_model() -> None:
    def layers(spec: str) -> tuple[int, ...]:
        return RepairConfig(protect_layers=spec).layers(30)

    assert (
        layers("early:2") == (0, 1) and layers("late:2") == (28, 29) and layers("mid:4") == (13, 14, 15, 16)
    )
    assert layers("all") == tuple(range(30))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("repair.protect_layers=[]", "at least one layer"),
        ("repair.protect_layers=middle", "early:N, mid:N, late:N"),
        ("corruption.params.quant_bits=1", "quant_bits = 1: must be at least 2"),
        ("corruption.axes.window=[8, 8]", "a must be below b"),
        ("corruption.axes.time_mode=window", r"needs `window: \[a, b\]`"),
        ("corruption.axes.head_mode=targeted", "at least one head"),
        ("corruption.axes.layer_mode=targeted", "at least one layer"),
        ("corruption.mixture={gausian: 1}", "gausian"),
        ("corruption.mixture={gaussian: 0}", "a weight above 0"),
        ("repair.alpha_max=1.0", "less than 1"),
        ("train.learning_rate=1", "unknown key 'train.learning_rate'"),
    ],
)
def test_mistakes_are_named(override: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_config(MedicConfig, None, [override])
