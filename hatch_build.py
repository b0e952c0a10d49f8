"""The README as package indexes show it: its relative links become absolute, or plain text.

Set `HOMEOSTAT_REPOSITORY` (for example `https://github.com/OWNER/homeostat`) when you build a release; the
release workflow does. Without it no address is known, so links inside the repository become plain text and
pictures are left out: nothing in the description is broken either way.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#|mailto:)([^)\s]+)\)")
_TEST_RULE = re.compile(r"^<!-- (?:test|file):.*-->\n", re.MULTILINE)


def description(readme: str, repository: str, version: str) -> str:
    """`readme` without rules for tests, and with every relative link made absolute or plain."""
    text = _TEST_RULE.sub("", readme)
    if not repository:
        return _LINK.sub(r"\1", _PICTURE.sub("", text))
    tree = f"{repository.rstrip('/')}/{{}}/v{version}"
    text = _PICTURE.sub(lambda m: f"![{m[1]}]({tree.format('raw')}/{m[2]})", text)
    return _LINK.sub(lambda m: f"[{m[1]}]({tree.format('blob')}/{m[2]})", text)


class ReadmeHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = description(
            readme, os.environ.get("HOMEOSTAT_REPOSITORY", ""), str(metadata.get("version", ""))
        )
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
