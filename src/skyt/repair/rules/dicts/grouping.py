"""Entries of dicts that are made when first needed: one form for grouping."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import disturbs
from skyt.repair.rules.analysis.entries import stable_key
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import call, compare
from skyt.repair.rules.analysis.trees.trees import children, clone, same, walk
from skyt.repair.rules.analysis.values.types import IMMUTABLE, kind
from skyt.repair.rules.control.branches import replaced
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.registry import Place, block


def _owner(node: ast.expr, scope: Scope) -> bool:
    """A dict under a plain name or an attribute of one."""
    named = node.value if isinstance(node, ast.Attribute) else node
    return isinstance(named, ast.Name) and kind(scope.type_of(node)) == "dict"


def _entry(owner: ast.expr, key: ast.expr, context: ast.expr_context) -> ast.Subscript:
    return ast.Subscript(value=clone(owner), slice=clone(key), ctx=context)


def _first(owner: ast.expr, key: ast.expr, value: ast.expr) -> ast.If:
    """`if key not in owner: owner[key] = value`."""
    made = ast.Assign(targets=[_entry(owner, key, ast.Store())], value=value, lineno=0)
    return ast.If(test=compare(clone(key), ast.NotIn, clone(owner)), body=[made], orelse=[])


def _again(owner: ast.expr, key: ast.expr, scope: Scope) -> bool:
    """Whether the key can be evaluated again after its entry was stored."""
    stored = scope.effects(_entry(owner, key, ast.Store()))
    return stable_key(key, scope) and not disturbs(stored, scope.effects(key), scope)


@block(
    ast.Expr,
    ast.Assign,
    needs="a dict under a plain name or attribute; a pure key; a value without effects that cannot raise",
    sound="`setdefault` stores its value exactly where the key is missing, and gives the entry",
    fires=(
        "xs: list[str]",
        (
            "def f(xs):\n d = {}\n e = {}\n g = {}\n for x in xs:\n"
            "  d.setdefault(len(x), []).append(x)\n  e.setdefault(x, len(e))\n  g[x] = g.get(x, 3)\n"
            " return [d, e, g]"
        ),
    ),
    keeps=("xs: list[str]", "def f(xs):\n d = {}\n for x in xs:\n  d.setdefault(x, 1 // len(x))\n return d"),
)
def insert_if_missing(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`d.setdefault(k, [])` and `d[k] = d.get(k, [])` are `if k not in d: d[k] = []`; what is done with the
    result follows as a statement of its own."""
    for i, s in enumerate(body):
        made = _inserted(s)
        if made is None or not isinstance(made.func, ast.Attribute) or not 1 <= len(made.args) <= 2:
            continue
        owner, key, scope = made.func.value, made.args[0], place.before(i)
        value = made.args[1] if len(made.args) == 2 else ast.Constant(value=None)
        if made.keywords or not _owner(owner, scope):
            continue
        if not _again(owner, key, scope) or not scope.effects(value).total:
            continue
        first = _first(owner, key, clone(value))
        if isinstance(s, ast.Assign):
            if same(s.targets[0], _entry(owner, key, ast.Store())) and len(s.targets) == 1:
                return replaced(body, i, first)
        elif isinstance(s, ast.Expr) and s.value is made:
            return replaced(body, i, first)
        elif isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
            then = clone(s)
            then.value.func.value = _entry(owner, key, ast.Load())  # type: ignore[attr-defined]
            return replaced(body, i, first, then)
    return None


def _inserted(s: ast.stmt) -> ast.Call | None:
    """The call of `setdefault` or `get` that a statement starts with."""
    if isinstance(s, ast.Assign):
        return s.value if _named(s.value, "get") else None  # type: ignore[return-value]
    if not isinstance(s, ast.Expr) or not isinstance(s.value, ast.Call):
        return None
    if _named(s.value, "setdefault"):
        return s.value
    function = s.value.func
    inner = function.value if isinstance(function, ast.Attribute) else None
    return inner if _named(inner, "setdefault") else None  # type: ignore[return-value]


