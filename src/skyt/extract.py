"""Code from what a model wrote: prose, fences, several of them, unfinished ones."""

from __future__ import annotations

import ast
import re

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([^\n`]*)$")
_PYTHON_TAGS = {"", "python", "python3", "py", "py3", "python-repl", "{python}", "{.python}"}
_CODE_START = re.compile(r"^(def |async def |class |import |from \w[\w.]* import |@\w)", re.MULTILINE)


def extract_code(text: str) -> str:
    """The program in a model's answer.

    Without fences the text itself, minus prose before the first and after the last line that can be code.
    With fences the Python ones (or the untagged ones) together where that parses and they define different
    names, else the longest of them: models often repeat a function or append a usage example.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    blocks = _fenced(text)
    if not blocks:
        return _without_prose(text)
    candidates = [code for tag, code in blocks if tag in _PYTHON_TAGS and code.strip()]
    candidates = candidates or [code for _, code in blocks if code.strip()]
    defining = [code for code in candidates if _CODE_START.search(code)] or candidates
    if not defining:
        return ""
    together = "\n\n".join(code.strip("\n") for code in defining)
    names = [name for code in defining for name in _top_names(code)]
    if len(names) == len(set(names)) and _parses(together):
        return together
    parsing = [code for code in defining if _parses(code)]
    return max(parsing or defining, key=len).strip("\n")


def _fenced(text: str) -> list[tuple[str, str]]:
    """(language tag, content) of each fence; an unfinished last fence ends with the text."""
    blocks: list[tuple[str, str]] = []
    fence, tag, content = "", "", list[str]()
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if not fence and mark:
            words = mark[2].strip().lower().split()
            fence, tag, content = mark[1], words[0] if words else "", []
        elif fence and mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not mark[2].strip():
            blocks.append((tag, _dedent("\n".join(content))))
            fence = ""
        elif fence:
            content.append(line)
    if fence:
        blocks.append((tag, _dedent("\n".join(content))))
    return blocks


def _without_prose(text: str) -> str:
    if _parses(text):
        return text
    start = _CODE_START.search(text)
    if start is None:
        return text
    lines = text[start.start() :].split("\n")
    # Prose after the code starts at the left margin and is not Python: drop lines until the rest parses.
    for end in range(len(lines), 0, -1):
        trailing = lines[end : end + 1]
        if trailing and trailing[0][:1] in (" ", "\t"):
            break
        candidate = "\n".join(lines[:end])
        if _parses(candidate):
            return candidate
        if len(lines) - end > 200:
            break
    return "\n".join(lines)


def _dedent(code: str) -> str:
    """Fences inside a list are indented as a whole; blank lines do not count."""
    lines = code.split("\n")
    indents = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    cut = min(indents, default=0)
    return "\n".join(line[cut:] for line in lines) if cut else code


def _tree(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _parses(code: str) -> bool:
    return _tree(code) is not None


def _top_names(code: str) -> list[str]:
    tree = _tree(code)
    if tree is None:
        return []
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node.name for node in tree.body if isinstance(node, definitions)]
