"""Templates: Python text in which every name that is not a builtin stands for something.

In an expression a name stands for any expression; a name that is assigned stands for a variable; a name that
is a statement by itself stands for one or more statements, with a star for any number of them. The condition
of a comprehension stands for all that it has, and for True if it has none. A name that occurs twice stands
for the same thing both times. Rules that are functions take programs apart and put them together with them:

    p = pieces("for i, x in enumerate(s): body", statement)      # None, or what each name stands for
    made("for i in range(len(s)): body", i=p["i"], s=p["s"], body=new)
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
from skyt.repair.rules.analysis.vocabulary import BUILTINS, MODULE_MEMBERS
from skyt.text.parsing import parse

Value = ast.expr | list[ast.stmt]
Found = dict[str, Value]
Matcher = Callable[[Any, Found], bool]
OUTER = "for"  # the `for`s of a comprehension before its last, where a template has one
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
    elif OUTER in found and hasattr(node, "generators"):
        new.generators = [*(clone(g) for g in found[OUTER]), *new.generators]  # type: ignore[union-attr]
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
        return _statements(pattern) if any(map(block_name, pattern)) else _list(pattern)
    return lambda node, found: type(node) is type(pattern) and node == pattern


def _bind(name: str, value: Value, found: Found) -> bool:
    if name in found:
        return same(found[name], value)
    found[name] = value
    return True


def _node(pattern: ast.AST) -> Matcher:
    kind = pattern.__class__
    parts = [(f, getattr(pattern, f, None)) for f in kind._fields if f not in SKIPPED]
    parts.sort(key=lambda part: isinstance(part[1], ast.expr | list))  # operators and names of methods first
    matchers = [(f, _matcher(part)) for f, part in parts]
    view: Callable[[Any, Found], Any] | None = None
    if isinstance(pattern, ast.BoolOp) and not isinstance(pattern.values[-1], ast.Name):
        count = len(pattern.values)
        view = lambda node, found: _grouped(node, count)  # noqa: E731
    elif isinstance(pattern, ast.comprehension) and len(pattern.ifs) == 1:
        view = _one_condition
    elif len(getattr(pattern, "generators", ())) == 1:
        view = _innermost

    def apply(node: Any, found: Found) -> bool:
        if node.__class__ is not kind:
            return False
        if view is not None:
            node = view(node, found)
        for name, matcher in matchers:  # noqa: SIM110
            if not matcher(getattr(node, name, None), found):
                return False
        return True

    return apply


def _innermost(node: Any, found: Found) -> Any:
    """A comprehension with its last `for` alone; the others are kept apart."""
    if len(node.generators) == 1:
        return node
    found[OUTER] = node.generators[:-1]
    parts = {f: getattr(node, f) for f in node._fields if f != "generators"}
    return node.__class__(**parts, generators=node.generators[-1:])


def _one_condition(node: ast.comprehension, found: Found) -> ast.comprehension:
    whole: ast.expr = ast.BoolOp(op=ast.And(), values=node.ifs)
    if len(node.ifs) < 2:
        whole = node.ifs[0] if node.ifs else ast.Constant(value=True)
    return ast.comprehension(target=node.target, iter=node.iter, ifs=[whole], is_async=node.is_async)


def _grouped(node: ast.BoolOp, count: int) -> ast.BoolOp:
    """`a or b or c` as `(a or b) or c`: as many operands as the pattern has."""
    extra = len(node.values) - count + 1
    if extra < 2:
        return node
    first = ast.BoolOp(op=node.op, values=node.values[:extra])
    return ast.BoolOp(op=node.op, values=[first, *node.values[extra:]])


def _list(patterns: list[Any]) -> Matcher:
    matchers = [_matcher(p) for p in patterns]

    def apply(nodes: Any, found: Found) -> bool:
        if not isinstance(nodes, list) or len(nodes) != len(matchers):
            return False
        return all(matcher(node, found) for matcher, node in zip(matchers, nodes, strict=True))

    return apply


def _statements(patterns: Sequence[ast.stmt]) -> Matcher:
    """Statements where a name stands for several: the first such name for as many as it can."""
    if not patterns:
        return lambda nodes, found: not nodes
    first, rest = patterns[0], _statements(patterns[1:])
    name, least, later = block_name(first), fewest(patterns[:1]), fewest(patterns[1:])
    if name is None:
        matcher = _matcher(first)
        return lambda nodes, found: bool(nodes) and matcher(nodes[0], found) and rest(nodes[1:], found)

    def apply(nodes: Any, found: Found) -> bool:
        for count in range(len(nodes) - later, least - 1, -1):
            attempt = dict(found)
            if _bind(name, list(nodes[:count]), attempt) and rest(nodes[count:], attempt):
                found.update(attempt)
                return True
        return False

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
