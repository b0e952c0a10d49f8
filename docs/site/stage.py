"""Gather the pages of the documentation site in one folder, for the site builder.

python docs/site/stage.py      # writes build/docs; `make docs` then builds build/site from it

The pages of the repository link to each other as files, so that people can read them without building
anything. In the copy those links become links of the site.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

TOP = Path(__file__).parents[2]
STAGE = TOP / "build" / "docs"
PAGES = {
    "README.md": "index.md",
    **{name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")},
}
_UP = re.compile(rf"\]\((?:\.\./)((?:\.\./)*)({'|'.join(map(re.escape, PAGES))})")
_DOWN = re.compile(r"\]\(docs/([^)]*)")


def main() -> None:
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(TOP / "docs", STAGE, ignore=shutil.ignore_patterns("site", "*.yaml"))
    (STAGE / "README.md").unlink()  # the list of pages: the site has a navigation instead
    for path in STAGE.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        path.write_text(_UP.sub(lambda m: f"]({m[1]}{PAGES[m[2]]}", text), encoding="utf-8")
    for name, page in PAGES.items():
        text = (TOP / name).read_text(encoding="utf-8")
        (STAGE / page).write_text(
            _DOWN.sub(r"](\1", text).replace("](README.md", "](index.md"), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
