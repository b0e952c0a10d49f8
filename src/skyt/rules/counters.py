"""Counters: dicts that count, in one form."""

from __future__ import annotations

import ast

from skyt.rules.assignments import private, simple_target
from skyt.rules.branches import replaced
from skyt.rules.infer import dotted
from skyt.rules.registry import Place, block
from skyt.rules.scope import Scope
from skyt.rules.syntax import assign, call, compare, count_reads, int_value, load, number
from skyt.rules.trees import clone, same, walk
from skyt.rules.types import IMMUTABLE, is_str, kind


@block(
    ast.If,
    ast.Expr,
    needs="a dict; a key without effects; integer constants",
    sound="`get` gives the value under the key, or the default that would have been stored there first",
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
        start = _constant_entry(missing, entry)
        last = i
        if start is not None and not found and i + 1 < len(body):
            added, last = _increment([body[i + 1]], entry), i + 1
        else:
            added = _increment(found, entry)
            start = start - added if start is not None and added is not None else None
        if start is None or added is None:
            continue
        method = ast.Attribute(value=clone(owner), attr="get", ctx=ast.Load())
        total = ast.BinOp(left=call(method, clone(key), number(start)), op=ast.Add(), right=number(added))
        target = ast.Subscript(value=clone(owner), slice=clone(key), ctx=ast.Store())
        new = ast.Assign(targets=[target], value=total, lineno=0)
        return [*body[:i], new, *body[last + 1 :]]
    return None


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


def _constant_entry(body: list[ast.stmt], entry: ast.expr) -> int | None:
    value = _entry_value(body, entry)
    return int_value(value) if value is not None else None


def _increment(body: list[ast.stmt], entry: ast.expr) -> int | None:
    value = _entry_value(body, entry)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and same(value.left, entry):
        return int_value(value.right)
    return None


@block(
    ast.Return,
    ast.Assign,
    needs="`dict` of a `collections.Counter` over a str or list, as the whole value",
    sound="a counter adds one for each element in turn, starting from nothing",
)
def counter_to_loop(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`return dict(Counter(e))` is a loop over e that counts in a dict."""
    for i, s in enumerate(body):
        if not isinstance(s, ast.Return | ast.Assign) or s.value is None:
            continue
        source = _counted(s.value, place.scope)
        if source is None:
            continue
        counts, item = place.context.name("d"), place.context.name("c")
        loop = ast.For(
            target=ast.Name(id=item, ctx=ast.Store()),
            iter=source,
            body=[_add_one(counts, load(item), 1)],
            orelse=[],
            lineno=0,
        )
        last = clone(s)
        last.value = load(counts)
        return replaced(body, i, assign(counts, ast.Dict(keys=[], values=[])), loop, last)
    return None


def _counted(value: ast.expr, scope: Scope) -> ast.expr | None:
    if not (isinstance(value, ast.Call) and scope.builtin(value.func) == "dict" and len(value.args) == 1):
        return None
    made = value.args[0]
    if value.keywords or not isinstance(made, ast.Call) or made.keywords or len(made.args) != 1:
        return None
    if dotted(made.func) != "collections.Counter" or not scope.is_module("collections"):
        return None
    t = scope.type_of(made.args[0])
    return made.args[0] if is_str(t) or kind(t) == "list" else None


def _add_one(name: str, key: ast.expr, added: int) -> ast.stmt:
    method = ast.Attribute(value=load(name), attr="get", ctx=ast.Load())
    total = ast.BinOp(left=call(method, key, number(0)), op=ast.Add(), right=number(added))
    target = ast.Subscript(value=load(name), slice=clone(key), ctx=ast.Store())
    return ast.Assign(targets=[target], value=total, lineno=0)


@block(
    ast.Assign,
    needs="a local `defaultdict(int)` whose entries are only increased by constants, and which is only "
    "returned, as a `dict`",
    sound="an entry that is not there counts as 0; nobody sees the dict before it is returned",
)
def default_to_get(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`d[k] += 1` on a `defaultdict(int)` is `d[k] = d.get(k, 0) + 1` on a dict."""
    info = place.scope.info
    if info is None:
        return None
    for i, s in enumerate(body):
        name = simple_target(s)
        if name is None or not isinstance(s, ast.Assign) or not _is_default(s.value, place.scope):
            continue
        census, rest = place.context.census(info.node), body[i + 1 :]
        reads = count_reads(rest, name)
        if not private(name, place) or census.stores[name] != 1 or census.reads[name] != reads:
            continue
        used = [n for n in walk(rest) if _increases(n, name) or _returns_dict(n, name, place.scope)]
        if len(used) != reads or not any(isinstance(n, ast.Return) for n in used):
            continue
        change = _Plain(name, place.context.name(name.rstrip("0123456789_") or "d"), place.scope)
        made = assign(change.fresh, ast.Dict(keys=[], values=[]))
        return [*body[:i], made, *(change.visit(clone(x)) for x in rest)]
    return None


def _is_default(value: ast.expr, scope: Scope) -> bool:
    return (
        isinstance(value, ast.Call)
        and dotted(value.func) == "collections.defaultdict"
        and scope.is_module("collections")
        and len(value.args) == 1
        and scope.builtin(value.args[0]) == "int"
        and not value.keywords
    )


def _increases(n: ast.AST, name: str) -> bool:
    """`name[key] += constant`, with a key that does not mention the name."""
    return (
        isinstance(n, ast.AugAssign)
        and isinstance(n.op, ast.Add)
        and isinstance(n.target, ast.Subscript)
        and same(n.target.value, load(name))
        and isinstance(n.target.slice, ast.Name | ast.Constant)
        and not count_reads(n.target.slice, name)
        and int_value(n.value) is not None
    )


def _returns_dict(n: ast.AST, name: str, scope: Scope) -> bool:
    return (
        isinstance(n, ast.Return)
        and isinstance(n.value, ast.Call)
        and scope.builtin(n.value.func) == "dict"
        and len(n.value.args) == 1
        and same(n.value.args[0], load(name))
        and not n.value.keywords
    )


class _Plain(ast.NodeTransformer):
    def __init__(self, name: str, fresh: str, scope: Scope) -> None:
        self.name, self.fresh, self.scope = name, fresh, scope

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not _increases(node, self.name) or not isinstance(node.target, ast.Subscript):
            return self.generic_visit(node)
        return _add_one(self.fresh, node.target.slice, int_value(node.value) or 0)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if not _returns_dict(node, self.name, self.scope):
            return self.generic_visit(node)
        return ast.Return(value=load(self.fresh))
