"""Small run directories in the formats the two systems really write, for tests of what reads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from homeostat.core.config import ConfigModel
from homeostat.core.records import validate
from homeostat.core.rundir import open_run
from skyt.metrics.formulas import details, metrics, tally_of

CANON = "def gcd(a, b):\n    while b:\n        a, b = (b, a % b)\n    return a"
OTHER = "def gcd(x, y):\n    while y:\n        x, y = (y, x % y)\n    return x"
WRONG = "def gcd(a, b):\n    return a"


class ModelSection(ConfigModel):
    name: str = "example-model"


class ExampleConfig(ConfigModel):
    seed: int = 0
    model: ModelSection = ModelSection()


class CacheConfig(ExampleConfig):
    repair: dict[str, str]
    corruption: dict[str, float] = Field(default_factory=lambda: {"gaussian": 1.0})


def signature(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sample(
    number: int, prompt: str, raw: str, *, pre: str | None = None, post: str | None = None
) -> dict[str, Any]:
    """One line of samples.jsonl; the first ones are checked against the schema."""
    pre = raw if pre is None else pre
    post = pre if post is None else post
    d_pre, d_post = (0.0 if text == CANON else 0.25 for text in (pre, post))
    evidence = "identical" if d_pre == 0 else "rewritten" if d_post == 0 else "none"
    good = {"compliant": True, "failures": [], "counterexample": None}
    bad = {"compliant": False, "failures": ["gcd(4, 6) returns 4, expected 2"], "counterexample": None}
    record = {
        "run_id": "example",
        "sample_id": f"{number:06d}",
        "prompt_id": prompt,
        "contract_id": prompt,
        "model": f"model-{number % 2}",
        "temperature": 0.5 * (number // 2 % 2),
        "sample": number,
        "raw_output": raw,
        "normalized_pre": pre,
        "normalized_post": post,
        "parsed": True,
        "signature_pre": signature(pre),
        "signature_post": signature(post),
        "d_pre": d_pre,
        "d_post": d_post,
        "distance_method": "exact",
        "evidence": evidence,
        "reason": "same normal form" if evidence == "rewritten" else "",
        "repair_steps": ["rename-locals"] if evidence == "rewritten" else [],
        "oracle_pre": bad if pre == WRONG else good,
        "oracle_post": bad if post == WRONG else good,
        "canon_signature": signature(CANON),
        "oracle_version": "1",
        "normalization_version": "1",
        "distance_version": "1",
    }
    if evidence == "rewritten":
        ran = {"equal": True, "inputs": 1000, "seed": 0, "method": "differential testing", "version": "1"}
        nothing = {"undecided": 0, "counterexample": None, "outside": None}
        record |= {"same_normal_form": True, "same_verdict": True, "equivalence": ran | nothing}
    if number < 10:  # enough to notice a change of the format
        validate(record, "sample")
    return record


def code_run(path: Path, samples: Sequence[dict[str, Any]] | None = None, **config: Any) -> Path:
    """A finished skyt run; by default canonical, rescued and wrong samples of two prompts."""
    if samples is None:
        texts = [(CANON, CANON), (OTHER, CANON), (WRONG, WRONG), (CANON, CANON)]
        samples = [
            sample(4 * p + i, name, f"```python\n{pre}\n```", pre=pre, post=post)
            for p, name in enumerate(("gcd", "gcd_again"))
            for i, (pre, post) in enumerate(texts)
        ]
    with open_run(path, command="homeostat code replay", config=ExampleConfig(**config)) as run:
        lines = "".join(json.dumps(s) + "\n" for s in samples)
        (path / "samples.jsonl").write_text(lines, encoding="utf-8")
        (path / "canon").mkdir(exist_ok=True)
        prompts = list(dict.fromkeys(s["prompt_id"] for s in samples))
        for prompt in prompts:
            canon = {"prompt_id": prompt, "canon_signature": signature(CANON), "normalized_code": CANON}
            (path / "canon" / f"{signature(prompt)[:8]}.json").write_text(json.dumps(canon), encoding="utf-8")
        run.write_metrics("repeatability_metrics", _repeatability(samples, prompts), {"tau": 0.1})
        run.finish()
    return path


def _repeatability(samples: Sequence[dict[str, Any]], prompts: Sequence[str]) -> dict[str, Any]:
    def figures(chosen: Sequence[dict[str, Any]]) -> dict[str, Any]:
        columns = ([s[k] for s in chosen] for k in ("signature_pre", "d_pre", "d_post"))
        tally = tally_of(*columns, tau=0.1)
        return {**asdict(metrics(tally, 0.1)), **details(tally)}

    cells = sorted({(s["prompt_id"], s["model"], s["temperature"]) for s in samples})
    return {
        "skyt.overall": figures(samples),
        "skyt.prompts": [
            {"prompt_id": p, **figures([s for s in samples if s["prompt_id"] == p])} for p in prompts
        ],
        "skyt.cells": [
            {
                **dict(zip(("prompt_id", "model", "temperature"), cell, strict=True)),
                **figures([s for s in samples if (s["prompt_id"], s["model"], s["temperature"]) == cell]),
            }
            for cell in cells
        ],
        "skyt.tests": [{"prompt_id": p, "p": 0.04, "p_holm": 0.08} for p in prompts],
    }


def cache_run(path: Path, *, seed: int = 0, finish: bool = True, into: bool = False) -> Path:
    """A cachemedicpp run: made-up scores, turned into metrics by the system's own code.

    With `into` the metrics are added to the run that is at `path` already.
    """
    from cachemedicpp.eval.grid import grid_cells
    from cachemedicpp.eval.robustness import Robustness, TaskScores
    from cachemedicpp.eval.task_metrics import task_metrics

    knowledge = {
        "none": "blind",
        "smoothing": "blind",
        "reset_clear": "blind",
        "G": "blind",
        "guard": "fingerprints",
    }
    strength = {"none": 1.0, "smoothing": 1.2, "reset_clear": 1.5, "G": 0.4, "guard": 0.0}
    cells = grid_cells(["gaussian", "dropout_zero"], [0.0, 0.1, 0.2])
    rng = np.random.default_rng(seed)
    damage = np.array([cell.epsilon for cell in cells])
    noise = rng.normal(0, 0.02, size=(12, len(cells)))
    likelihood = {d: -3.0 - 5 * s * damage + noise for d, s in strength.items()}
    correct = {d: np.clip(0.9 - 2 * s * damage + noise, 0, 1) for d, s in strength.items()}
    ones = np.ones((12, len(cells)))
    tasks = [TaskScores("wikitext2", "ppl", likelihood, ones), TaskScores("sst2", "accuracy", correct, ones)]
    found = task_metrics(Robustness.build(tasks, cells, 200, seed), knowledge, ["smoothing", "reset_clear"])
    found["overhead"] = [
        {"defence": d, "tokens_per_s": 30.0 - i, "relative_throughput": 1 - i / 30, "wall_s": 1.0}
        for i, d in enumerate(strength)
    ]
    config = ExampleConfig() if into else CacheConfig(seed=seed, repair={"family": "G"})
    with open_run(path, command="homeostat cache run", config=config) as run:
        for step in range(5):
            run.log("train").append(step, loss_total=1.0 / (1 + step))
        run.write_metrics("task_metrics", found, {})
        run.write_metrics("stability_metrics", _stability(rng), {})
        if finish:
            run.finish()
    return path


def _stability(rng: np.random.Generator) -> dict[str, Any]:
    gains = {"baseline": 5.0, "heuristics": 6.0, "cachemedic": 2.0}
    return {
        "stability.logit_sensitivity": [
            {
                "delta_norm": norm,
                "relative_norm": norm / 100,
                "value": {curve: gain * norm for curve, gain in gains.items()},
                "ci": {curve: [0.9 * gain * norm, 1.1 * gain * norm] for curve, gain in gains.items()},
            }
            for norm in (0.0, 0.5, 1.0, 2.0)
        ],
        "stability.amplification_map": [
            {
                "layer": layer,
                "head": head,
                "before": float(rng.uniform(1, 9)),
                "after": 1.0,
                "after_by_defence": {"heuristics": 2.0, "cachemedic": 1.0},
            }
            for layer in range(4)
            for head in range(2)
        ],
        "stability.settings": {"num_prompts": 2, "curves": {"heuristics": "smoothing", "cachemedic": "G"}},
    }


def joint_run(path: Path) -> Path:
    """A joint run: its arms as `homeostat.joint` records them, over the samples of a code run."""
    code_run(path)

    def share(value: float) -> dict[str, float]:
        return {"estimate": value, "low": value - 0.05, "high": value + 0.05, "level": 0.95}

    arms = [(0.0, "none", 0.9), (0.3, "none", 0.2), (0.3, "G", 0.7), (0.6, "none", 0.1), (0.6, "G", 0.5)]
    rows = [
        {
            "label": "clean" if epsilon == 0 else f"{defence} @ {epsilon:g}",
            "epsilon": epsilon,
            "defence": defence,
            "n": 8,
            **{
                key: share(value)
                for key in ("oracle_pass", "r_raw", "r_anchor_pre", "r_anchor", "mu_pre", "mu_post")
            },
        }
        for epsilon, defence, value in arms
    ]
    with open_run(path, command="homeostat joint", config=ExampleConfig()) as run:
        run.write_metrics("joint_metrics", {"joint.arms": rows}, {})
        run.finish()
    return path
