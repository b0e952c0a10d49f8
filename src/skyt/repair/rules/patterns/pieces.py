"""Templates for rules that are functions: a piece of program taken apart, or put together, as Python text.

p = pieces("for i, x in enumerate(s): body", statement)      # None, or what each name stands for
made("for i in range(len(s)): body", i=p["i"], s=p["s"], body=new)
"""

from __future__ import annotations

import ast
from functools import cache, lru_cache
from typing import Any

from skyt.repair.rules.analysis.syntax import load
from skyt.repair.rules.patterns.matching import match
from skyt.repair.rules.patterns.template import OUTER, Found, Template, build, fill

read = lru_cache(maxsize=None)(Template.read)


@cache
def _root(template: str) -> ast.AST:
    return read(template).expression or read(template).body[0]


def pieces(template: str, node: ast.AST | None, **given: Any) -> dict[str, Any] | None:
    """What the names of a template stand for in an expression or a statement; None if it looks otherwise, or
    if a name that is given stands for something else."""
    wanted = _root(template)
    if isinstance(node, ast.Expr) and isinstance(wanted, ast.expr):
        node = node.value
    if wanted.__class__ is not node.__class__:
        return None
    found = _given(given)
    return found if match(wanted, node, found) and OUTER not in found else None


def first(node: ast.AST | None, *templates: str, **given: Any) -> dict[str, Any] | None:
    """The pieces of the first template that fits."""
    return next((p for t in templates if (p := pieces(t, node, **given)) is not None), None)


def made(template: str, **parts: Any) -> list[ast.stmt]:
    """The statements that a template says; a part may be a name of a variable."""
    return build(read(template).body, _given(parts))


def value(template: str, **parts: Any) -> Any:
    """The expression that a template says."""
    return fill(read(template).body[0].value, _given(parts))  # type: ignore[attr-defined]


def _given(parts: dict[str, Any]) -> Found:
    return {name: load(part) if isinstance(part, str) else part for name, part in parts.items()}
