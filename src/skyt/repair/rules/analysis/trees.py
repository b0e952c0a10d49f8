"""Trees: copying, comparing and walking syntax trees, faster than the standard library does."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args

T = TypeVar("T", bound=ast.AST)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STORING = frozenset({ast.Store, ast.Del})
CONTEXTS = STORING | {ast.Load}
NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
COMPREHENSIONS = get_args(Comprehension)
SCOPES = frozenset({*NESTED, *COMPREHENSIONS})
KINDS = [cls for cls in vars(ast).values() if isinstance(cls, type) and issubclass(cls, ast.AST)]
OPERATORS = frozenset(c for c in KINDS if issubclass(c, ast.operator | ast.cmpop | ast.unaryop | ast.boolop))


def clone(node: T, instead: Mapping[int, ast.AST] = {}) -> T:
    """A deep copy, much faster than copy.deepcopy, with other trees in the place of some of the nodes."""
    if instead and id(node) in instead:
        return clone(instead[id(node)])  # type: ignore[return-value]
    new = node.__class__()
    fields = new.__dict__
    for name, value in node.__dict__.items():
        if value.__class__ is list:
            fields[name] = [clone(x, instead) if isinstance(x, ast.AST) else x for x in value]
        elif isinstance(value, ast.AST) and value.__class__ not in CONTEXTS:
            fields[name] = clone(value, instead)
        else:
            fields[name] = value
    if isinstance(node, ast.stmt):
        new.lineno = 0  # type: ignore[attr-defined]
    return new


def exchanged(node: T, old: ast.AST, new: ast.AST) -> T:
    """A copy of a tree with another in the place of one of its nodes."""
    return clone(node, {id(old): new})


def same(a: object, b: object) -> bool:
    """Structural equality of two trees, positions and contexts aside."""
    if isinstance(a, ast.AST):
        if a.__class__ is not b.__class__:
            return False
        return all(same(getattr(a, f, None), getattr(b, f, None)) for f in a._fields if f != "ctx")
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and a == b


def text(node: ast.AST | Sequence[ast.AST]) -> str:
    """Source text, for traces and keys."""
    return ast.unparse(node) if isinstance(node, ast.AST) else "\n".join(map(text, node))


PLAIN_FIELDS = words(
    "ctx id attr arg name asname module level kind type_comment type_ignores conversion is_async simple tag "
    "rest kwd_attrs"
)
LEAF_KINDS = (ast.Constant, ast.Global, ast.Nonlocal, ast.MatchSingleton)
SPARSE = frozenset({ast.Dict, ast.arguments})  # kinds with lists that may have None
Parts = Mapping[type, Sequence[str]]  # by kind of node, the fields with nodes inside
CHILDREN: Parts = {
    cls: () if cls in LEAF_KINDS else tuple(f for f in cls._fields if f not in PLAIN_FIELDS) for cls in KINDS
}
SHALLOW: Parts = {**CHILDREN, **dict.fromkeys(SCOPES, ())}  # does not enter functions and comprehensions
OWN: Parts = {**CHILDREN, ast.FunctionDef: (), ast.ClassDef: ()}


def walk(node: ast.AST | Sequence[ast.AST], parts: Parts = CHILDREN) -> list[ast.AST]:
    """Every node inside, contexts aside: what ast.walk gives, several times faster."""
    found: list[Any] = [node] if isinstance(node, ast.AST) else [n for n in node if n is not None]
    add = found.append
    for item in found:  # to which the loop adds
        kind = item.__class__
        if names := parts[kind]:
            fields = item.__dict__
            for name in names:
                value = fields.get(name)
                if value.__class__ is list:
                    found += value if kind not in SPARSE else [n for n in value if n is not None]
                elif value is not None:
                    add(value)
    return found


def children(node: ast.AST, parts: Parts = CHILDREN) -> list[ast.AST]:
    """The nodes directly inside, contexts aside, in order."""
    found: list[Any] = []
    for name in parts[node.__class__]:
        value = node.__dict__.get(name)
        if value.__class__ is list:
            found += value
        elif value is not None:
            found.append(value)
    return [n for n in found if n is not None] if None in found else found


def in_order(node: ast.AST, parts: Parts = CHILDREN) -> list[ast.AST]:
    """Every node inside, in the order of the text."""
    pending, found = [node], list[ast.AST]()
    while pending:
        item = pending.pop()
        found.append(item)
        if parts[item.__class__]:
            pending += children(item, parts)[::-1]
    return found


def own_nodes(function: ast.FunctionDef) -> list[ast.AST]:
    """Nodes of a function's body in the order of the text, without the insides of functions nested in it."""
    return [n for s in function.body for n in in_order(s, OWN)]


def bare(tree: ast.Module) -> ast.Module:
    """The tree without positions: they mean nothing after a rewrite."""
    for n in walk(tree):
        for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            n.__dict__.pop(name, None)
        if isinstance(n, ast.stmt):
            n.lineno = 0
    return tree


Shape = tuple[object, ...]
OPERATIONS = frozenset({ast.BinOp, ast.UnaryOp, ast.AugAssign})
BRANCHING = frozenset({ast.If, ast.For, ast.While})


def shape(node: ast.AST) -> Shape:
    """What can be seen of a node at a glance; equal for a pattern and all that it matches."""
    kind = node.__class__
    if kind is ast.Compare:
        return kind, *[op.__class__ for op in node.ops]  # type: ignore[attr-defined]
    if kind in OPERATIONS:
        return kind, node.op.__class__  # type: ignore[attr-defined]
    if kind is ast.Call:
        function = node.func  # type: ignore[attr-defined]
        name = function.id if function.__class__ is ast.Name else getattr(function, "attr", "")
        return kind, name, len(node.args)  # type: ignore[attr-defined]
    return (kind, bool(node.orelse)) if kind in BRANCHING else (kind,)  # type: ignore[attr-defined]


def head(s: ast.stmt) -> ast.expr | None:
    """The expression that a statement starts with."""
    return getattr(s, "value", None) or getattr(s, "test", None) or getattr(s, "iter", None)


def look(s: ast.stmt) -> tuple[Shape, Shape]:
    """The shape of a statement, and of the expression that it starts with."""
    first = head(s)
    return shape(s), () if first is None else shape(first)
