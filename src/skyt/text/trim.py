"""The entry point out of a text that a model went on writing.

A model that continues code does not stop at the end of the function: tests, prints, other functions and half
a line follow. What remains is the longest beginning that parses, of it the first definition of the entry
point and of every name that it needs, directly or through others, and imports of names that are used there.
"""

from __future__ import annotations

import ast

from skyt.text.parsing import MAX_PARSED_CHARS, beginning

MAX_TRIMMED_CHARS = 10 * MAX_PARSED_CHARS
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


def trimmed(code: str, entry: str) -> str:
    """The program of `entry`; the text as it is where no beginning of it defines that name."""
    start = beginning(code.split("\n")) if len(code) <= MAX_TRIMMED_CHARS else None
    if start is None:
        return code
    tree = start[1]
    defined: dict[str, _Definition] = {}
    for statement in tree.body:
        if isinstance(statement, _Definition):
            for name in _names_of(statement):
                defined.setdefault(name, statement)
    if entry not in defined:
        return code
    needed, waiting = {entry}, [entry]
    while waiting:
        definition = defined.get(waiting.pop())
        if definition is not None:
            new = _used(definition) - needed
            needed |= new
            waiting += new
    chosen = {id(defined[name]) for name in needed if name in defined}
    at = next(number for number, node in enumerate(tree.body) if id(node) in chosen)
    parts = [_part(node, chosen, needed, number < at) for number, node in enumerate(tree.body)]
    body = [part for part in parts if part is not None]
    return ast.unparse(ast.Module(body, []))


def _names_of(statement: _Definition) -> list[str]:
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.AnnAssign):
        return [statement.target.id] if isinstance(statement.target, ast.Name) else []
    return [statement.name]


def _used(node: ast.AST) -> set[str]:
    """Names that a statement takes from outside; those that a function binds itself are its own."""
    parts = list(ast.walk(node))
    names = [part for part in parts if isinstance(part, ast.Name)]
    own = {part.arg for part in parts if isinstance(part, ast.arg)}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        own |= {name.id for name in names if not isinstance(name.ctx, ast.Load)}
        own -= {name for part in parts if isinstance(part, ast.Global) for name in part.names}
    return {name.id for name in names} - own


def _part(node: ast.stmt, chosen: set[int], needed: set[str], early: bool) -> ast.stmt | None:
    """A statement as far as it belongs to the program; `from … import *` only before everything else."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return node if id(node) in chosen else None
    if isinstance(node, ast.ImportFrom) and (node.names[0].name == "*" or node.module == "__future__"):
        return node if early else None
    node.names = [a for a in node.names if (a.asname or a.name.partition(".")[0]) in needed]
    return node if node.names else None
