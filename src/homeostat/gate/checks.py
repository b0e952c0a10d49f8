"""Figures against limits: what a gate compares, and the three ways of showing it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.report.reading import RunFiles
from homeostat.report.status import run_status

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_SURE = "--confident: the run has no interval for {}; leave that bound or --confident out"
Limits = Mapping[str, float | None]


@dataclass(frozen=True)
class Bound:
    """An option of a gate, `min_…` or `max_…`: the figure that it limits and its help text."""

    option: str
    metric: str
    help: str

    @property
    def kind(self) -> Literal["min", "max"]:
        return "min" if self.option.startswith("min_") else "max"


@dataclass(frozen=True)
class Figure:
    """A recorded figure with the ends of its interval; `exact` ones have none and need none."""

    value: float
    low: float | None = None
    high: float | None = None
    exact: bool = False


@dataclass(frozen=True)
class Check:
    """`metric` of `subject` against a limit. `value` is what is judged: the estimate or an interval's end."""

    subject: str
    metric: str
    value: float
    kind: Literal["min", "max"]
    limit: float
    judged: str = "estimate"

    @property
    def passed(self) -> bool:
        """Not a number never passes."""
        return self.value >= self.limit if self.kind == "min" else self.value <= self.limit

    @property
    def name(self) -> str:
        return self.metric if self.judged == "estimate" else f"{self.metric} ({self.judged})"

    @property
    def sentence(self) -> str:
        sign = "≥" if self.kind == "min" else "≤"
        return f"{self.name} = {self.value:.6g}, required {sign} {self.limit:.6g}"


def compare(
    subject: str, figure: Callable[[str], Figure], bounds: Iterable[Bound], limits: Limits, confident: bool
) -> Iterator[Check]:
    """A check for each limit that was given: of the estimate, or of the unfavourable end of its interval."""
    for bound in bounds:
        limit = limits.get(bound.option)
        if limit is None:
            continue
        found, judged = figure(bound.metric), "estimate"
        value: float | None = found.value
        if confident and not found.exact:
            value, end = (found.low, "low") if bound.kind == "min" else (found.high, "high")
            judged = f"95% interval's {end} end"
        if value is None:
            raise UserError(_NOT_SURE.format(bound.metric))
        yield Check(subject, bound.metric, value, bound.kind, limit, judged)


def number(value: Any, problem: str) -> float:
    """A recorded figure; anything else is refused with the problem."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise UserError(problem)
    return float(value)


def finished_run(run_dir: Path) -> RunFiles:
    """The run to be judged; one that is not complete has no verdict yet."""
    files = RunFiles(run_dir)
    status = run_status(files)
    if status != "complete":
        raise UserError(f"{run_dir} is {status}: a gate judges complete runs, so finish it first")
    return files


def check_baseline(baseline: Path | None, max_drop: float | None) -> None:
    if (baseline is None) != (max_drop is None):
        raise UserError("--baseline RUN_DIR and --max-drop X belong together: give both or neither")


def judge(run_dir: Path, checks: Sequence[Check], junit: Path | None, markdown: Path | None) -> int:
    """Show every check, write the summaries asked for, and give the exit code."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    if not checks:
        raise UserError("nothing to check: give at least one bound (--help lists them)")
    if junit is not None:
        atomic.write_text(junit, junit_xml(run_dir, checks))
    if markdown is not None:
        atomic.write_text(markdown, markdown_summary(run_dir, checks))
    table = Table("", "subject", "check", title=f"gate: {escape(str(run_dir))}", title_justify="left")
    for check in checks:
        mark = "[green]pass" if check.passed else "[red]FAIL"
        table.add_row(mark, escape(check.subject), escape(check.sentence))
    Console().print(table)
    print(_verdict(checks))
    return 0 if all(check.passed for check in checks) else 1


def junit_xml(run_dir: Path, checks: Sequence[Check]) -> str:
    """One test case per check, in the JUnit form that CI systems read."""
    failures = sum(not check.passed for check in checks)
    counts = {"tests": str(len(checks)), "failures": str(failures), "errors": "0"}
    suite = ElementTree.Element("testsuite", {"name": _clean(f"homeostat gate {run_dir}"), **counts})
    for check in checks:
        names = {"classname": _clean(check.subject), "name": _clean(f"{check.metric} {check.kind}")}
        case = ElementTree.SubElement(suite, "testcase", names)
        if not check.passed:
            sentence = _clean(check.sentence)
            ElementTree.SubElement(case, "failure", message=sentence).text = sentence
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def markdown_summary(run_dir: Path, checks: Sequence[Check]) -> str:
    """A table for a pull request or a job summary."""
    lines = [
        f"### homeostat gate: {_verdict(checks)}",
        "",
        f"Run `{_cell(str(run_dir))}`",
        "",
        "| | subject | metric | value | required |",
        "|---|---|---|---:|---:|",
    ]
    for check in checks:
        mark, sign = "✅" if check.passed else "❌", "≥" if check.kind == "min" else "≤"
        names = f"{_cell(check.subject)} | {_cell(check.name)}"
        lines.append(f"| {mark} | {names} | {check.value:.4f} | {sign} {check.limit:g} |")
    return "\n".join(lines) + "\n"


def _verdict(checks: Sequence[Check]) -> str:
    failures = sum(not check.passed for check in checks)
    return f"{failures} of {len(checks)} checks failed" if failures else f"all {len(checks)} checks passed"


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _cell(text: str) -> str:
    """Text that cannot leave its cell or become markup."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("`", "'")
    return plain.replace("|", "\\|")
