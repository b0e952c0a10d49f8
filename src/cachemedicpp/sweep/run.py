"""Sweeps: many runs of one configuration, each in its own run directory, and a table that compares them.

`homeostat cache sweep SWEEP.yaml --out DIR` and `python -m cachemedicpp.sweep SWEEP.yaml --out DIR` are the
same. A sweep can be resumed like a run: the same command again does what is missing. When a run fails, the
others still finish; the sweep then says which run failed and exits with 1.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, model_validator

from cachemedicpp.runs.defences import CALIBRATED
from cachemedicpp.runs.pipeline import figures, load, prepared, run_stages
from cachemedicpp.tasks.config import MedicConfig
from homeostat.core import threads
from homeostat.core.config import ConfigModel, load_config
from homeostat.core.engine import EngineName, run_tasks
from homeostat.core.errors import nearest
from homeostat.core.progress import say
from homeostat.core.records import Record, write_record
from homeostat.core.rundir import check_out, check_writable, hold, open_run

Settings = dict[str, Any]


class Variant(ConfigModel):
    """A named set of overrides."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9_.=+-]+$")
    set: Settings = Field({}, description="dotted setting -> value")


class SweepConfig(ConfigModel):
    """What a sweep runs: every variant and every point of the grid, once per seed."""

    name: str = Field(min_length=1)
    config: str = Field(description="the configuration all runs start from")
    set: Settings = Field({}, description="overrides all runs share")
    seeds: list[int] = Field([0], min_length=1)
    variants: list[Variant] = Field([], description="named variants")
    grid: dict[str, list[Any]] = Field(
        {}, description="dotted setting -> values: every combination is a variant"
    )
    reference: str | None = Field(None, description="the variant others are compared with; null: the first")

    @model_validator(mode="after")
    def _has_runs(self) -> SweepConfig:
        names = [variant.name for variant in expand(self)]
        if not names:
            raise ValueError("a sweep needs `variants` or a `grid`")
        if len(set(names)) != len(names):
            raise ValueError(f"two variants share the name {_repeated(names)!r}")
        if self.reference is not None and self.reference not in names:
            raise ValueError(
                f"reference {self.reference!r} is not a variant; {nearest(self.reference, names)}"
            )
        return self


def expand(sweep: SweepConfig) -> list[Variant]:
    """The variants of a sweep, those of its grid named by what they set."""
    found = list(sweep.variants)
    if sweep.grid:
        for values in itertools.product(*sweep.grid.values()):
            setting = dict(zip(sweep.grid, values, strict=True))
            name = "_".join(f"{key.rsplit('.', 1)[-1]}={_plain(value)}" for key, value in setting.items())
            found.append(Variant(name=name, set=setting))
    return found


def plan(sweep: SweepConfig, out: Path, overrides: Sequence[str] = ()) -> list[Record]:
    """Every run of the sweep: where it goes and what it overrides; `overrides` are added to each."""
    runs = []
    for variant in expand(sweep):
        for seed in sweep.seeds:
            settings = {**sweep.set, **variant.set, "seed": seed}
            runs.append(
                {
                    "config": sweep.config,
                    "variant": variant.name,
                    "seed": seed,
                    "folder": f"{variant.name}/seed_{seed}",
                    "out": str(out / variant.name / f"seed_{seed}"),
                    "overrides": [*(f"{key}={_yaml(value)}" for key, value in settings.items()), *overrides],
                }
            )
    return runs


def run_one(item: Mapping[str, Any]) -> str:
    """One run of a sweep, in whichever process the engine chose."""
    if item.get("threads"):
        import torch

        torch.set_num_threads(int(item["threads"]))
    config = load(item["config"], item["overrides"])
    check_out(item["out"], config)
    setup = prepared(config)
    with open_run(item["out"], command="cache sweep", config=config, config_path=item["config"]) as run:
        shared = Path(item["calibrations"]) / calibration_key(config)
        copy_once(shared, run.path / CALIBRATED)
        run_stages(setup, run)
        copy_once(run.path / CALIBRATED, shared)
        run.finish()
    return str(item["out"])


def run_sweep(
    path: Path, out: Path | None, engine: EngineName, workers: int, overrides: Sequence[str] = ()
) -> int:
    """Run what is missing, compare, write `sweep.json`, tables and figures; returns how many runs failed."""
    out = out or Path("runs") / f"cache-{path.stem}"
    from cachemedicpp.plots.around import lambda0_run
    from cachemedicpp.sweep.summary import counted, finished, summarise, write_tables

    sweep = load_config(SweepConfig, path)
    runs = plan(sweep, out, overrides)
    # A bad setting or model is refused before the first run starts.
    models = [load(item["config"], item["overrides"]).model for item in runs]
    check_writable(out)
    say(f"{sweep.name}: {len(runs)} runs → {out}")
    for model in dict.fromkeys(models):
        model.check()
    with hold(out):
        common = {"threads": threads.share(workers), "calibrations": str(out / CALIBRATED)}
        items = [{**item, **common} for item in runs]
        outcomes = run_tasks(run_one, items, engine=engine, workers=workers, label=sweep.name, unit="runs")
        record: Record = {
            "name": sweep.name,
            "config": sweep.config,
            "reference": sweep.reference or expand(sweep)[0].name,
            "runs": [
                {
                    **{key: item[key] for key in ("variant", "seed", "folder", "overrides")},
                    "ok": outcome.ok,
                    "error": outcome.error,
                }
                for item, outcome in zip(runs, outcomes, strict=True)
            ],
            "variants": [],
        }
        record["counted"] = counted(record, out)
        record["variants"] = summarise(record, out)
        write_record(out / "sweep.json", record, "sweep")
        for run in finished(record):
            if lambda0_run(out / run["folder"]) is not None:  # a curve for lambda_contr = 0 is now due
                figures(out / run["folder"])
        if any(finished(record)):
            write_tables(record, out)
    failed = [run for run in record["runs"] if not run["ok"]]
    for run in failed:
        print(f"failed: {run['variant']} seed {run['seed']}: {run['error']}", file=sys.stderr)
    count = len(failed)
    print(f"{count} run(s) failed; the others are in {out}" if count else f"all runs finished: {out}")
    return count


def calibration_key(config: MedicConfig) -> str:
    """The same for runs that would calibrate on the same text, with the same model."""
    wanted = config.eval
    told = [config.model.model_dump_json(), config.data.model_dump_json(include={"use_offline", "wikitext2"})]
    told += [str(wanted.calibration_windows), str(wanted.calibration_len)]
    return hashlib.sha256("\n".join(told).encode("utf-8")).hexdigest()[:16]


def copy_once(source: Path, target: Path) -> None:
    """Copy what was calibrated, unless it is there or there is nothing: runs of a sweep need it once."""
    if target.exists() or not (source / "card.json").exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=target.parent))
    shutil.copytree(source, made, dirs_exist_ok=True)
    try:
        made.rename(target)
    except OSError:  # another run was faster
        shutil.rmtree(made)


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("\n...\n").strip()


def _plain(value: Any) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", str(value)).strip("-") or "none"


def _repeated(names: Sequence[str]) -> str:
    return next(name for name in names if names.count(name) > 1)
