"""How long the rules are: lines by room, rules by shape, and the longest ones.

python -m benchmarks.rule_lines [--longest 25]
"""

from __future__ import annotations

import argparse
import ast
import inspect
from collections import Counter
from pathlib import Path

import skyt.repair.rules as rules
from skyt.repair.rules import RULES


def lines_by_room(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in folder.rglob("*.py"):
        room = path.relative_to(folder).parts[0]
        found[room if (folder / room).is_dir() else "itself"] += len(path.read_text("utf-8").splitlines())
    return found


def lengths(folder: Path) -> dict[str, int]:
    """Lines of each rule with its declarations; functions that it calls are not counted."""
    found = {r.name: len(inspect.getsourcelines(inspect.unwrap(r.apply))[0]) for r in RULES if not r.forms}
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="rewrite"), args=[ast.Constant(value=str(name)), *_]):
                    found[name] = (node.end_lineno or 0) - node.lineno + 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--longest", type=int, default=25)
    options = parser.parse_args()
    folder = Path(rules.__file__).parent
    rooms = lines_by_room(folder)
    for room, lines in sorted(rooms.items(), key=lambda item: -item[1]):
        print(f"{room:12} {lines:6,}")
    print(f"{'all':12} {sum(rooms.values()):6,}")
    templates = {r.name for r in RULES if r.forms}
    print(f"{len(RULES)} rules: {len(templates)} in templates (*), {len(RULES) - len(templates)} functions")
    longest = sorted(lengths(folder).items(), key=lambda item: -item[1])[: options.longest]
    print(", ".join(f"{name}{'*' * (name in templates)} ({lines})" for name, lines in longest))


if __name__ == "__main__":
    main()
