"""Lists the benchmarks, or runs those that are named: `python -m benchmarks [NAME … | all]`."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def benchmarks() -> dict[str, str]:
    """Every benchmark by name, with the first line of what it says about itself."""
    found = {}
    for path in sorted(HERE.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        runs = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)
        if runs and not path.name.startswith("_"):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def main() -> int:
    known = benchmarks()
    wanted = list(known) if sys.argv[1:] == ["all"] else sys.argv[1:]
    for name in wanted:
        if name not in known:
            print(f"no benchmark {name!r}; there are: {', '.join(known)}", file=sys.stderr)
            return 2
    if not wanted:
        width = max(map(len, known))
        for name, about in known.items():
            print(f"{name:<{width}}  {about}")
        print("\nRun one with `make bench NAME=…` or `python -m benchmarks.<name> --help`.")
    codes = [
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode
        for name in wanted
    ]
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main())
