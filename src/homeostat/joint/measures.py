"""The result of each arm over all contracts, with intervals, from the recorded samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from homeostat.core import stats
from homeostat.core.records import Record, read_jsonl
from homeostat.joint.config import Arm, JointConfig


def compare(samples: Path, config: JointConfig) -> Record:
    """`joint.arms`: one entry per arm, the clean one first."""
    by_arm: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in read_jsonl(samples):
        by_arm[record["model"]][record["contract_id"]].append(record)
    return {"joint.arms": [_arm(arm, by_arm[arm.label], config.seed) for arm in config.arms]}


def _arm(arm: Arm, contracts: dict[str, list[Record]], seed: int) -> Record:
    rows = [row for group in contracts.values() for row in group]
    passed = sum(bool(row["oracle_pre"]["compliant"]) for row in rows)
    anchored = sum(row["d_post"] == 0.0 for row in rows)
    anchored_before = sum(row["d_pre"] == 0.0 for row in rows)
    return {
        "label": arm.label,
        "epsilon": arm.epsilon,
        "defence": arm.defence,
        "n": len(rows),
        "oracle_pass": stats.wilson(passed, len(rows)).as_record(),
        "r_raw": r_raw([[row["signature_pre"] for row in group] for group in contracts.values()]),
        "r_anchor_pre": stats.wilson(anchored_before, len(rows)).as_record(),
        "r_anchor": stats.wilson(anchored, len(rows)).as_record(),
        "mu_pre": stats.bootstrap([row["d_pre"] for row in rows], seed=seed).as_record(),
        "mu_post": stats.bootstrap([row["d_post"] for row in rows], seed=seed).as_record(),
    }


def r_raw(signatures: list[list[str]]) -> dict[str, Any]:
    """Share of samples that are their contract's commonest output, with that output taken as given."""
    modal = sum(max(Counter(group).values()) for group in signatures)
    return stats.wilson(modal, sum(map(len, signatures))).as_record()
