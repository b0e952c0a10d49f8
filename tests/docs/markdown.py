"""Reading the documentation: fenced blocks with the rules written above them, and commands in running text.

A rule is an HTML comment on the line above a fence, `<!-- test: given runs/gcd; exit 1 -->`, or the name of
the file that the block is, `<!-- file: mine.py -->`. CONTRIBUTING.md says what each rule means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHELL = frozenset({"bash", "sh", "console"})
RULES = frozenset({"append", "endpoint", "exit", "given", "help", "needs", "starts", "with"})
_FENCE = re.compile(r"^```(\w*)\s*$")
_COMMENT = re.compile(r"^<!--\s*(test|file):\s*(.*?)\s*-->\s*$")
_COMMAND = re.compile(r"^\s*(?:\$ )?(homeostat|python|pip|make|git|docker|curl)\s")
_INLINE = re.compile(r"`((?:homeostat|python\s-m|make)\s[^`]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and how it is to be tested."""

    page: str
    line: int
    language: str
    text: str
    rules: dict[str, str] = field(default_factory=dict)
    file: str | None = None

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def names_commands(self) -> bool:
        return any(_COMMAND.match(line) for line in self.text.splitlines())

    def commands(self) -> list[str]:
        """The commands of a shell block: comments off, continued lines joined, prompts and output dropped."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        stripped = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in lines)
        return [line for line in stripped if line]


def pages() -> list[str]:
    """Every page of the documentation, by its path in the repository."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path.relative_to(ROOT).as_posix() for path in found]


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    rules: dict[str, str] = {}
    file: str | None = None
    inside: list[str] | None = None
    language, began = "", 0
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), start=1):
        fence, comment = _FENCE.match(line), _COMMENT.match(line)
        if inside is not None:
            if fence:
                found.append(Block(page, began, language, "\n".join(inside) + "\n", rules, file))
                inside, rules, file = None, {}, None
            else:
                inside.append(line)
        elif fence:
            inside, language, began = [], fence.group(1), number
        elif comment and comment.group(1) == "file":
            file = comment.group(2)
        elif comment:
            rules = _rules(comment.group(2), f"{page}:{number}")
        elif line.strip() and (rules or file):
            raise AssertionError(f"{page}:{number}: a rule must stand right above its block")
    assert inside is None, f"{page}:{began}: the block never ends"
    return found


def loose_commands(page: str) -> list[tuple[int, str]]:
    """Commands in indented blocks, which no rule can stand above."""
    return [(n, line.strip()) for n, line in _text(page) if line.startswith("    ") and _COMMAND.match(line)]


def inline_commands(page: str) -> list[tuple[int, str]]:
    """Commands in running text and tables."""
    joined = "\n".join(line for _, line in _text(page))
    return [
        (joined.count("\n", 0, found.start()) + 1, " ".join(found.group(1).split()))
        for found in _INLINE.finditer(joined)
    ]


def links(page: str) -> list[tuple[str, str]]:
    """Where the page's links lead inside the repository: (path, heading), of which either may be empty."""
    text = "\n".join(line for _, line in _text(page))
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    parts = [target.partition("#") for target in targets if "://" not in target]
    return [(path, heading) for path, _, heading in parts]


def headings(page: str) -> set[str]:
    """The addresses of a page's headings, as GitHub and the site make them."""
    titles = [line.lstrip("#").strip() for _, line in _text(page) if re.match(r"#{1,6} ", line)]
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def broken_links(page: str) -> list[str]:
    """Links of a page to files or headings that do not exist."""
    found = []
    for path, heading in links(page):
        target = (ROOT / page).parent / path if path else ROOT / page
        inside = target.resolve().relative_to(ROOT.resolve()).as_posix() if target.exists() else ""
        if not inside or (heading and heading not in headings(inside)):
            found.append(f"{path}#{heading}" if heading else path)
    return found


def _text(page: str) -> list[tuple[int, str]]:
    """The lines outside fences, with their numbers; those inside are blank."""
    found, inside = [], False
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), start=1):
        fence = bool(_FENCE.match(line))
        inside ^= fence
        found.append((number, "" if inside or fence else line))
    return found


def _rules(text: str, where: str) -> dict[str, str]:
    rules = {}
    for part in text.split(";"):
        name, _, value = part.strip().partition(" ")
        assert name in RULES, f"{where}: unknown rule {name!r}; known: {', '.join(sorted(RULES))}"
        rules[name] = value.strip()
    return rules
