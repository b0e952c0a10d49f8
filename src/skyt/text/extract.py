"""Code from what a model wrote: prose, fences, several of them, unfinished ones."""

from __future__ import annotations

import ast
import re

from skyt.text.parsing import MAX_PARSED_CHARS, beginning, parse

MAX_ANSWER_CHARS = 10 * MAX_PARSED_CHARS
_MOST_PROSE = 200  # lines

_FENCE = re.compile(r"^[ \t]*(`{3,}+|~{3,}+)([^\n`]*+)$")
_PYTHON_TAGS = {"", "python", "python3", "py", "py3", "python-repl", "{python}", "{.python}"}
_CODE_START = re.compile(
    r"^(?:(?:async )?def \w+\s*\(|class \w+\s*[(:]|@\w"
    r"|import \w[\w.]*(?: as \w+)?(?:,.*)?$|from \.*\w[\w.]* import )",
    re.MULTILINE,
)
_DEMO_NAME = re.compile(r"_*(test|main|demo|example|run_|benchmark)", re.IGNORECASE)


def extract_code(text: str) -> str:
    """The program in a model's answer.

    Without fences the text itself, minus prose before the first and after the last line that can be code.
    With fences the first one that defines something (a later one if it defines all of that and more), and
    those that define what it uses or build on it. Usage examples, tests and alternative versions stay out.
    An answer of more than `MAX_ANSWER_CHARS` is not looked into, and is no program.
    """
    if len(text) > MAX_ANSWER_CHARS:
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    blocks = _fenced(text)
    if not blocks or _is_program(text):
        return _without_prose(text)
    codes = [code.strip("\n") for tag, code in blocks if tag in _PYTHON_TAGS and code.strip()]
    codes = codes or [code.strip("\n") for _, code in blocks if code.strip()]
    if not codes:
        return ""
    parts = [_Part(code, tree) for code in codes if (tree := _tree(code)) is not None]
    defining = [part for part in parts if part.defined]
    if not defining:
        return max([part.code for part in parts] or codes, key=len)
    main = defining[0]
    for part in defining[1:]:
        if part.defined > main.defined:
            main = part
    return _with_dependencies(main, defining)


def _is_program(text: str) -> bool:
    """Whether the whole text is Python that defines something: its fences then stand inside strings."""
    tree = _tree(text)
    return tree is not None and bool(_Part(text, tree).defined)


class _Part:
    """A fence's code with the names it defines and those it needs."""

    def __init__(self, code: str, tree: ast.Module) -> None:
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        self.code = code
        self.defined = {node.name for node in tree.body if isinstance(node, definitions)}
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        stored = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
        self.needed = {node.id for node in names} - stored - self.defined


def _with_dependencies(main: _Part, parts: list[_Part]) -> str:
    chosen, defined, needed = [main], set(main.defined), set(main.needed)
    for part in parts:
        demo = all(_DEMO_NAME.match(name) for name in part.defined)
        if not (part.defined & defined or demo) and (part.defined & needed or part.needed & defined):
            chosen.append(part)
            defined |= part.defined
            needed |= part.needed
    return "\n\n".join(part.code for part in parts if part in chosen)


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
    program = beginning(lines)
    end = len(lines) if program is None else program[0]
    # Prose after the code starts at the left margin: what is indented is a part of the code that is broken.
    prose = lines[end:]
    if len(prose) > _MOST_PROSE or any(line[:1] in (" ", "\t") for line in prose if line):
        end = len(lines)
    return "\n".join(lines[:end])


def _dedent(code: str) -> str:
    """Fences inside a list are indented as a whole; blank lines do not count."""
    lines = code.split("\n")
    indents = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    cut = min(indents, default=0)
    return "\n".join(line[cut:] for line in lines) if cut else code


def _tree(code: str) -> ast.Module | None:
    if len(code) > MAX_PARSED_CHARS:
        return None
    try:
        return parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _parses(code: str) -> bool:
    return _tree(code) is not None
