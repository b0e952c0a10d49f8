"""The list of all rules in docs/rules.md, made from the rules themselves.

python -m benchmarks.rules_page docs/rules.md    # writes the list anew into the page
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from skyt.repair.rules import RULES, Rule

BEGIN, END = "<!-- rules: begin -->", "<!-- rules: end -->"


def what(rule: Rule) -> str:
    """What a rule does: its templates, or the first line of its function's docstring."""
    if rule.forms:
        shown = [f"{_code(before)} → {_code(after)}" for before, after in rule.forms[:2]]
        more = f" (and {len(rule.forms) - 2} more)" if len(rule.forms) > 2 else ""
        return "; ".join(shown) + more
    return " ".join((rule.apply.__doc__ or "").split())


def _code(text: str) -> str:
    lines = [line for line in textwrap.dedent(text).split("\n") if line.strip()]
    shown = " ⏎ ".join(line.replace("    ", " ") for line in lines)
    fence = "``" if "`" in shown else "`"
    return f"{fence}{shown}{fence}"


def table(rules: list[Rule]) -> str:
    """One row per rule; programs with ⏎ for the end of a line."""
    rows = [
        "| rule | what it does | needs | why it keeps behaviour | fires on | holds back on |",
        "|---|---|---|---|---|---|",
    ]
    for r in rules:
        examples = [f"{_code(code)} ({facts})" for facts, code in (r.fires, r.keeps)]
        cells = [r.name, what(r), r.needs, r.sound, *examples]
        rows.append("| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in cells) + " |")
    return "\n".join(rows)


def written(page: str) -> str:
    """The page with its list of rules made anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(RULES)}\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
