"""Bindings: what is assigned to which name in a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from skyt.repair.rules.analysis.trees.trees import children, clone, in_order, walk

BINDERS = frozenset({ast.Assign, ast.AugAssign, ast.For, ast.comprehension, ast.FunctionDef, ast.arg})
BINDING = (*BINDERS - {ast.arg}, ast.Return, ast.Call, ast.Lambda)


def own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Nodes of a function in source order, without the insides of functions nested in it."""
    pending: list[ast.AST] = list(reversed(function.body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            pending.extend(reversed(children(node)))


def bound_anywhere(where: ast.AST | Sequence[ast.AST]) -> set[str]:
    """Every name that some scope inside binds, methods included."""
    found = [_bound(n) for n in walk(where)]
    return {name for name in found if name}


def _bound(n: ast.AST) -> str:
    if isinstance(n, ast.Name):
        return "" if n.ctx.__class__ is ast.Load else n.id
    if isinstance(n, ast.arg):
        return n.arg
    return n.name if isinstance(n, ast.FunctionDef | ast.ClassDef | ast.alias) else ""


def bound_in(function: ast.FunctionDef) -> set[str]:
    """The parameters of a function, and every name that is bound in its body."""
    return bound_anywhere([function.args, *function.body])


def loaded(target: ast.expr) -> ast.expr:
    """A target as the expression that reads it."""
    node = clone(target)
    node.ctx = ast.Load()  # type: ignore[attr-defined]
    return node


def assignments_of(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr | None]]:
    """(name, value) for every binding in a function; the value is None where it is not a plain assignment."""
    for node in in_order(function):
        if node.__class__ not in BINDERS:
            continue
        match node:
            case ast.Assign(targets=targets, value=value):
                alone = len(targets) == 1 or isinstance(value, ast.Constant)  # else one object with two names
                for target in targets:
                    yield from _targets(target, value if alone else None)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                yield name, ast.BinOp(left=loaded(target), op=op, right=value)
            case ast.For(target=target, iter=source) | ast.comprehension(target=target, iter=source):
                of_range = isinstance(source, ast.Call) and getattr(source.func, "id", "") == "range"
                yield from _targets(target, source if of_range and isinstance(target, ast.Name) else None)
            case ast.FunctionDef(name=name) if node is not function:
                yield name, None
            case ast.arg(arg=name) if node not in function.args.args:
                yield name, None


def _targets(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List):
        parts = value.elts if isinstance(value, ast.Tuple | ast.List) else [None] * len(target.elts)
        for item, part in zip(target.elts, parts, strict=False):
            yield from _targets(item, part)


def attribute_order(tree: ast.Module, public: frozenset[str]) -> dict[str, str]:
    """For attributes that only the program names: a number in the order in which they are first assigned, and
    nothing for methods."""
    if not any(isinstance(s, ast.ClassDef) for s in tree.body):
        return {}
    nodes = in_order(tree)
    stores = (n.attr for n in nodes if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load))
    order = {attr: f"{i:03d}" for i, attr in enumerate(dict.fromkeys(stores)) if attr not in public}
    methods = {s.name for c in tree.body if isinstance(c, ast.ClassDef) for s in c.body if hasattr(s, "name")}
    return {**dict.fromkeys(methods - public, ""), **order}
