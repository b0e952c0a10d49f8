"""Quantifiers: `any` and `all` as the loops they stand for."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.trees.syntax import rename
from skyt.repair.rules.analysis.trees.trees import clone, walk
from skyt.repair.rules.expressions.orientation import negation
from skyt.repair.rules.registry import Place, block


@block(
    ast.Return,
    needs="a generator with one `for`; conditions in front of it of type bool",
    sound="`any` and `all` evaluate one element after the other and stop at the first that decides",
    fires=("xs: list[int]", "return all(x > 1 for x in xs)"),
    keeps=("xs: list[int]", "return all([x > 1 for x in xs])"),
)
def expand_quantifier(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`return all(p for x in e)` is a loop that returns False at the first x without p."""
    for i, s in enumerate(body):
        if not (isinstance(s, ast.Return) and s.value is not None):
            continue
        value, before = s.value, list[ast.stmt]()
        if isinstance(value, ast.BoolOp) and _quantifier(value.values[-1]) is not None:
            rest = value.values[:-1]
            if not all(place.scope.type_of(v) == "bool" for v in rest):
                continue
            first: ast.expr = rest[0] if len(rest) == 1 else ast.BoolOp(op=value.op, values=rest)
            answer = isinstance(value.op, ast.Or)
            test = first if answer else negation(first, place)
            if test is None:
                continue
            before = [ast.If(test=test, body=[ast.Return(value=ast.Constant(value=answer))], orelse=[])]
            value = value.values[-1]
        found = _quantifier(value)
        if found is None:
            continue
        is_all, positive, generator = found
        g = generator.generators[0]
        names = {
            n.id: place.context.name(n.id.rstrip("0123456789_") or "c")
            for n in walk(g.target)
            if isinstance(n, ast.Name)
        }
        target = rename(clone(g.target), names)
        element = rename(clone(generator.elt), names)
        test = negation(element, place) if is_all else element
        if test is None:
            continue
        stop = not is_all if positive else is_all
        inner: list[ast.stmt] = [
            ast.If(test=test, body=[ast.Return(value=ast.Constant(value=stop))], orelse=[])
        ]
        for condition in reversed(g.ifs):
            inner = [ast.If(test=rename(clone(condition), names), body=inner, orelse=[])]
        loop = ast.For(target=target, iter=g.iter, body=inner, orelse=[], lineno=0)
        return [*body[:i], *before, loop, ast.Return(value=ast.Constant(value=not stop)), *body[i + 1 :]]
    return None


def _quantifier(node: ast.expr) -> tuple[bool, bool, ast.GeneratorExp] | None:
    """(all rather than any, not negated, the generator)."""
    positive = True
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node, positive = node.operand, not positive
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1):
        return None
    only = node.args[0]
    if (
        node.func.id not in {"any", "all"}
        or not isinstance(only, ast.GeneratorExp)
        or len(only.generators) != 1
    ):
        return None
    return node.func.id == "all", positive, only
