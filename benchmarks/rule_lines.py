"""How long the rules are: lines by room, rules by shape, and the longest ones.

python -m benchmarks.rule_lines [--longest 25]
"""

from __future__ import annotations

import argparse
import inspect
from collections import Counter
from pathlib import Path

import skyt.repair.rules as rules
from skyt.repair.rules import RULES, Rule


def lines_by_room(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in folder.rglob("*.py"):
        room = path.relative_to(folder).parts[0]
        found[room if (folder / room).is_dir() else "itself"] += len(path.read_text("utf-8").splitlines())
    return found


def length(rule: Rule) -> int:
    """Lines of a rule's function with its declarations; functions that it calls are not counted."""
    return len(inspect.getsourcelines(inspect.unwrap(rule.apply))[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--longest", type=int, default=25)
    options = parser.parse_args()
    found = lines_by_room(Path(rules.__file__).parent)
    for room, lines in sorted(found.items(), key=lambda item: -item[1]):
        print(f"{room:12} {lines:6,}")
    print(f"{'all':12} {sum(found.values()):6,}")
    functions = [r for r in RULES if not r.forms]
    print(f"{len(RULES)} rules: {len(RULES) - len(functions)} in templates, {len(functions)} functions")
    longest = sorted(functions, key=length, reverse=True)[: options.longest]
    print(", ".join(f"{r.name} ({length(r)})" for r in longest))


if __name__ == "__main__":
    main()
