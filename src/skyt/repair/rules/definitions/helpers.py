"""Functions of the program's own: nested ones move out, small or once-called ones are put where they are
called, and methods stand in one order."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.program import FunctionInfo
from skyt.repair.rules.analysis.reach import free_names
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import (
    assign,
    blocks,
    bound_anywhere,
    bound_in,
    count_reads,
    keeps_sets,
    load,
    rename,
    returns,
    substitute,
)
from skyt.repair.rules.analysis.trees import (
    COMPREHENSIONS,
    NESTED,
    children,
    clone,
    exchanged,
    in_order,
    size,
    text,
    walk,
    walk_shallow,
)
from skyt.repair.rules.analysis.types import SIZED, is_str, kind
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.names.assignments import before
from skyt.repair.rules.registry import module

MAX_INLINED = 400  # nodes that inlining may add to a program
NONE = ast.Constant(value=None)


@module(
    needs="a private function that does not call itself, with plain parameters, called in a place where "
    "its body fits",
    sound="parameters become locals with fresh names, assigned in order; returns become the caller's "
    "returns or its value",
    fires="n: int\ndef f(n):\n return g(n, 1)\ndef g(a, b):\n if a < b:\n  return b\n return a",
    keeps="n: int\ndef f(n):\n return g(n, 1)\ndef g(a, b):\n if a < b or a < 1:\n  return b\n"
    " return g(a - 1, b)",
)
def inline_function(context: Context) -> bool:
    """`return helper(a, b)` becomes the helper's body; `x = helper(a)` too where the helper returns only at
    its end."""
    functions = list(context.program.functions.values())
    for info in (i for i in functions if _inlinable(i, context)):
        calls = [(owner, c) for owner in functions for c in _calls(owner.node, info)]
        handed_on = not info.public and len(_named(context.tree, info)) != len(calls)
        if handed_on or size(info.node) * (len(calls) - 1) > MAX_INLINED:
            continue
        if any(_inline_call(owner, call, info, context) for owner, call in calls):
            return True
    return False


def _inlinable(info: FunctionInfo, context: Context) -> bool:
    node, nodes = info.node, walk(info.node)
    special = info.owner is not None and node.name.startswith("__")
    if info.public or node.name in context.facts.public:  # stays, but a call may show what it returns
        only = info.owner is not None and len(node.body) == 1 and isinstance(node.body[0], ast.Return)
        if not only or any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) for n in nodes):
            return False
    nested = any(isinstance(n, NESTED) and n is not node for n in nodes)
    if special or nested or node.args.defaults or (info.owner is None and node not in context.tree.body):
        return False
    alone = sum(i.node.name == node.name for i in context.program.functions.values()) == 1
    return alone and not _calls(node, info)


def _named(where: ast.AST, info: FunctionInfo) -> list[ast.AST]:
    """What names a function, or any method that is named like it."""
    field = "id" if info.owner is None else "attr"
    return [n for n in walk(where) if getattr(n, field, None) == info.node.name]


def _calls(where: ast.FunctionDef, info: FunctionInfo) -> list[ast.Call]:
    named = _named(where, info)
    return [n for n in walk(where) if isinstance(n, ast.Call) and not n.keywords and n.func in named]


def _inline_call(owner: FunctionInfo, call: ast.Call, info: FunctionInfo, context: Context) -> bool:
    arguments = list(call.args)
    if isinstance(call.func, ast.Attribute):  # of `self`
        receiver = getattr(call.func.value, "id", "")
        if owner.owner is not info.owner or [receiver] != owner.arguments[:1] or receiver in owner.assigned:
            return False
        arguments = [call.func.value, *arguments]
    if len(arguments) != len(info.arguments) or free_names(info.node) & bound_in(owner.node):
        return False
    found, scope = _locate(owner.node.body, call), Scope(context.program, owner)
    if found is None:
        return False
    body, i = found
    given = dict(zip(info.arguments, arguments, strict=True))
    new = _expression(body[i], call, info, given, scope) or _fit(body[i], call, info, given, scope, context)
    if new is None:
        return False
    before = text(owner.node.body)
    body[i : i + 1] = new
    context.record("inline-function", before, text(owner.node.body))
    return True


def _locate(body: list[ast.stmt], call: ast.Call) -> tuple[list[ast.stmt], int] | None:
    """The innermost block that has a call, and where."""
    for i, s in enumerate(body):
        if call in walk(s):
            inner = next((b for b in blocks(s) if call in walk(b)), None)
            if inner is None:
                return body, i
            return None if isinstance(s, NESTED) else _locate(inner, call)
    return None


def _expression(
    s: ast.stmt, call: ast.Call, info: FunctionInfo, given: dict[str, ast.expr], scope: Scope
) -> list[ast.stmt] | None:
    """A statement with the value of a helper that is one `return value` for its call, if the arguments may
    be moved there."""
    only = info.node.body[0]
    if not isinstance(only, ast.Return) or only.value is None:
        return None
    if any(isinstance(n, (ast.Lambda, *COMPREHENSIONS)) for n in walk(only.value)):
        return None
    for name, argument in given.items():
        if not isinstance(argument, ast.Constant | ast.Name):
            seen = scope.effects(argument)
            if not seen.total or seen.heap_reads or count_reads(only, name) > 1:
                return None
    new = exchanged(s, call, substitute(clone(only.value), given))
    return [new] if keeps_sets([s, only], new) else None


def _fit(
    s: ast.stmt,
    call: ast.Call,
    info: FunctionInfo,
    given: dict[str, ast.expr],
    scope: Scope,
    context: Context,
) -> list[ast.stmt] | None:
    """A statement after the body of a helper, with what that returns in the place of its call."""
    fresh = {n: context.name(n) for n in sorted(bound_in(info.node))}
    body = [rename(clone(x), fresh) for x in info.node.body]
    start = [assign(fresh[name], clone(argument)) for name, argument in given.items()]
    if isinstance(s, ast.Return) and s.value is call:
        return [*start, *body, *([] if returns(body) else [ast.Return(value=NONE)])]
    earlier, result = before(s, call), context.name("r")
    inner = _assigning(body, result)
    if earlier is None or not inner or not all(_unaffected(b, scope) for b in earlier):
        return None
    return [*start, *inner, exchanged(s, call, load(result))]


def _unaffected(node: ast.expr, scope: Scope) -> bool:
    """Whether evaluating this before or after the helper is the same: it reads locals or finds a method."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        t = scope.type_of(node.value)
        if is_str(t) or kind(t) in SIZED:
            return True
    seen = scope.effects(node)
    return seen.total and not seen.heap_reads


