"""AUC, sensitivity, amplification, needle and SST-2 again, from a run's logs, compared with its records.

    python -m benchmarks.recompute RUN_DIR

Reads `logs/*.jsonl` and `metrics/*.json`, and imports nothing of ours: every formula is written down a second
time, from the protocol. Ends with 1 where a figure of the record is not found again.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import string
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any


def lines(path: Path) -> list[dict[str, Any]]:
    """Rows end at newlines alone: model output may hold characters that `splitlines` takes for others."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.split("\n") if line]


def said(answer: str, value: str) -> set[str]:
    """All in an answer that has the value's form, such as letters, a dash (of any kind) and digits."""
    answer = re.sub("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]", "-", answer)
    parts = re.findall(r"[A-Za-z]+|\d+|.", value)
    form = "".join("[a-z]+" if p.isalpha() else r"\d+" if p.isdigit() else re.escape(p) for p in parts)
    found = re.findall(rf"(?<![\w-]){form}(?!\w|-\w|[.,]\d)", answer, re.IGNORECASE)
    return {text.casefold() for text in found}


class Run:
    """What a run wrote, by task and defence, and the comparisons made so far."""

    def __init__(self, folder: Path) -> None:
        self.task = json.loads((folder / "metrics/task_metrics.json").read_text(encoding="utf-8"))
        self.around = json.loads((folder / "metrics/stability_metrics.json").read_text(encoding="utf-8"))
        self.metrics, self.settings = self.task["metrics"], self.task["settings"]
        self.examples: dict[str, list[Any]] = {}
        for line in lines(folder / "logs/eval.jsonl"):
            self.examples.setdefault(line["task"], []).append(line["scores"])
        self.prompts = lines(folder / "logs/stability.jsonl")
        eps = [e for e in self.settings["eps"] if e > 0]
        self.cells = [("clean", 0.0), *((t, e) for t in self.settings["types"] for e in eps)]
        self.compared: dict[str, int] = {}
        self.wrong: list[str] = []

    def compare(self, what: str, where: str, recorded: float | None, again: float) -> None:
        self.compared[what] = self.compared.get(what, 0) + 1
        same = recorded is not None and math.isclose(recorded, again, rel_tol=1e-9, abs_tol=1e-12)
        if not (same or (recorded is None and not math.isfinite(again))):
            self.wrong.append(f"{what} {where}: the record has {recorded}, the log gives {again}")

    def mean(self, task: str, defence: str, cell: int) -> float:
        """Sum of values over sum of counts: log-likelihood per token, or accuracy."""
        found = [scores[defence][cell] for scores in self.examples[task]]
        return sum(s["value"] for s in found) / sum(s["count"] for s in found)

    def score(self, task: str, defence: str, cell: int) -> float:
        """Accuracy; for perplexity `ppl_clean / ppl`, or `1 / ppl` in records from before that."""
        value = self.mean(task, defence, cell)
        clean = self.mean(task, "none", 0) if "score" in self.settings else 0.0
        return math.exp(value - clean) if f"task.{task}.ppl" in self.metrics else value

    def counts(self, task: str, cell: int) -> bool:
        """Whether a summary counts this cell: only where forgetting costs something, if that was measured."""
        entries = self.metrics.get(f"forgetting.{task}")
        if entries is None or self.metrics["robustness.counted"]["all"]:
            return True
        return any(e["counts"] for e in entries if (e["type"], e["epsilon"]) == self.cells[cell])

    def auc(self, defence: str, every: bool = False) -> float:
        """Trapezoids over epsilon, of the mean over types and then over tasks."""
        curve = []
        for epsilon in sorted({e for _, e in self.cells}):
            columns = [i for i, (_, e) in enumerate(self.cells) if e == epsilon]
            means = []
            for task in self.examples:
                kept = [self.score(task, defence, c) for c in columns if every or self.counts(task, c)]
                means += [statistics.fmean(kept)] if kept else []
            curve.append((epsilon, statistics.fmean(means)))
        return sum((b - a) * (y + z) / 2 for (a, y), (b, z) in pairwise(curve))

    def tasks(self) -> None:
        for task, rows in self.examples.items():
            ppl = f"task.{task}.ppl" in self.metrics
            for entry in self.metrics[f"task.{task}.{'ppl' if ppl else 'accuracy'}"]:
                if entry["defence"] not in rows[0]:
                    continue  # the best heuristic: put together from two others
                value = self.mean(task, entry["defence"], self.cells.index((entry["type"], entry["epsilon"])))
                again = math.exp(-value) if ppl else value
                self.compare(f"task.{task}", f"{entry['defence']} {entry['type']}", entry["value"], again)

    def answers(self) -> None:
        """SST-2 from its margins, the needle from the answers themselves."""
        for row in self.examples.get("sst2", []):  # one label: scores follow the margin's sign, or never do
            signs = {
                (s["detail"]["margin"] > 0) == bool(s["value"]) for scores in row.values() for s in scores
            }
            self.compare("sst2 label", "of a review", float(len(signs)), 1.0)
        ends = string.whitespace + string.punctuation
        for score in [
            s for row in self.examples.get("needle", []) for scores in row.values() for s in scores
        ]:
            answer, detail = score["detail"]["answer"], score["detail"]
            value = detail["value"]
            right = said(answer, value) == {value.casefold()}
            self.compare("needle answer", repr(answer), score["value"], float(right))
            same = float(answer.strip(ends) == value.strip(ends))
            self.compare("needle strict", repr(answer), detail.get("strict", same), same)

    def areas(self) -> None:
        for key, every in (("robustness.auc", False), ("robustness.auc_all_tasks", True)):
            for entry in self.metrics.get(key, []):
                if all(entry["defence"] in rows[0] for rows in self.examples.values()):
                    self.compare(key, entry["defence"], entry["value"], self.auc(entry["defence"], every))

    def stability(self) -> None:
        metrics = self.around["metrics"]
        for point in metrics.get("stability.logit_sensitivity_by_dtype", []):
            for name, value in point["value"].items():
                norm, dtype = f"{point['delta_norm']:g}", point["dtype"]
                each = [statistics.fmean(p["sensitivity"][dtype][name][norm]) for p in self.prompts]
                self.compare("stability.logit_sensitivity", f"{dtype} {name}", value, statistics.fmean(each))
        mapped = [p["map"] for p in self.prompts if p["map"]]
        for place, entry in enumerate(metrics["stability.amplification_map"]):
            for name, value in {"baseline": entry["before"], **entry["after_by_defence"]}.items():
                again = statistics.median(x for m in mapped for x in m[place]["ratios"][name])
                self.compare("stability.amplification_map", f"{name} {entry['layer']}", value, again)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run_dir", type=Path)
    run = Run(parser.parse_args().run_dir)
    for part in (run.tasks, run.answers, run.areas, run.stability):
        part()
    print(*(f"{what}: {count} compared" for what, count in run.compared.items()), *run.wrong, sep="\n")
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
