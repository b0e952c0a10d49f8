"""Definitions: nested functions move out, and all stand in the order in which they are reached."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.syntax import bound_in, count_reads, load, read_names, rename, stored_names
from skyt.repair.rules.analysis.trees import NESTED, in_order, walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.registry import module


@module(
    needs="a nested function that uses no variable of the function around it but parameters, which it only "
    "reads; if it reads some, it is only called",
    sound="such a function does not depend on where it is defined; what it reads when it is called is what "
    "is passed when it is called",
    fires=("n: int", "def g(k):\n if k > 3:\n  return g(k - 3) + n\n return k * n\nreturn g(n) + g(5)"),
    keeps=("n: int", "t = n\ndef g(k):\n return k * t\nt = 5\nreturn g(n)"),
)
def lift_function(context: Context) -> bool:
    """A nested function takes the parameters of the outer function that it reads as parameters of its own,
    and moves to the top of the module."""
    for outer in [s for s in context.tree.body if isinstance(s, ast.FunctionDef)]:
        for inner in [s for s in outer.body if isinstance(s, ast.FunctionDef)]:
            free = read_names(inner) - bound_in(inner) - {inner.name}
            captured = free & (bound_in(outer) - {inner.name})
            wanted = [a.arg for a in outer.args.args if a.arg in captured]
            others = [x for x in outer.body if x is not inner]
            taken = {n for x in others for n in stored_names(x)} | {a.arg for a in outer.args.args}
            if len(wanted) < len(captured) or inner.name in taken or inner.args.defaults:
                continue
            if wanted and not _passed_on(outer, inner, wanted):
                continue
            context.record("lift-function", f"def {outer.name}: … def {inner.name}", f"def {inner.name}")
            rename(outer, {inner.name: context.name(inner.name)})
            outer.body = others or [ast.Pass()]
            context.tree.body.append(inner)
            return True
    return False


def _passed_on(outer: ast.FunctionDef, inner: ast.FunctionDef, wanted: list[str]) -> bool:
    """Make parameters of the outer function parameters of the inner one, if it is only called, plainly."""
    calls = [n for n in walk(outer) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == inner.name]
    plain = all(len(c.args) == len(inner.args.args) and not c.keywords for c in calls)
    nested = any(isinstance(n, NESTED) and n is not inner for n in walk(inner))
    if nested or not plain or count_reads(outer, inner.name) != len(calls) or _hidden(outer, inner, wanted):
        return False
    inner.args.args += [ast.arg(arg=p) for p in wanted]
    for c in calls:
        c.args += [load(p) for p in wanted]
    return True


def _hidden(outer: ast.FunctionDef, inner: ast.FunctionDef, wanted: list[str]) -> bool:
    """Whether some other scope inside the outer function gives one of the names another meaning."""
    for n in walk(outer):
        if n is inner or n is outer:
            continue
        if isinstance(n, ast.FunctionDef | ast.Lambda):
            if any(isinstance(x, ast.arg) and x.arg in wanted for x in walk(n)):
                return True
            if isinstance(n, ast.FunctionDef) and bound_in(n) & {*wanted, inner.name}:
                return True
        elif (isinstance(n, ast.comprehension) and stored_names(n.target) & {*wanted, inner.name}) or (
            isinstance(n, ast.Name) and n.id == inner.name and not isinstance(n.ctx, ast.Load)
        ):
            return True
    return False


@module(
    needs="a class that defines each of its methods once",
    sound="methods are looked up by name, and none is called while the class is made",
    fires=(
        "n: int",
        "class Box:\n def low(self):\n  return self.x - 1\n def high(self):\n  return self.x + 1\n"
        " def __init__(self, x):\n  self.x = x\ndef f(n):\n b = Box(n)\n return [b.high(), b.low()]",
    ),
    keeps=(
        "n: int",
        "class Box:\n def low(self):\n  return 0\n def low(self):\n  return self.x\n"
        " def __init__(self, x):\n  self.x = x\ndef f(n):\n b = Box(n)\n return b.low()",
    ),
)
def order_methods(context: Context) -> bool:
    """`__init__`, then the contract's methods in its order, then the others as they are first named."""
    tree, facts = context.tree, context.facts
    for owner in tree.body:
        if not isinstance(owner, ast.ClassDef):
            continue
        methods = {m.name: m for m in owner.body if isinstance(m, ast.FunctionDef)}
        if len(methods) != len(owner.body):
            continue
        public = [*facts.methods] if facts.kind == "class" and facts.name == owner.name else []
        special = sorted(n for n in methods if n.startswith("__") and n.endswith("__"))
        elsewhere = [n for s in tree.body if s is not owner for n in in_order(s)]
        order, pending = list[str](), ["__init__", *public, *special, *_named(elsewhere)]
        while pending:
            name = pending.pop(0)
            if name in methods and name not in order:
                order.append(name)
                pending.extend(_named(in_order(methods[name])))
        order += [name for name in methods if name not in order]
        if order == list(methods):
            continue
        owner.body = [methods[name] for name in order]
        context.record("order-methods", " ".join(methods), " ".join(order))
        return True
    return False


def _named(nodes: list[ast.AST]) -> list[str]:
    return [n.attr for n in nodes if isinstance(n, ast.Attribute)]
