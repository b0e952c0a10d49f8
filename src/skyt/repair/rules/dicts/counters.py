"""Counters: dicts that count, in one form."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import disturbs
from skyt.repair.rules.analysis.entries import counted, counting_loop
from skyt.repair.rules.analysis.holders import Holder
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import assign, call, compare, int_value, load, number, read_names
from skyt.repair.rules.analysis.trees.trees import children, clone, same, walk
from skyt.repair.rules.analysis.values.types import IMMUTABLE, is_int, kind
from skyt.repair.rules.control.branches import replaced
from skyt.repair.rules.dicts.defaults import VIEWS
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.names.inline import fits, head_of
from skyt.repair.rules.registry import Place, block


@block(
    ast.If,
    ast.Expr,
    needs="a dict; a key without effects; an integer constant as first value; what is added reads nothing of "
    "the dict, and cannot raise where the dict outlives the function",
    sound="`get` gives the value under the key, or the default that would have been stored there first",
    fires=(
        "s: str",
        (
            "def f(s):\n d = {}\n e = {}\n g = {}\n for c in s:\n  if c in d:\n   d[c] = d[c] + 1\n"
            "  else:\n   d[c] = 1\n  if c not in e:\n   e[c] = 5\n  e[c] += 2\n  if c in g:\n"
            "   g[c] = g[c] + len(s)\n  else:\n   g[c] = len(s)\n return [d, e, g]"
        ),
    ),
    keeps=(
        "s: str",
        (
            "def f(s):\n d = {}\n for c in s:\n  if c in d:\n   d[c] = d[c] + d[c]\n  else:\n"
            "   d[c] = 1\n return d"
        ),
    ),
)
def count_by_get(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`if k in d: d[k] = d[k] + 1` `else: d[k] = 1` is `d[k] = d.get(k, 0) + 1`."""
    for i, s in enumerate(body):
        s = _as_condition(s)
        if not (isinstance(s, ast.If) and isinstance(s.test, ast.Compare) and len(s.test.ops) == 1):
            continue
        key, owner, absent = s.test.left, s.test.comparators[0], isinstance(s.test.ops[0], ast.NotIn)
        if not isinstance(s.test.ops[0], ast.In | ast.NotIn) or kind(place.scope.type_of(owner)) != "dict":
            continue
        scope = place.before(i)
        named = owner.value if isinstance(owner, ast.Attribute) else owner
        if (
            not isinstance(named, ast.Name)
            or not scope.effects(key).total
            or scope.type_of(key) not in IMMUTABLE
        ):
            continue
        entry = ast.Subscript(value=owner, slice=key, ctx=ast.Load())
        found, missing = (s.orelse, s.body) if absent else (s.body, s.orelse)
        start, last = _entry_value(missing, entry), i
        if start is not None and not found and i + 1 < len(body):
            added, last = _increment([body[i + 1]], entry, scope), i + 1
        else:
            added = _increment(found, entry, scope)
            start = _before(start, added, scope) if start is not None and added is not None else None
        if start is None or added is None or not isinstance(int_value(start), int):
            continue
        method = ast.Attribute(value=clone(owner), attr="get", ctx=ast.Load())
        total = ast.BinOp(left=call(method, clone(key), start), op=ast.Add(), right=added)
        if not _unseen(owner, entry, added, total, scope, place):
            continue
        target = ast.Subscript(value=clone(owner), slice=clone(key), ctx=ast.Store())
        new = ast.Assign(targets=[target], value=total, lineno=0)
        return [*body[:i], new, *body[last + 1 :]]
    return None


def _before(first: ast.expr, added: ast.expr, scope: Scope) -> ast.expr | None:
    """What an entry would have been, had something been added to give its first value."""
    a, b = int_value(first), int_value(added)
    if a is not None and b is not None:
        return number(a - b)
    return number(0) if same(first, added) and scope.type_of(added) == "int" else None


def _unseen(
    owner: ast.expr, entry: ast.expr, added: ast.expr, total: ast.expr, scope: Scope, place: Place
) -> bool:
    """Whether what is added cannot tell that the entry is not there yet, nor leave it behind by raising."""
    if int_value(added) is not None:
        return True
    stored = clone(entry)
    stored.ctx = ast.Store()  # type: ignore[attr-defined]
    seen = scope.effects(added)
    if not seen.pure or disturbs(scope.effects(stored), seen, scope):
        return False
    own = isinstance(owner, ast.Name) and owner.id in scope.owned and private(owner.id, place)
    return own or scope.effects(total).total


def _as_condition(s: ast.stmt) -> ast.stmt:
    """`d.setdefault(k, v)` as `if k not in d: d[k] = v`."""
    made = s.value if isinstance(s, ast.Expr) else None
    if not (isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute)):
        return s
    function, args = made.func, made.args
    if function.attr != "setdefault" or len(args) != 2 or made.keywords:
        return s
    entry = ast.Subscript(value=function.value, slice=args[0], ctx=ast.Store())
    first = ast.Assign(targets=[entry], value=args[1], lineno=0)
    return ast.If(test=compare(args[0], ast.NotIn, function.value), body=[first], orelse=[])


def _entry_value(body: list[ast.stmt], entry: ast.expr) -> ast.expr | None:
    """What the only statement of a block assigns to an entry."""
    if len(body) == 1 and isinstance(body[0], ast.Assign) and len(body[0].targets) == 1:
        return body[0].value if same(body[0].targets[0], entry) else None
    return None


