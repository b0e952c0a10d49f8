"""The tests that matter for what has changed since the main branch: `make check` runs them.

python -m tests.support.changed      # prints folders and files of tests; nothing where nothing changed
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
BASES = ("origin/main", "main", "HEAD")


def main() -> None:
    base = next(base for base in BASES if _git("rev-parse", "--verify", "--quiet", base))
    [start] = _git("merge-base", "HEAD", base)
    changed = _git("diff", "--name-only", start) + _git("ls-files", "--others", "--exclude-standard")
    print(*sorted(set(relevant(changed))))


def relevant(changed: Iterable[str], root: Path = ROOT) -> Iterator[str]:
    """The changed tests, and those of the room of each changed module: `tests` mirrors `src`."""
    for path in map(PurePosixPath, changed):
        if path.parts[0] == "tests" and path.name.startswith("test_") and (root / path).exists():
            yield str(path)
        elif path.parts[0] == "src" and path.suffix == ".py":
            folders = (PurePosixPath("tests", *folder.parts[1:]) for folder in path.parents)
            nearest = next(folder for folder in folders if (root / folder).is_dir())
            yield str(nearest)


def _git(*words: str) -> list[str]:
    found = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.split("\n")[:-1] if found.returncode == 0 else []


if __name__ == "__main__":
    main()
