"""From the answers of a campaign to its metrics."""

from __future__ import annotations

from typing import Any

from cachemedicpp.engines.faults import BLOCKS, ELEMENTS
from homeostat.core.records import Record
from homeostat.core.stats import wilson

METRICS = "engine_campaign"


def name(fault: Record) -> str:
    """A fault in a few words, for people."""
    kind, epsilon, layers = fault["kind"], fault["epsilon"], fault["layers"]
    where = "" if layers == 1 else ", one layer" if layers <= 0.01 else f", {layers:.0%} of layers"
    if kind in BLOCKS:
        return f"{kind}{where}"
    return f"one {kind}{where}" if kind in ELEMENTS and epsilon < 1e-6 else f"{kind} {epsilon:g}{where}"


def summarise(rows: list[Record]) -> Record:
    """What changed, was found and was recomputed, by type of numbers and fault."""
    clean = {_who(row): row for row in rows if row["fault"] is None and not row["guard"] and row["turn"] == 0}
    arms, quiet = [], []
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        here = [row for row in rows if row["dtype"] == dtype]
        names = dict.fromkeys(_fault(row) for row in here if row["fault"])
        arms += [_arm(dtype, [row for row in here if _fault(row) == name], clean) for name in names]
        quiet.append(_quiet(dtype, [row for row in here if row["fault"] is None and row["guard"]], clean))
    return {"engine.faults": arms, "engine.clean": quiet}


def _arm(dtype: str, rows: list[Record], clean: dict[Any, Record]) -> Record:
    bare, guarded = ([row for row in rows if row["guard"] is side] for side in (False, True))
    groups = {(row["group"], row["turn"]): row for row in guarded}.values()
    changed = [row for row in guarded if _differs(row, clean)]
    fault = rows[0]["fault"]
    return {
        "dtype": dtype,
        "fault": fault["kind"],
        "name": name(fault),
        "epsilon": None if fault["kind"] in BLOCKS else fault["epsilon"],
        "layers": fault["layers"],
        "prompts": len(guarded),
        "numbers_damaged": sum(row["numbers"] for row in groups),
        "blocks_damaged": sum(len(row["blocks"]) for row in groups),
        "changed_without_guard": _share(sum(_differs(row, clean) for row in bare), len(bare)),
        "changed_with_guard": _share(len(changed), len(guarded)),
        "groups": len(groups),
        "groups_found": sum(row["counts"]["bad"] > 0 for row in groups),
        "blocks_found": int(sum(row["counts"]["bad"] for row in groups)),
        "blocks_recomputed": int(sum(row["counts"]["recomputed"] for row in groups)),
        "margins_of_changed": [_margin(row, clean) for row in changed],
    }


def _quiet(dtype: str, rows: list[Record], clean: dict[Any, Record]) -> Record:
    groups = {(row["group"], row["turn"]): row for row in rows}.values()
    return {
        "dtype": dtype,
        "prompts": len(rows),
        "changed": sum(_differs(row, clean) for row in rows),
        "blocks_verified": int(sum(row["counts"]["verified"] for row in groups)),
        "false_alarms": int(sum(row["counts"]["bad"] for row in groups)),
        "unknown": int(sum(row["counts"]["unknown"] for row in groups)),
    }


def _who(row: Record) -> Any:
    return row["dtype"], row["group"], row["prompt"]


def _fault(row: Record) -> str:
    fault = row["fault"]
    return "" if fault is None else f"{fault['kind']} {fault['epsilon']} {fault['layers']}"


def _differs(row: Record, clean: dict[Any, Record]) -> bool:
    return bool(row["tokens"] != clean[_who(row)]["tokens"])


def _margin(row: Record, clean: dict[Any, Record]) -> float:
    """How far ahead the clean token was where the answers part, in log probability: near 0 is a tie."""
    right = clean[_who(row)]
    where = next(
        i for i, pair in enumerate(zip(row["tokens"], right["tokens"], strict=True)) if pair[0] != pair[1]
    )
    return float(right["margins"][where])


def _share(hits: int, n: int) -> Record:
    found = wilson(hits, n)
    return {"count": hits, "n": n, "estimate": found.estimate, "low": found.low, "high": found.high}
