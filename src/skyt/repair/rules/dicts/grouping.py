"""Entries of dicts that are made when first needed: one form for grouping."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import Effects, disturbs
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import mentions
from skyt.repair.rules.analysis.trees.trees import children, clone, walk
from skyt.repair.rules.analysis.values.types import IMMUTABLE, kind
from skyt.repair.rules.dicts.entries import INSERT, stable_key
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.patterns.pieces import first, made, pieces, value
from skyt.repair.rules.registry import Place, statement


def plain_dict(node: ast.expr, scope: Scope) -> bool:
    """A dict under a plain name or an attribute of one."""
    named = node.value if isinstance(node, ast.Attribute) else node
    return isinstance(named, ast.Name) and kind(scope.type_of(node)) == "dict"


def _stored(d: ast.expr, k: ast.expr, scope: Scope) -> Effects:
    return scope.effects(made("d[k] = 0", d=d, k=k)[0].targets[0])  # type: ignore[attr-defined]


def _again(d: ast.expr, k: ast.expr, scope: Scope) -> bool:
    """Whether the key can be evaluated again after its entry was stored."""
    return stable_key(k, scope) and not disturbs(_stored(d, k, scope), scope.effects(k), scope)


def unseen(
    item: ast.expr, d: ast.expr, k: ast.expr, place: Place, index: int, whole: ast.expr | None = None
) -> bool:
    """Whether evaluating what goes into an entry cannot tell that the entry was made before it, nor leave it
    behind by raising."""
    scope = place.before(index)
    seen = scope.effects(item)
    if not seen.pure or disturbs(_stored(d, k, scope), seen, scope):
        return False
    own = isinstance(d, ast.Name) and d.id in scope.owned and private(d.id, place)
    return own or scope.effects(whole or item).total


@statement(
    ast.Expr,
    ast.Assign,
    needs="a dict under a plain name or attribute; a pure key; a value without effects that cannot raise",
    sound="`setdefault` stores its value exactly where the key is missing, and gives the entry",
    fires=(
        "xs: list[str]",
        "d = {}\ne = {}\ng = {}\nfor x in xs:\n d.setdefault(len(x), []).append(x)\n"
        " e.setdefault(x, len(e))\n g[x] = g.get(x, 3)\nreturn [d, e, g]",
    ),
    keeps=("xs: list[str]", "d = {}\nfor x in xs:\n d.setdefault(x, 1 // len(x))\nreturn d"),
)
def insert_if_missing(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    """`d.setdefault(k, [])` and `d[k] = d.get(k, [])` are `if k not in d: d[k] = []`; what is done with the
    result follows as a statement of its own."""
    p, then = first(s, "d[k] = d.get(k, v)", "d[k] = d.get(k)", *DEFAULTS), list[ast.stmt]()
    function = s.value.func if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) else None
    if p is None and isinstance(function, ast.Attribute) and (p := first(function.value, *DEFAULTS)):
        then = [clone(s)]
        then[0].value.func.value = value("d[k]", d=p["d"], k=p["k"])  # type: ignore[attr-defined]
    if p is None or not plain_dict(p["d"], scope := place.before(i)):
        return None
    p.setdefault("v", ast.Constant(value=None))
    if _again(p["d"], p["k"], scope) and scope.effects(p["v"]).total:
        return [*made(INSERT, **p), *then]
    return None


DEFAULTS = ("d.setdefault(k, v)", "d.setdefault(k)")


@statement(
    ast.If,
    needs="a dict; a pure key; an element that reads nothing of the dict, and cannot raise where the dict "
    "outlives the function",
    sound="a list of one element is an empty list to which it is appended",
    fires=(
        "xs: list[str]",
        "d = {}\ne = {}\nfor x in xs:\n if len(x) in d:\n  d[len(x)].append(x)\n else:\n"
        "  d[len(x)] = [x]\n if x not in e:\n  e[x] = {len(x)}\n else:\n  e[x].add(len(x))\n"
        "return [d, e]",
    ),
    keeps=(
        "xs: list[str]",
        "d = {}\nfor x in xs:\n if x in d:\n  d[x].append(len(d))\n else:\n  d[x] = [len(d)]\nreturn d",
    ),
)
def append_to_entry(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    """`if k in d: d[k].append(x)` `else: d[k] = [x]` makes an empty list first and appends in either case."""
    for grow, start, empty in (("d[k].append(x)", "[x]", "[]"), ("d[k].add(x)", "{x}", "set()")):
        found, missing = f"if k in d: {grow}\nelse: d[k] = {start}", f"else: {grow}"
        p = first(s, found, f"if k not in d: d[k] = {start}\n{missing}")
        if p is None or not plain_dict(p["d"], scope := place.before(i)) or not _again(p["d"], p["k"], scope):
            continue
        if empty == "set()" and scope.type_of(p["x"]) not in IMMUTABLE:
            continue
        if unseen(p["x"], p["d"], p["k"], place, i):
            return made(f"{INSERT}\n{grow}", **p, v=value(empty))
    return None


@statement(
    ast.Assign,
    needs="a local dict, empty at first, whose entries are only lengthened in this way and which is else "
    "only returned; a pure key",
    sound="nobody has the list that was there before, so that it may be lengthened in place",
    fires=("xs: list[str]", "d = {}\nfor x in xs:\n d[len(x)] = d.get(len(x), []) + [x]\nreturn d"),
    keeps=(
        "xs: list[str]",
        "d = {}\nr = []\nfor x in xs:\n d[len(x)] = d.get(len(x), []) + [x]\n r.append(d[len(x)])\nreturn r",
    ),
)
def lengthen_entry(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    """`d[k] = d.get(k, []) + [x]` is an empty list if there is none, and an append."""
    info = place.info
    p = pieces(LENGTHENED, s)
    if p is None or not isinstance(p["d"], ast.Name):
        return None
    name, scope = p["d"].id, place.before(i)
    if name not in scope.owned or not private(name, place) or not plain_dict(p["d"], scope):
        return None
    if not _again(p["d"], p["k"], scope) or not unseen(p["x"], p["d"], p["k"], place, i):
        return None
    parents = {id(c): x for x in walk(info.node) for c in children(x)}
    uses = [n for n in walk(info.node) if isinstance(n, ast.Name) and n.id == name]
    if all(_keeps_entries(n, parents) for n in uses):
        return made(f"{INSERT}\nd[k].append(x)", **p, v=value("[]"))
    return None


LENGTHENED = "d[k] = d.get(k, []) + [x]"


def _keeps_entries(use: ast.Name, parents: dict[int, ast.AST]) -> bool:
    """Whether a use of the dict neither hands out nor brings in one of its lists (but by returning it)."""
    here = parents.get(id(use))
    while here is not None and not isinstance(here, ast.stmt):
        here = parents.get(id(here))
    if isinstance(here, ast.Assign) and use in here.targets:
        return pieces("d = {}", here) is not None
    if isinstance(here, ast.Return) and here.value is use:
        return True
    p = first(here, LENGTHENED, "d[k].append(x)", d=use)
    if p is not None:
        return not mentions([p["k"], p["x"]], {use.id})
    return pieces("d[k] = []", here, d=use) is not None