def _increment(body: list[ast.stmt], entry: ast.expr, scope: Scope) -> ast.expr | None:
    """What is added to an entry: `e` of `d[k] = d[k] + e`, or of `d[k] = e + d[k]` with integers."""
    value = _entry_value(body, entry)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        if same(value.left, entry):
            return value.right
        if same(value.right, entry) and is_int(scope.type_of(value.left)) and is_int(scope.type_of(entry)):
            return value.left
    return None


@block(
    ast.If,
    needs="a dict of integers; a key without effects; an integer variable",
    sound="where there is no entry, 0 is added, which changes no integer",
    fires=(
        "xs: list[int]",
        (
            "def f(xs):\n d = {}\n t = 0\n for x in xs:\n  if 4 - x in d:\n   t = t + d[4 - x]\n"
            "  d[x] = d.get(x, 0) + 1\n return t"
        ),
    ),
    keeps=(
        "xs: list[int]",
        (
            "def f(xs):\n d = {}\n t = 0\n for x in xs:\n  if 4 - x in d:\n   t = t + d[4 - x] / 2\n"
            "  d[x] = d.get(x, 0) + 1\n return t"
        ),
    ),
)
def add_by_get(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`if k in d: t = t + d[k]` is `t = t + d.get(k, 0)`."""
    for i, s in enumerate(body):
        if not (isinstance(s, ast.If) and not s.orelse and isinstance(s.test, ast.Compare)):
            continue
        if len(s.test.ops) != 1 or not isinstance(s.test.ops[0], ast.In) or len(s.body) != 1:
            continue
        key, owner, then, scope = s.test.left, s.test.comparators[0], s.body[0], place.before(i)
        named = owner.value if isinstance(owner, ast.Attribute) else owner
        if not isinstance(named, ast.Name) or kind(scope.type_of(owner)) != "dict":
            continue
        target = then.targets[0] if isinstance(then, ast.Assign) and len(then.targets) == 1 else None
        if not isinstance(target, ast.Name) or not isinstance(then, ast.Assign):
            continue
        entry, name = ast.Subscript(value=owner, slice=key, ctx=ast.Load()), load(target.id)
        value = then.value
        if not (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)):
            continue
        sides = [
            (same(a, entry), same(b, name)) for a, b in ((value.left, value.right), (value.right, value.left))
        ]
        if (True, True) not in sides or not scope.effects(key).total or target.id in read_names(key):
            continue
        if (
            scope.type_of(name) != "int"
            or scope.type_of(entry) != "int"
            or scope.type_of(key) not in IMMUTABLE
        ):
            continue
        method = ast.Attribute(value=clone(owner), attr="get", ctx=ast.Load())
        total = ast.BinOp(left=name, op=ast.Add(), right=call(method, clone(key), number(0)))
        return replaced(body, i, assign(target.id, total))
    return None


@block(
    ast.Return,
    ast.Assign,
    ast.For,
    ast.If,
    needs="a `collections.Counter` over a container that is not a dict, evaluated first in its statement and "
    "used for membership, length, truth and iteration only, or as a `dict`",
    sound="a counter adds one for each element in turn, starting from nothing",
    fires=(
        "s: str",
        (
            "import collections\ndef f(s):\n"
            " d = {k: n for k, n in collections.Counter(s).items() if n > 1}\n"
            " e = dict(collections.Counter(c.lower() for c in s))\n"
            " return [d, e, len(collections.Counter(s))]"
        ),
    ),
    keeps=("s: str", "import collections\ndef f(s):\n return collections.Counter(s)['a']"),
)
def counter_to_loop(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`return dict(Counter(e))` is a loop over e that counts in a dict."""
    scope = place.scope
    for i, s in enumerate(body):
        head = head_of(s)
        made = [n for h in head or () for n in walk(h) if isinstance(n, ast.Call) and counted(n, scope)]
        if len(made) != 1 or scope.builtin(load("dict")) != "dict":
            continue
        source, counts = counted(made[0], scope), place.context.name("d")
        last = _Replaced(made[0], counts).visit(clone(s))
        if (
            source is None
            or not fits(last, counts, made[0], place.before(i))
            or not _used_as_dict(last, counts)
        ):
            continue
        loop = counting_loop(counts, source, place.context.name("c"))
        return replaced(
            body, i, assign(counts, ast.Dict(keys=[], values=[])), loop, _without_copy(last, counts)
        )
    return None


class _Replaced(ast.NodeTransformer):
    def __init__(self, made: ast.AST, name: str) -> None:
        self.made, self.name = made, name

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return load(self.name) if same(node, self.made) else self.generic_visit(node)


def _used_as_dict(s: ast.stmt, name: str) -> bool:
    """Whether the only use of a name is one that a Counter and a dict with the same entries answer alike."""
    parents = {id(c): p for p in walk(s) for c in children(p)}
    uses = [n for n in walk(s) if isinstance(n, ast.Name) and n.id == name]
    if len(uses) != 1:
        return False
    use: ast.expr = uses[0]
    outer = parents.get(id(use))
    if isinstance(outer, ast.Attribute) and outer.attr in VIEWS:
        made = parents.get(id(outer))
        if not isinstance(made, ast.Call) or made.func is not outer or made.args:
            return False
        use = made
    holder = Holder(s, None, [], [], parents)
    return holder.is_read(use) or _is_copy(outer, name)


def _is_copy(node: ast.AST | None, name: str) -> bool:
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict"
    return named and same(node.args, [load(name)]) and not node.keywords  # type: ignore[union-attr]


def _without_copy(s: ast.stmt, name: str) -> ast.stmt:
    """`return dict(d)` as `return d`: nobody else has d."""
    if isinstance(s, ast.Return | ast.Assign) and _is_copy(s.value, name):
        s.value = load(name)
    return s
