"""Merging sorted lists of integers: which of two equal numbers goes first cannot be seen."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.trees.syntax import compare
from skyt.repair.rules.analysis.trees.trees import clone, same
from skyt.repair.rules.analysis.values.types import kind
from skyt.repair.rules.registry import Place, block
from skyt.text.parsing import parse

TEMPLATE = """
def FUNCTION(X):
    if len(X) < 2:
        return X
    I = 0
    J = 0
    L = FUNCTION(X[:CUT])
    R = FUNCTION(X[CUT:])
    OUT = []
    while I < len(L) and J < len(R):
        if R[J] < L[I]:
            OUT.append(R[J])
            J = J + 1
        else:
            OUT.append(L[I])
            I = I + 1
    return OUT + L[I:] + R[J:]
"""


_PATTERN: list[ast.stmt] = parse(TEMPLATE).body[0].body  # type: ignore[attr-defined]


@block(
    needs="the whole function is a merge sort (this shape, any cut), over a list of int",
    sound="by induction on the length both halves come back sorted, so either way of breaking ties gives "
    "the one sorted "
    "list; equal integers cannot be told apart",
)
def merge_ties(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """Taking the left one of two equal elements (`<=`) is taking the right one (`<`) in a merge sort of
    integers."""
    info = place.scope.info
    if info is None or body is not info.node.body or len(body) != 8 or len(info.arguments) != 1:
        return None
    t = place.scope.type_of(ast.Name(id=info.arguments[0], ctx=ast.Load()))
    if kind(t) != "list" or t[1] != "int":  # type: ignore[index]
        return None
    found: dict[str, object] = {"FUNCTION": info.node.name, "X": info.arguments[0]}
    if not _match(_PATTERN, body, found):
        return None
    cut = found.get("CUT")
    names = [found[k] for k in ("X", "L", "R", "OUT", "I", "J")]
    if len(set(map(str, names))) != 6 or not isinstance(cut, ast.expr) or not place.scope.effects(cut).pure:
        return None
    new = [clone(s) for s in body]
    loop = new[6]
    if isinstance(loop, ast.While) and isinstance(loop.body[0], ast.If):
        choice = loop.body[0]
        right, left = choice.test.left, choice.test.comparators[0]  # type: ignore[attr-defined]
        choice.test = compare(left, ast.Lt, right)
        choice.body, choice.orelse = choice.orelse, choice.body
    return new


def _match(pattern: object, node: object, found: dict[str, object]) -> bool:
    """Structural match in which upper-case names stand for names, and CUT for any expression."""
    if isinstance(pattern, ast.Name) and pattern.id.isupper():
        if pattern.id == "CUT":
            value: object = node
        elif isinstance(node, ast.Name):
            value = node.id
        else:
            return False
        if pattern.id in found:
            known = found[pattern.id]
            return same(known, value) if isinstance(known, ast.AST) else known == value
        found[pattern.id] = value
        return True
    if isinstance(pattern, ast.AST):
        if pattern.__class__ is not node.__class__:
            return False
        fields = [f for f in pattern._fields if f not in {"ctx", "type_comment", "kind"}]
        return all(_match(getattr(pattern, f, None), getattr(node, f, None), found) for f in fields)
    if isinstance(pattern, list):
        return (
            isinstance(node, list)
            and len(node) == len(pattern)
            and all(_match(p, n, found) for p, n in zip(pattern, node, strict=True))
        )
    return pattern == node
