"""Matching: whether a piece of program is what a template says. Each template is taken apart once, into a
function that looks at what differs most often first."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from skyt.repair.rules.analysis.trees import same
from skyt.repair.rules.patterns.template import FIXED, OUTER, Found, Value, block_name, fewest

Matcher = Callable[[Any, Found], bool]
SKIPPED = frozenset({"ctx", "type_comment", "kind", "lineno", "is_async"})
_matchers: dict[int, tuple[object, Matcher]] = {}  # by identity of the pattern, which is kept with it


def match(pattern: object, node: object, found: Found) -> bool:
    """Whether a piece of program is what a pattern says; what its names stand for goes into `found`."""
    known = _matchers.get(id(pattern))
    if known is None:
        known = _matchers[id(pattern)] = pattern, _matcher(pattern)
    return known[1](node, found)


def _matcher(pattern: object) -> Matcher:
    if isinstance(pattern, ast.Name):
        return _name(pattern)
    if isinstance(pattern, ast.AST):
        return _node(pattern)
    if isinstance(pattern, list):
        blocks = any(isinstance(p, ast.Expr) and block_name(p) for p in pattern)
        return _statements(pattern) if blocks else _list(pattern)
    kind = type(pattern)
    return lambda node, found: type(node) is kind and node == pattern


def _name(pattern: ast.Name) -> Matcher:
    name = pattern.id
    if name in FIXED:
        return lambda node, found: isinstance(node, ast.Name) and node.id == name
    stored = not isinstance(pattern.ctx, ast.Load) and not name.startswith("target")
    kind = ast.Name if stored else ast.expr
    return lambda node, found: isinstance(node, kind) and _bind(name, node, found)


def _bind(name: str, value: Value, found: Found) -> bool:
    if name in found:
        return same(found[name], value)
    found[name] = value
    return True


def _node(pattern: ast.AST) -> Matcher:
    kind, count = pattern.__class__, 0
    parts = [(f, getattr(pattern, f, None)) for f in kind._fields if f not in SKIPPED]
    parts.sort(key=lambda part: isinstance(part[1], ast.expr | list))  # operators and names of methods first
    matchers = [(f, _matcher(part)) for f, part in parts]
    if isinstance(pattern, ast.BoolOp) and not isinstance(pattern.values[-1], ast.Name):
        count = len(pattern.values)
    joined = isinstance(pattern, ast.comprehension) and len(pattern.ifs) == 1
    single = len(getattr(pattern, "generators", ())) == 1

    def apply(node: Any, found: Found) -> bool:
        if node.__class__ is not kind:
            return False
        if joined:
            node = _one_condition(node)  # type: ignore[arg-type]
        elif single and len(node.generators) > 1:  # type: ignore[attr-defined]
            node = _innermost(node, found)
        elif count:
            node = _grouped(node, count)  # type: ignore[arg-type]
        for field, matcher in matchers:  # noqa: SIM110
            if not matcher(getattr(node, field, None), found):
                return False
        return True

    return apply


def _innermost(node: Any, found: Found) -> Any:
    """A comprehension with its last `for` alone; the others are kept apart."""
    found[OUTER] = node.generators[:-1]
    parts = {f: getattr(node, f) for f in node._fields if f != "generators"}
    return node.__class__(**parts, generators=node.generators[-1:])


def _one_condition(node: ast.comprehension) -> ast.comprehension:
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
