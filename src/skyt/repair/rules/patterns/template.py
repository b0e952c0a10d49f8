"""Templates: Python text in which every name that is not a builtin stands for something.

In an expression a name stands for any expression; a name that is assigned stands for a variable; a name that
is a statement by itself stands for one or more statements, with a star for any number of them. The condition
of a comprehension stands for all that it has, and for True if it has none. A name that occurs twice stands
for the same thing both times. Functions take programs apart and put them together with `pieces` and `made`.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from skyt.repair.rules.analysis.syntax import load, operands
from skyt.repair.rules.analysis.trees import clone, same, shape, walk
from skyt.repair.rules.analysis.types import BUILTINS, MODULE_MEMBERS
from skyt.text.parsing import parse

Value = ast.expr | list[ast.stmt]
Found = dict[str, Value]
Matcher = Callable[[Any, Found], bool]
FIXED = BUILTINS | set(MODULE_MEMBERS)
SKIPPED = frozenset({"ctx", "type_comment", "kind", "lineno", "is_async"})


@dataclass(frozen=True)
class Template:
    """A piece of Python, as an expression or as statements."""

    text: str
    body: list[ast.stmt] = field(repr=False)

    @classmethod
    def read(cls, text: str) -> Template:
        text = textwrap.dedent(text).strip("\n")
        return cls(text, parse(text).body)

    @property
    def expression(self) -> ast.expr | None:
        """The expression, if that is all there is."""
        only = self.body[0] if len(self.body) == 1 else None
        return only.value if isinstance(only, ast.Expr) and not block_name(only) else None

    @cached_property
    def root(self) -> ast.expr | ast.stmt:
        return self.expression or self.body[0]

    @property
    def shape(self) -> tuple[object, ...] | None:
        """What can be seen of what it matches at a glance; None where that may be anything."""
        called = self.root.func if isinstance(self.root, ast.Call) else None
        anything = isinstance(called, ast.Name) and called.id not in FIXED
        return None if anything or (len(self.body) == 1 and block_name(self.root)) else shape(self.root)

    @property
    def names(self) -> set[str]:
        return {n.id for n in walk(self.body) if isinstance(n, ast.Name) and n.id not in FIXED}


def block_name(s: ast.AST) -> str | None:
    """The name of a statement that stands for statements."""
    named = s.value if isinstance(s, ast.Expr) else None
    named = named.value if isinstance(named, ast.Starred) else named
    return named.id if isinstance(named, ast.Name) and named.id not in FIXED else None


def fewest(patterns: Sequence[ast.stmt]) -> int:
    """How many statements there are at least."""
    return sum(not (isinstance(p, ast.Expr) and isinstance(p.value, ast.Starred)) for p in patterns)


def build(template: Sequence[ast.stmt], found: Found) -> list[ast.stmt]:
    """The statements that a template says, with what its names stand for."""
    made: list[ast.stmt] = []
    for s in template:
        name = block_name(s)
        made += [fill(s, found)] if name is None else [clone(x) for x in found[name]]  # type: ignore[union-attr]
    return made


def fill(node: Any, found: Found) -> Any:
    """A copy of a piece of template, with what its names stand for."""
    if isinstance(node, list):
        statements = node and isinstance(node[0], ast.stmt)
        return build(node, found) if statements else [fill(x, found) for x in node]
    if not isinstance(node, ast.AST) or isinstance(node, ast.expr_context):
        return node
    if isinstance(node, ast.Name) and node.id not in FIXED:
        new: Any = clone(found[node.id])  # type: ignore[type-var]
        if hasattr(new, "ctx"):
            new.ctx = node.ctx
        return new
    new = node.__class__(**{name: fill(getattr(node, name, None), found) for name in node._fields})
    if isinstance(node, ast.stmt):
        new.lineno = 0
    elif isinstance(node, ast.BoolOp):
        new.values = operands(new)
    elif isinstance(node, ast.comprehension):
        new.ifs = [c for c in new.ifs if not (isinstance(c, ast.Constant) and c.value is True)]
    return new


_matchers: dict[int, tuple[object, Matcher]] = {}  # by identity of the pattern, which is kept with it


def match(pattern: object, node: object, found: Found) -> bool:
    """Whether a piece of program is what a pattern says; what its names stand for goes into `found`. Each
    pattern is taken apart once, into a function that looks at what differs most often first."""
    known = _matchers.get(id(pattern))
    if known is None:
        known = _matchers[id(pattern)] = pattern, _matcher(pattern)
    return known[1](node, found)


def _matcher(pattern: Any) -> Matcher:
    if isinstance(pattern, ast.Name):
        name = pattern.id
        if name in FIXED:
            return lambda node, found: isinstance(node, ast.Name) and node.id == name
        stored = not isinstance(pattern.ctx, ast.Load) and not name.startswith("target")
        kind = ast.Name if stored else ast.expr
        return lambda node, found: isinstance(node, kind) and _bind(name, node, found)
    if isinstance(pattern, ast.AST):
        return _node(pattern)
    if isinstance(pattern, list):
        return _list(pattern)
    return lambda node, found: type(node) is type(pattern) and node == pattern


def _bind(name: str, value: Value, found: Found) -> bool:
    if name in found:
        return same(found[name], value)
    found[name] = value
    return True


def _node(pattern: ast.AST) -> Matcher:
    kind = pattern.__class__
    parts = [(f, getattr(pattern, f, None)) for f in kind._fields if f not in SKIPPED]
    parts.sort(key=lambda part: (isinstance(part[1], ast.expr | list), isinstance(part[1], ast.Name)))
    matchers = [(f, _field(pattern, f, _matcher(part))) for f, part in parts]

    def apply(node: Any, found: Found) -> bool:
        if node.__class__ is not kind:
            return False
        for name, matcher in matchers:  # noqa: SIM110
            if not matcher(getattr(node, name, None), found):
                return False
        return True

    return apply


def _field(pattern: ast.AST, name: str, inner: Matcher) -> Matcher:
    """What matches a field: all conditions of a comprehension are one, and of `a or b or c` as many operands
    as the pattern has, with `a or b` for the first."""
    match pattern, name:
        case ast.comprehension(ifs=[_]), "ifs":
            true: list[ast.expr] = [ast.Constant(True)]
            return lambda ifs, found: inner([ast.BoolOp(ast.And(), ifs)] if ifs[1:] else ifs or true, found)
        case ast.BoolOp(op=op, values=[*first, ast.expr() as last]), "values" if not isinstance(
            last, ast.Name
        ):
            return lambda values, found: inner(_grouped(op, values, len(values) - len(first)), found)
    return inner


def _grouped(op: ast.boolop, values: list[ast.expr], count: int) -> list[ast.expr]:
    return [ast.BoolOp(op, values[:count]), *values[count:]] if count > 1 else values


def _list(patterns: list[Any]) -> Matcher:
    """A list; of its names that stand for several statements, the first stands for as many as it can."""
    names: list[Any] = [*map(block_name, patterns)]
    at = next((i for i, name in enumerate(names) if name), len(patterns))
    matchers, least, later = [*map(_matcher, patterns[:at])], fewest(patterns), fewest(patterns[at + 1 :])
    rest: Any = _list(patterns[at + 1 :]) if at < len(patterns) else None

    def apply(nodes: Any, found: Found) -> bool:
        if not isinstance(nodes, list) or len(nodes) < least or (rest is None and len(nodes) > least):
            return False
        for matcher, node in zip(matchers, nodes, strict=False):
            if not matcher(node, found):
                return False
        for end in range(len(nodes) - later, least - later - 1, -1) if rest else ():
            attempt = dict(found)
            if _bind(names[at], nodes[at:end], attempt) and rest(nodes[end:], attempt):
                found.update(attempt)
                return True
        return rest is None

    return apply


read = cache(Template.read)


def pieces(template: str, node: ast.AST | None, **given: Any) -> dict[str, Any] | None:
    """What the names of a template stand for in an expression or a statement; None if it looks otherwise, or
    if a name that is given stands for something else."""
    wanted = read(template).root
    if isinstance(node, ast.Expr) and isinstance(wanted, ast.expr):
        node = node.value
    if wanted.__class__ is not node.__class__:
        return None
    found = _given(given)
    return found if match(wanted, node, found) else None


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
