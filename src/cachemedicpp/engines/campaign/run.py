"""A campaign from end to end: prompts, one engine after another, records, metrics, figure."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from cachemedicpp.engines import environment
from cachemedicpp.engines.campaign.config import CampaignConfig
from cachemedicpp.engines.campaign.figure import draw
from cachemedicpp.engines.campaign.summary import METRICS, summarise
from homeostat.core import models
from homeostat.core.errors import UserError
from homeostat.core.records import Record
from homeostat.core.resources import resource
from homeostat.core.rundir import RunDir, open_run

_ENDINGS = (
    "In short,",
    "It follows that",
    "The most important point is",
    "Later,",
    "For example,",
    "However,",
)


def run_campaign(config: CampaignConfig, out: Path, config_path: str | None) -> Record:
    """Run a campaign into `out`, or go on with the one that is there; returns the metrics."""
    python = environment.engine_python(config.python)
    found = environment.versions(python)
    if not found["vllm"] or not found["homeostat"]:
        raise UserError(f"{python} has no vLLM or no homeostat: run `make setup-engines`")
    model = model_folder(config.model)
    with open_run(out, command="homeostat engine campaign", config=config, config_path=config_path) as run:
        rows: list[Record] = []
        for dtype in config.dtypes:
            for guarded in (False, True):
                name = f"{dtype}-{'guard' if guarded else 'bare'}"
                arm = run.once(name, partial(_engine, python, model, config, dtype, guarded))
                rows += [{**row, "dtype": dtype, "guard": guarded} for row in arm]
        metrics = summarise(rows)
        settings = {
            "model": config.model,
            "vllm": found["vllm"],
            "every": config.every,
            "chunk": config.chunk,
        }
        run.write_metrics(METRICS, metrics, settings)
        _log(run, rows)
        draw(metrics, run.figures)
        run.finish()
    return metrics


def model_folder(name: str) -> str:
    """A folder that an engine can load."""
    if Path(name).is_dir():
        return str(Path(name).absolute())
    return str(models.located(models.known(name)))


def prompts(config: CampaignConfig) -> list[dict[str, Any]]:
    """Groups of prompts: a stretch of text that they share, and different endings."""
    text = resource("data/offline/wikitext2_sample.txt").read_text(encoding="utf-8")
    words = text.split()
    length = round(config.prefix_tokens / 1.45)  # words; a little over one token each
    if config.groups * length > len(words):
        raise UserError(
            f"groups = {config.groups} of {config.prefix_tokens} tokens: the text has {len(words)} words; "
            "use fewer groups or shorter prefixes"
        )
    groups = []
    for number in range(config.groups):
        prefix = " ".join(words[number * length : (number + 1) * length])
        ends = [
            f"{prefix} {_ENDINGS[i % len(_ENDINGS)]}{' and' * (i // len(_ENDINGS))}"
            for i in range(config.prompts)
        ]
        groups.append({"prefix": prefix, "prompts": ends})
    return groups


def _engine(python: Path, model: str, config: CampaignConfig, dtype: str, guarded: bool) -> list[Record]:
    job = {
        "model": model,
        "dtype": dtype,
        "guard": {"every": config.every} if guarded else None,
        "seed": config.seed,
        "chunk": config.chunk,
        "blocks": config.blocks,
        "max_tokens": config.max_tokens,
        "clean_rounds": config.clean_rounds if guarded else 1,
        "groups": prompts(config),
        "faults": [fault.model_dump() for fault in config.faults],
    }
    with tempfile.TemporaryDirectory(prefix="homeostat-campaign-") as folder:
        given, made = Path(folder) / "job.json", Path(folder) / "out.jsonl"
        given.write_text(json.dumps(job), encoding="utf-8")
        done = subprocess.run(  # noqa: S603
            [str(python), "-m", "cachemedicpp.engines.campaign.driver", str(given), str(made)],
            env={**os.environ, **environment.settings()},
            capture_output=True,
            text=True,
            check=False,
        )
        rows = [json.loads(line) for line in made.read_text("utf-8").splitlines()] if made.exists() else []
    if done.returncode or not rows or not rows[-1].get("end"):
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:] or ["it said nothing"]
        raise UserError(f"the engine ({dtype}, {'with' if guarded else 'without'} guard) failed: {last[0]}")
    return rows[:-1]


def _log(run: RunDir, rows: list[Record]) -> None:
    log = run.log("campaign")
    log.rewind(0)
    for step, row in enumerate(rows):
        kept = {name: value for name, value in row.items() if name not in ("margins", "counts", "fault")}
        fault = row["fault"] or {"kind": "none", "epsilon": 0.0}
        log.append(step, fault=fault["kind"], epsilon=fault["epsilon"], **kept)
