"""Which figures and tables of the docs were measured with the code that stands beside them?

    python docs/site/measurements.py                  # lists them, with what is stale
    python docs/site/measurements.py --measured ID    # after ID's command was run again and its page updated
    python docs/site/measurements.py --declare        # pages of results say what of them is of other code

`docs/measurements.yaml` names every command that makes figures or tables of the docs: their pages, about how
many minutes it takes on two cores, the code it measures, and a hash of that code as it was when the command
last ran. The hash is of the syntax trees without docstrings: comments, layout and words do not count.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

TOP = Path(__file__).parents[2]
LIST = TOP / "docs" / "measurements.yaml"
RESULTS = tuple(
    f"docs/specs/{name}.md" for name in ("60_BASELINES_ABLATIONS", "70_RESULTS", "80_LEAVE_ONE_OUT")
)
BEGIN, END = "<!-- other code -->\n", "<!-- /other code -->"
SHORT = 10  # minutes: what takes less is made again rather than listed as stale


@dataclass(frozen=True)
class Measurement:
    """The figures and tables that one command makes."""

    id: str
    command: str
    pages: tuple[str, ...]
    minutes: float
    code: tuple[str, ...]  # files and folders below src/ and benchmarks/
    hash: str  # of that code when it was measured; empty: it is not known any more

    @property
    def stale(self) -> bool:
        return self.hash != code_hash(self.code)


def measurements() -> list[Measurement]:
    listed = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    return [
        Measurement(id=name, **{**entry, "code": tuple(entry["code"]), "pages": tuple(entry["pages"])})
        for name, entry in listed.items()
    ]


def code_hash(code: Sequence[str]) -> str:
    whole = hashlib.sha256()
    for path in _files(code):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        whole.update(f"{path.relative_to(TOP)}\0{ast.dump(_bare(tree))}\0".encode())
    return whole.hexdigest()[:12]


def _files(code: Sequence[str]) -> Iterator[Path]:
    for name in code:
        path = TOP / name
        if not path.exists():
            raise SystemExit(f"{LIST.name}: {name} does not exist")
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _bare(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
                node.body = body[1:]
    return tree


def record(names: Sequence[str]) -> None:
    """Write the present hash for measurements that were just made again."""
    known = {entry.id: entry for entry in measurements()}
    if unknown := set(names) - known.keys():
        raise SystemExit(f"{LIST.name} has no {', '.join(sorted(unknown))}")
    listed = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    for name in names:
        listed[name]["hash"] = code_hash(known[name].code)
    head = "".join(line for line in LIST.read_text("utf-8").splitlines(True) if line.startswith("#"))
    LIST.write_text(head + yaml.safe_dump(listed, sort_keys=False, width=110), encoding="utf-8")


def declared(page: str) -> str:
    """What a page of results has to say between its marks about figures that are not of the present code."""
    stale = [entry for entry in measurements() if page in entry.pages and entry.stale]
    if not stale:
        return ""
    lines = [f"    - `{entry.command}`" for entry in stale]
    return "\n".join(('!!! note "Measured with other code than the present: the figures of"', *lines, ""))


def marked(page: str) -> tuple[str, str, str]:
    """A page before its marks, between them, and after them."""
    before, begin, rest = (TOP / page).read_text(encoding="utf-8").partition(BEGIN)
    between, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{page} has no {BEGIN.strip()} … {END.strip()} marks")
    return before + begin, between, end + after


def declare() -> None:
    """Write what the pages of results have to say."""
    for page in RESULTS:
        before, _, after = marked(page)
        (TOP / page).write_text(before + declared(page) + after, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measured figures and tables of the docs, and which are stale."
    )
    parser.add_argument(
        "--measured", nargs="+", default=[], metavar="ID", help="they were made again just now"
    )
    parser.add_argument(
        "--declare", action="store_true", help="write what is stale into the pages of results"
    )
    options = parser.parse_args()
    record(options.measured)
    if options.declare:
        declare()
    entries = measurements()
    for entry in entries:
        state = "stale" if entry.stale else "of this code"
        print(f"{entry.id:20} {state:13} {entry.minutes:5g} min  {', '.join(entry.pages)}: {entry.command}")
    print(f"{sum(entry.stale for entry in entries)} of {len(entries)} were measured with other code")


if __name__ == "__main__":
    main()
