"""Quantifiers: `any` and `all` as the loops they stand for."""

from __future__ import annotations

import ast

from skyt.repair.rules.containers.building import rounds
from skyt.repair.rules.expressions.comparisons import opposite
from skyt.repair.rules.patterns.pieces import first, made, pieces
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
        whole, before = s.value, list[ast.stmt]()
        if isinstance(whole, ast.BoolOp) and _quantifier(whole.values[-1]) is not None:
            rest, answer = whole.values[:-1], isinstance(whole.op, ast.Or)
            head: ast.expr = rest[0] if len(rest) == 1 else ast.BoolOp(op=whole.op, values=rest)
            test = head if answer else opposite(head, place.scope)
            if not all(place.scope.type_of(v) == "bool" for v in rest):
                continue
            before, whole = made("if c: return v", c=test, v=ast.Constant(value=answer)), whole.values[-1]
        found = _quantifier(whole)
        if found is None:
            continue
        is_all, positive, generator = found
        stop = is_all is not positive

        def leave(element: ast.expr, stop: bool = stop, is_all: bool = is_all) -> list[ast.stmt]:
            test = opposite(element, place.scope) if is_all else element
            return made("if c: return v", c=test, v=ast.Constant(value=stop))

        loop = rounds(generator, place, leave)
        return [*body[:i], *before, loop, ast.Return(value=ast.Constant(value=not stop)), *body[i + 1 :]]
    return None


def _quantifier(node: ast.expr) -> tuple[bool, bool, ast.GeneratorExp] | None:
    """(all rather than any, not negated, the generator)."""
    positive = True
    while p := pieces("not x", node):
        node, positive = p["x"], not positive
    p = first(node, "any(g)", "all(g)")
    if p is None or not isinstance(p["g"], ast.GeneratorExp) or len(p["g"].generators) != 1:
        return None
    return pieces("all(g)", node) is not None, positive, p["g"]
