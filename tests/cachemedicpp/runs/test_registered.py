"""What a user registers is known by name everywhere, and mistakes in names are refused before any work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from cachemedicpp.corruption import CORRUPTIONS, Corruption, under
from cachemedicpp.corruption import register as register_corruption
from cachemedicpp.plots.drawing import read_metrics
from cachemedicpp.plots.figures import score_vs_eps
from cachemedicpp.repair.heuristics import heuristic
from cachemedicpp.repair.heuristics.smoothing import Smoothing
from cachemedicpp.repair.operators.gated import Gated
from cachemedicpp.repair.operators.layerwise import layerwise
from cachemedicpp.repair.operators.lowrank import LowRankConfig
from cachemedicpp.repair.registry import DEFENCES, register, trained
from cachemedicpp.runs.defences import check_defence_names
from cachemedicpp.runs.ood import load_splits
from cachemedicpp.runs.pipeline import run_stages
from cachemedicpp.tasks import TASKS, Example, Score, Task
from cachemedicpp.tasks import register as register_task
from cachemedicpp.tasks.base import rows
from cachemedicpp.tasks.config import MedicConfig
from homeostat.cli.schema import config_schema
from homeostat.core.config import ConfigModel, parse_config
from homeostat.core.errors import UserError
from homeostat.core.records import read_jsonl
from homeostat.core.registry import SHOWN, Registry, Shown
from homeostat.report import build


@pytest.fixture
def registered() -> Iterator[None]:
    """One corruption type, one task, one heuristic and one trained operator, gone again afterwards."""
    shown = set(SHOWN)

    @register_corruption("too_long", "too long", "Damage: vectors are stretched.")
    class TooLong(Corruption):
        factor: float = Field(1.5, gt=0)

        def at(self, epsilon: float) -> TooLong:
            return self.but(factor=1.0 + epsilon)

        @property
        def is_identity(self) -> bool:
            return self.factor == 1.0

        def apply(self, x: Any, mask: Any, stream: Any, site: Any) -> Any:
            return under(mask, x * self.factor, x)

    class CapitalsConfig(ConfigModel):
        n: int = Field(2, ge=1)

    @register_task("capitals", "capitals accuracy", settings=CapitalsConfig)
    class Capitals(Task):
        @classmethod
        def build(cls, config: Any, model: Any, tokenizer: Any) -> Capitals:
            stored = tuple(tokenizer("The capital of France is Paris. " * 3)["input_ids"])
            examples = [
                Example(f"capitals:{i}", stored, (70,), (80, 81)) for i in range(config.data.capitals.n)
            ]
            return cls.of(config.corruption.axes, examples, {})

        def score(self, model: Any, example: Example, cache: Any, forks: int) -> list[Score]:
            logits = model(rows(example.query, forks, model), past_key_values=cache).logits[:, -1]
            return [Score(float(row[80] > row[81])) for row in logits]

    @register("mine", "mine of all", "A heuristic: smoothing by another name.")
    class Mine(Smoothing):
        pass

    @trained("mine_trained", "trained by me", "A trained repair.", colour=5, order=30, settings=LowRankConfig)
    def operator(config: Any, geometry: Any) -> Any:
        return layerwise(config, geometry, lambda: Gated(geometry.head_dim, config.rank, 1))

    yield
    for registry, name in (
        (CORRUPTIONS, "too_long"),
        (TASKS, "capitals"),
        (DEFENCES, "mine"),
        (DEFENCES, "mine_trained"),
    ):
        registry.remove(name)  # type: ignore[attr-defined]
    for name in set(SHOWN) - shown:
        del SHOWN[name]


def configured(**evaluation: object) -> MedicConfig:
    return parse_config(MedicConfig, {"eval": evaluation}, "test")


def test_what_is_registered_is_trained_on_evaluated_drawn_and_shown(
    registered: None, small_setup: Any, open_small: Any
) -> None:
    training = {"steps": 4, "batch_size": 2, "prefix_len": 40, "continuation_len": 8, "heldout_sequences": 0}
    setup = small_setup(
        train={**training, "clean_batch_prob": 0.0},
        data__capitals={"n": 3},
        corruption__mixture={"too_long": 1.0},
        corruption__params={"factor": 2.0, "overwrite_window": [8, 20]},
        eval__families=["A", "mine_trained"],
        eval__tasks=["capitals"],
        eval__defences=["mine", "A", "mine_trained"],
        eval__corruption_eval={"eps": [0.5], "types": ["too_long"]},
        stability__enabled=False,
    )
    with open_small(setup.config) as run:
        run_stages(setup, run)
        run.finish()
        events = [e for r in read_jsonl(run.path / "logs/train.jsonl") for e in r["corruption"]]
        assert {(e["type"], e["severity"]["factor"]) for e in events} == {("too_long", 2.0)}
        assert (run.path / "paper/figures/figA_score_vs_eps.png").exists()
        panel = score_vs_eps(read_metrics(run.path, "task_metrics")).axes[0]
        assert {"A low-rank", "trained by me"} <= set(panel.get_legend_handles_labels()[1])
        assert panel.get_title() == "too long"
        page = build(run.path)
    table = Path(run.path / "paper/tables/table_main_results.tex").read_text()
    assert "mine of all" in table and "trained by me" in table
    rows_ = next(b for s in page.data["sections"] for b in s["blocks"] if b.get("id") == "auc")["rows"]
    assert {"A", "mine_trained", "mine", "mine:oracle"} <= {row[0] for row in rows_}
    assert load_splits()["loto_holdout_too_long"].test_type == "too_long"
    schema = json.dumps(config_schema())
    assert all(f'"{name}"' in schema for name in ("too_long", "factor", "capitals", "mine_trained"))


def test_another_package_adds_entries_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    registry: Registry[int] = Registry("thing", "cachemedicpp.corruption")

    class Entry:
        def load(self) -> None:
            registry.add("theirs", 1, Shown("damage", "theirs"))

    found = {"cachemedicpp.corruption": [Entry()]}
    monkeypatch.setattr("homeostat.core.registry.entry_points", lambda group: found[group])
    monkeypatch.delitem(SHOWN, "theirs", raising=False)
    assert list(registry) == ["theirs"] and SHOWN["theirs"].name == "theirs"
    del SHOWN["theirs"]


def test_a_registered_repair_is_a_defence_and_an_unknown_one_is_refused(registered: None) -> None:
    check_defence_names(configured(defences=["mine"]))
    assert heuristic("mine", [1]).layers == (1,)
    with pytest.raises(UserError, match=r"unknown defence 'mien'.*mine"):
        check_defence_names(configured(defences=["mien"]))


def test_a_run_that_would_compare_nothing_is_refused_at_once() -> None:
    with pytest.raises(UserError, match="at least one defence"):
        check_defence_names(configured(defences=["none"]))


def test_settings_of_a_registered_task_are_checked_like_others(registered: None) -> None:
    raw = {"data": {"capitals": {"n": 0}}}
    with pytest.raises(UserError, match=r"data.capitals.n = 0: must be at least"):
        parse_config(MedicConfig, raw, "test")
    with pytest.raises(UserError, match=r"unknown key 'data.capitols'; did you mean 'capitals'"):
        parse_config(MedicConfig, {"data": {"capitols": {}}}, "test")


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(UserError, match="unknown task 'capitals'"):
        configured(tasks=["capitals"])
    assert MedicConfig().eval.tasks == ["wikitext2", "sst2", "needle"]
