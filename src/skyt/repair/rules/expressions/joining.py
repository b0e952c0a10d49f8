"""Text in pieces: a list of strings that is only joined is the string that grows."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.syntax import assign, count_reads, load
from skyt.repair.rules.analysis.trees import clone, walk
from skyt.repair.rules.analysis.values.types import is_str, kind
from skyt.repair.rules.names.assignments import simple_target
from skyt.repair.rules.patterns.flow import private
from skyt.repair.rules.patterns.pieces import pieces
from skyt.repair.rules.registry import Place, block


@block(
    ast.Assign,
    needs="a new list of strings that the function owns, to which it only appends and which it only joins "
    "without a separator",
    sound="the join of the pieces so far is their concatenation so far",
    fires=(
        "s: str",
        "r = []\nfor c in s:\n if c == 'a':\n  r.append(c)\n else:\n  r.append('b')\n  r.append(c)\n"
        "return ''.join(r)",
    ),
    keeps=(
        "s: str",
        "r = []\nfor c in s:\n if c == 'a':\n  r.append(c)\n elif r:\n  r.append('b')\nreturn ''.join(r)",
    ),
)
def join_to_concatenation(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`r = []; … r.append(a) … "".join(r)` is `r = ""; … r = r + a … r`."""
    info = place.info
    for i, s in enumerate(body):
        name = simple_target(s)
        if name is None or not isinstance(s, ast.Assign) or name not in place.scope.owned:
            continue
        if not (isinstance(s.value, ast.List) and not s.value.elts) or not private(name, place):
            continue
        t = place.scope.type_of(load(name))
        if kind(t) != "list" or not is_str(t[1]):  # type: ignore[index,arg-type]
            continue
        census, rest = place.context.census(info.node), body[i + 1 :]
        if census.stores[name] != 1 or census.reads[name] != count_reads(rest, name):
            continue
        appends = sum(isinstance(n, ast.Expr) and _appended(n, name) is not None for n in walk(rest))
        joins = sum(_is_join(n, name) for n in walk(rest))
        if not joins or appends + joins != census.reads[name]:
            continue
        # A new name: what is known of the old one is known of a list.
        fresh = place.context.name(name.rstrip("0123456789_") or "t")
        change = _Concatenation(name, fresh)
        return [*body[:i], assign(fresh, ast.Constant(value="")), *(change.visit(clone(x)) for x in rest)]
    return None


def _appended(s: ast.Expr, name: str) -> ast.expr | None:
    p = pieces("r.append(x)", s, r=name)
    return p["x"] if p is not None and not count_reads(p["x"], name) else None


def _is_join(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and pieces("''.join(r)", node, r=name) is not None


class _Concatenation(ast.NodeTransformer):
    def __init__(self, name: str, fresh: str) -> None:
        self.name, self.fresh = name, fresh

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        item = _appended(node, self.name)
        if item is None:
            return self.generic_visit(node)
        return assign(self.fresh, ast.BinOp(left=load(self.fresh), op=ast.Add(), right=item))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return load(self.fresh) if _is_join(node, self.name) else self.generic_visit(node)
