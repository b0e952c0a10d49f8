"""One comparison of a figure with a limit, and the three ways of showing a list of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.report.reading import RunFiles
from homeostat.report.status import run_status

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    def sentence(self) -> str:
        sign = "≥" if self.kind == "min" else "≤"
        which = "" if self.judged == "estimate" else f" ({self.judged})"
        return f"{self.metric}{which} = {self.value:.6g}, required {sign} {self.limit:.6g}"


def at_least(subject: str, metric: str, value: float, limit: float, judged: str = "estimate") -> Check:
    return Check(subject, metric, value, "min", limit, judged)


def at_most(subject: str, metric: str, value: float, limit: float, judged: str = "estimate") -> Check:
    return Check(subject, metric, value, "max", limit, judged)


def finished_run(run_dir: Path) -> RunFiles:
    """The run to be judged; one that is not complete has no verdict yet."""
    files = RunFiles(run_dir)
    status = run_status(files)
    if status != "complete":
        raise UserError(f"{run_dir} is {status}: a gate judges complete runs, so finish it first")
    return files


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
    failed = [check for check in checks if not check.passed]
    print(f"{len(failed)} of {len(checks)} checks failed" if failed else f"all {len(checks)} checks passed")
    return 1 if failed else 0


def junit_xml(run_dir: Path, checks: Sequence[Check]) -> str:
    """One test case per check, in the JUnit form that CI systems read."""
    failures = sum(not check.passed for check in checks)
    suite = ElementTree.Element(
        "testsuite",
        name=_clean(f"homeostat gate {run_dir}"),
        tests=str(len(checks)),
        failures=str(failures),
        errors="0",
    )
    for check in checks:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_clean(check.subject), name=_clean(f"{check.metric} {check.kind}")
        )
        if not check.passed:
            ElementTree.SubElement(case, "failure", message=_clean(check.sentence)).text = _clean(
                check.sentence
            )
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def markdown_summary(run_dir: Path, checks: Sequence[Check]) -> str:
    """A table for a pull request or a job summary."""
    failures = sum(not check.passed for check in checks)
    verdict = f"{failures} of {len(checks)} checks failed" if failures else f"all {len(checks)} checks passed"
    lines = [
        f"### homeostat gate: {verdict}",
        "",
        f"Run `{_cell(str(run_dir))}`",
        "",
        "| | subject | metric | value | required |",
        "|---|---|---|---:|---:|",
    ]
    for check in checks:
        sign = "≥" if check.kind == "min" else "≤"
        metric = check.metric if check.judged == "estimate" else f"{check.metric} ({check.judged})"
        mark = "✅" if check.passed else "❌"
        cells = [mark, _cell(check.subject), _cell(metric), f"{check.value:.4f}", f"{sign} {check.limit:g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _cell(text: str) -> str:
    """Text that cannot leave its cell or become markup."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("`", "'")
    return plain.replace("|", "\\|")
