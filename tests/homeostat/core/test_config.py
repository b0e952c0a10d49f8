"""Configuration errors name the key, the value and what is allowed; the hash depends on settings alone."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from homeostat.core.config import ConfigModel, config_hash, load_config
from homeostat.core.errors import UserError


class Train(ConfigModel):
    lr: float = Field(2e-4, gt=0)
    steps: int = Field(10, ge=1)


class Config(ConfigModel):
    seed: int = 0
    mode: Literal["fast", "full"] = "fast"
    train: Train = Train()


def load(tmp_path: Path, text: str, *overrides: str) -> Config:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return load_config(Config, path, overrides)


def test_overrides_are_laid_over_the_file(tmp_path: Path) -> None:
    config = load(tmp_path, "seed: 3\ntrain: {lr: 0.1}", "train.steps=7", "train.lr=1e-4")
    assert (config.seed, config.train.lr, config.train.steps) == (3, 1e-4, 7)


def test_a_section_given_in_part_keeps_the_rest_of_its_own_default() -> None:
    class Small(ConfigModel):
        train: Train = Train(lr=0.1, steps=2)

    assert load_config(Small, None, ["train.steps=3"]).train == Train(lr=0.1, steps=3)


def test_a_file_lays_its_keys_over_its_base(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("seed: 1\ntrain: {lr: 0.5, steps: 2}")
    config = load(tmp_path, "base: base.yaml\ntrain: {steps: 9}")
    assert (config.seed, config.train.lr, config.train.steps) == (1, 0.5, 9)


def test_a_base_that_leads_back_to_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="leads back"):
        load(tmp_path, "base: c.yaml")


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ("sead: 1", (), r"unknown key 'sead'; did you mean 'seed'\?"),
        ("train: {stepz: 1}", (), r"unknown key 'train.stepz'; did you mean 'steps'\?"),
        ("train: {steps: many}", (), r"train\.steps = 'many': input should be a valid integer"),
        ("train: {lr: -1}", (), r"train\.lr = -1: must be more than 0"),
        ("mode: slow", (), r"mode = 'slow': input should be 'fast' or 'full'"),
        ("seed: 1", ("train.lr",), r"--set 'train.lr': write it as key=value"),
        ("seed: 1", ("seed.x=1",), r"'seed' is a value, not a section"),
        ("seed: [", (), r"not valid YAML"),
        ("- 1", (), r"must be a mapping"),
    ],
)
def test_bad_input_is_one_line_with_key_and_value(
    tmp_path: Path, text: str, overrides: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load(tmp_path, text, *overrides)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UserError, match=r"no such file: nowhere\.yaml"):
        load_config(Config, "nowhere.yaml")


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.booleans() | st.none(), max_size=6))
def test_the_hash_ignores_key_order(settings: dict[str, object]) -> None:
    assert config_hash(settings) == config_hash(dict(reversed(settings.items())))


def test_the_hash_is_sha256_over_canonical_json() -> None:
    # printf '{"a":1,"b":"é"}' | sha256sum
    import hashlib

    assert config_hash({"b": "é", "a": 1}) == hashlib.sha256('{"a":1,"b":"é"}'.encode()).hexdigest()
    assert config_hash(Config()) != config_hash(Config(seed=1))
