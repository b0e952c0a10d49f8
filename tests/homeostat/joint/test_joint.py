"""The joint experiment: arms, measures worked out by hand, and a very small run on the real model."""

from __future__ import annotations

from pathlib import Path

import pytest

from homeostat.core.config import load_config
from homeostat.core.errors import UserError
from homeostat.core.records import read_record
from homeostat.joint.config import Arm, JointConfig
from homeostat.joint.measures import r_raw


def test_the_clean_arm_comes_first_so_that_canons_are_clean() -> None:
    config = JointConfig(epsilons=(0.1, 0.2), defences=("none", "guard"))
    assert config.arms[0] == Arm(0.0, "none") and config.arms[0].label == "clean"
    assert [arm.label for arm in config.arms[1:]] == [
        "none @ 0.1",
        "guard @ 0.1",
        "none @ 0.2",
        "guard @ 0.2",
    ]


def test_r_raw_is_the_mean_modal_share_over_contracts() -> None:
    found = r_raw([["a", "a", "b", "c"], ["x", "x", "x", "y"]])  # (2/4 + 3/4) / 2
    assert found["estimate"] == pytest.approx(0.625)
    assert 0.0 < found["low"] < 0.625 < found["high"] < 1.0


@pytest.mark.parametrize("name", ["joint", "joint-small"])
def test_shipped_joint_configurations_are_valid(name: str) -> None:
    assert load_config(JointConfig, name).contracts


@pytest.mark.model
@pytest.mark.usefixtures("default_model")
def test_a_very_small_joint_run_records_every_arm(tmp_path: Path) -> None:
    from homeostat.joint.experiment import run_joint

    config = JointConfig(
        contracts=("is_even",),
        samples=2,
        batch_size=2,
        max_new_tokens=8,
        epsilons=(1.0,),
        defences=("none", "smoothing", "guard"),
    )
    metrics = run_joint(config, tmp_path / "run", None, workers=1)
    arms = metrics["joint.arms"]
    assert [arm["label"] for arm in arms] == ["clean", "none @ 1", "smoothing @ 1", "guard @ 1"]
    assert all(arm["n"] == 2 for arm in arms)
    written = [
        read_record(tmp_path / f"run/stages/is_even-{number:03d}.json", "stage_record")["result"]
        for number in range(4)
    ]
    assert written[3] == written[0] != written[1]  # what the guard heals is what was never damaged
    assert (tmp_path / "run/paper/figures/joint.png").stat().st_size > 10_000
    rows = (tmp_path / "run/paper/tables/joint.md").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 2 + 4 and rows[-1].startswith("| 1 | guard | 0.00 [0.00, ")


def test_an_unknown_defence_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    from homeostat.joint.experiment import run_joint

    with pytest.raises(UserError, match="unknown defence 'gard'; did you mean 'guard'"):
        run_joint(JointConfig(defences=("gard",)), tmp_path / "run", None, workers=1)
    assert not (tmp_path / "run").exists()