def _named(node: ast.expr | None, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


@block(
    ast.If,
    needs="a dict; a pure key; an element that reads nothing of the dict, and cannot raise where the dict "
    "outlives the function",
    sound="a list of one element is an empty list to which it is appended",
    fires=(
        "xs: list[str]",
        (
            "def f(xs):\n d = {}\n e = {}\n for x in xs:\n  if len(x) in d:\n   d[len(x)].append(x)\n"
            "  else:\n   d[len(x)] = [x]\n  if x not in e:\n   e[x] = {len(x)}\n  else:\n"
            "   e[x].add(len(x))\n return [d, e]"
        ),
    ),
    keeps=(
        "xs: list[str]",
        (
            "def f(xs):\n d = {}\n for x in xs:\n  if x in d:\n   d[x].append(len(d))\n  else:\n"
            "   d[x] = [len(d)]\n return d"
        ),
    ),
)
def append_to_entry(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`if k in d: d[k].append(x)` `else: d[k] = [x]` makes an empty list first and appends in either case."""
    for i, s in enumerate(body):
        if not (isinstance(s, ast.If) and isinstance(s.test, ast.Compare) and len(s.test.ops) == 1):
            continue
        key, owner, scope = s.test.left, s.test.comparators[0], place.before(i)
        if not isinstance(s.test.ops[0], ast.In | ast.NotIn) or not _owner(owner, scope):
            continue
        found, missing = (s.body, s.orelse) if isinstance(s.test.ops[0], ast.In) else (s.orelse, s.body)
        if len(found) != 1 or len(missing) != 1 or not isinstance(missing[0], ast.Assign):
            continue
        entry, only = _entry(owner, key, ast.Load()), missing[0]
        if len(only.targets) != 1 or not same(only.targets[0], entry) or not _again(owner, key, scope):
            continue
        method, empty = _collection(only.value)
        if empty is None:
            continue
        item = only.value.elts[0]  # type: ignore[attr-defined]
        grown = ast.Expr(value=call(ast.Attribute(value=entry, attr=method, ctx=ast.Load()), item))
        if not same(found[0], grown) or not _unseen(item, owner, entry, scope, place):
            continue
        if method == "add" and scope.type_of(item) not in IMMUTABLE:
            continue
        return replaced(body, i, _first(owner, key, empty), found[0])
    return None


def _collection(value: ast.expr) -> tuple[str, ast.expr | None]:
    """(method that adds, empty collection) of a literal with one element."""
    if isinstance(value, ast.List | ast.Set) and len(value.elts) == 1:
        if isinstance(value, ast.List):
            return "append", ast.List(elts=[], ctx=ast.Load())
        return "add", call("set")
    return "", None


def _unseen(item: ast.expr, owner: ast.expr, entry: ast.Subscript, scope: Scope, place: Place) -> bool:
    """Whether evaluating an element cannot tell that an entry was made before it."""
    seen = scope.effects(item)
    stored = clone(entry)
    stored.ctx = ast.Store()
    if not seen.pure or disturbs(scope.effects(stored), seen, scope):
        return False
    own = isinstance(owner, ast.Name) and owner.id in scope.owned and private(owner.id, place)
    return seen.total or own


@block(
    ast.Assign,
    needs="a local dict, empty at first, whose entries are only lengthened in this way and which is else "
    "only returned or searched; a pure key",
    sound="nobody has the list that was there before, so that it may be lengthened in place",
    fires=(
        "xs: list[str]",
        "def f(xs):\n d = {}\n for x in xs:\n  d[len(x)] = d.get(len(x), []) + [x]\n return d",
    ),
    keeps=(
        "xs: list[str]",
        (
            "def f(xs):\n d = {}\n r = []\n for x in xs:\n  d[len(x)] = d.get(len(x), []) + [x]\n"
            "  r.append(d[len(x)])\n return r"
        ),
    ),
)
def lengthen_entry(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`d[k] = d.get(k, []) + [x]` is an empty list if there is none, and an append."""
    info = place.scope.info
    if info is None:
        return None
    for i, s in enumerate(body):
        found = _lengthened(s)
        if found is None:
            continue
        (owner, key, item), scope = found, place.before(i)
        if (
            owner.id not in scope.owned
            or not private(owner.id, place)
            or kind(scope.type_of(owner)) != "dict"
        ):
            continue
        entry = _entry(owner, key, ast.Load())
        if not _again(owner, key, scope) or not _unseen(item, owner, entry, scope, place):
            continue
        if not all(_keeps_entries(n, owner.id, info.node) for n in walk(info.node) if _is(n, owner.id)):
            continue
        grown = ast.Expr(value=call(ast.Attribute(value=entry, attr="append", ctx=ast.Load()), item))
        return replaced(body, i, _first(owner, key, ast.List(elts=[], ctx=ast.Load())), grown)
    return None


def _is(n: ast.AST, name: str) -> bool:
    return isinstance(n, ast.Name) and n.id == name


def _lengthened(s: ast.AST | None) -> tuple[ast.Name, ast.expr, ast.expr] | None:
    """(d, k, x) of `d[k] = d.get(k, []) + [x]`."""
    if not (isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Subscript)):
        return None
    owner, key, value = s.targets[0].value, s.targets[0].slice, s.value
    if not (isinstance(owner, ast.Name) and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)):
        return None
    empty = ast.List(elts=[], ctx=ast.Load())
    got = call(ast.Attribute(value=owner, attr="get", ctx=ast.Load()), key, empty)
    method, start = _collection(value.right)
    if not same(value.left, got) or start is None or method != "append":
        return None
    return owner, key, value.right.elts[0]  # type: ignore[attr-defined]


def _keeps_entries(use: ast.AST, name: str, function: ast.FunctionDef) -> bool:
    """Whether a use of the dict neither hands out nor brings in one of its lists (but by returning it)."""
    parents = {id(c): p for p in walk(function) for c in children(p)}
    chain, here = [use], parents.get(id(use))
    while here is not None and not isinstance(here, ast.stmt):
        chain.append(here)
        here = parents.get(id(here))
    outer = parents.get(id(use))
    if isinstance(here, ast.Assign) and use in here.targets:
        return isinstance(here.value, ast.Dict) and not here.value.keys
    if isinstance(here, ast.Return) and here.value is use:
        return True
    if isinstance(outer, ast.Compare):
        return outer.left is not use and all(isinstance(o, ast.In | ast.NotIn) for o in outer.ops)
    if isinstance(outer, ast.Call):
        return isinstance(outer.func, ast.Name) and outer.func.id == "len"
    found = _lengthened(here)
    if found is not None and found[0].id == name:
        return not any(_is(n, name) for n in walk([found[1], found[2]]))
    return _grown_here(here, name)


def _grown_here(s: ast.AST | None, name: str) -> bool:
    """`d[k] = []` and `d[k].append(x)`: what this rule itself makes of the others of its kind."""
    if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Subscript):
        empty = isinstance(s.value, ast.List) and not s.value.elts
        return empty and _is(s.targets[0].value, name)
    if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and _named(s.value, "append")):
        return False
    entry = s.value.func.value  # type: ignore[attr-defined]
    inside = [*s.value.args, entry.slice] if isinstance(entry, ast.Subscript) else [entry]
    return isinstance(entry, ast.Subscript) and not any(_is(n, name) for n in walk(inside))