def _assigning(body: list[ast.stmt], name: str) -> list[ast.stmt] | None:
    """The block with `name = value` for `return value`; None if a return stands inside a loop or the like."""
    for i, s in enumerate(body):
        if isinstance(s, ast.Return):
            return [*body[:i], assign(name, s.value or NONE)]
        if any(isinstance(n, ast.Return) for n in walk_shallow(s)):
            if not isinstance(s, ast.If) or not returns(s.body):
                return None
            then, other = _assigning(s.body, name), _assigning([*s.orelse, *body[i + 1 :]], name)
            return [*body[:i], ast.If(test=s.test, body=then, orelse=other)] if then and other else None
    return [*body, assign(name, NONE)]


@module(
    needs="a nested function that uses no variable of the function around it but parameters that nothing "
    "assigns; if it reads some, it is only called",
    sound="such a function does not depend on where it is defined; what it reads when it is called is what "
    "is passed when it is called",
    fires="n: int\ndef g(k):\n if k > 3:\n  return g(k - 3) + n\n return k * n\nreturn g(n) + g(5)",
    keeps="n: int\nt = n\ndef g(k):\n return k * t\nt = 5\nreturn g(n)",
)
def lift_function(context: Context) -> bool:
    """A nested function takes the parameters of the outer function that it reads as parameters of its own,
    and moves to the top of the module."""
    for outer in [s for s in context.tree.body if isinstance(s, ast.FunctionDef)]:
        for inner in [s for s in outer.body if isinstance(s, ast.FunctionDef)]:
            others, free = [x for x in outer.body if x is not inner], free_names(inner)
            if inner.args.defaults or {inner.name, *free} & bound_anywhere([*others, *children(inner)]):
                continue
            wanted = [a.arg for a in outer.args.args if a.arg in free]
            named = [n for n in walk(outer) if isinstance(n, ast.Name) and n.id == inner.name]
            calls = [n for n in walk(outer) if isinstance(n, ast.Call) and n.func in named]
            plain = all(len(c.args) == len(inner.args.args) and not c.keywords for c in calls)
            if wanted and (not plain or len(calls) != len(named)):
                continue
            inner.args.args += [ast.arg(arg=p) for p in wanted]
            for c in calls:
                c.args += map(load, wanted)
            context.record("lift-function", f"def {outer.name}: … def {inner.name}", f"def {inner.name}")
            rename(outer, {inner.name: context.name(inner.name)})
            outer.body = others or [ast.Pass()]
            context.tree.body.append(inner)
            return True
    return False


@module(
    needs="a class that defines each of its methods once",
    sound="methods are looked up by name, and none is called while the class is made",
    fires="n: int\nclass Box:\n def low(self):\n  return self.x - 1\n def high(self):\n  return self.x + 1\n"
    " def __init__(self, x):\n  self.x = x\ndef f(n):\n b = Box(n)\n return [b.high(), b.low()]",
    keeps="n: int\nclass Box:\n def low(self):\n  return 0\n def low(self):\n  return self.x\n"
    " def __init__(self, x):\n  self.x = x\ndef f(n):\n b = Box(n)\n return b.low()",
)
def order_methods(context: Context) -> bool:
    """`__init__`, then the contract's methods in its order, then the others as they are first named."""
    tree, facts = context.tree, context.facts
    for owner in (s for s in tree.body if isinstance(s, ast.ClassDef)):
        methods = {m.name: m for m in owner.body if isinstance(m, ast.FunctionDef)}
        public = facts.methods if facts.name == owner.name else ()
        pending = ["__init__", *public, *(a for s in tree.body if s is not owner for a in _attributes(s))]
        order: list[str] = []
        while pending:
            name = pending.pop(0)
            if name in methods and name not in order:
                order.append(name)
                pending += _attributes(methods[name])
        order += [name for name in methods if name not in order]
        if order != list(methods) and len(methods) == len(owner.body):
            owner.body = [methods[name] for name in order]
            context.record("order-methods", " ".join(methods), " ".join(order))
            return True
    return False


def _attributes(node: ast.AST) -> list[str]:
    return [n.attr for n in in_order(node) if isinstance(n, ast.Attribute)]
