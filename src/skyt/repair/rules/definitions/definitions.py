"""Definitions: nested functions move out, and all stand in the order in which they are reached."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.trees.syntax import count_reads, load, read_names, rename, stored_names
from skyt.repair.rules.analysis.trees.trees import NESTED, in_order, walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.registry import module


@module(
    needs="a nested function that uses no variable of the function around it",
    sound="such a function does not depend on where it is defined",
    fires=("n: int", "def g(k):\n return k + 1\nreturn g(n) * g(2)"),
    keeps=("n: int", "def g(k):\n return k + n\nreturn g(n) * g(2)"),
)
def hoist_function(context: Context) -> bool:
    """A nested function without free variables moves to the top of the module."""
    tree = context.tree
    for s in tree.body:
        if not isinstance(s, ast.FunctionDef):
            continue
        for i, inner in enumerate(s.body):
            if not isinstance(inner, ast.FunctionDef):
                continue
            outer_names = bound_names(s) - {inner.name}
            free = read_names(inner) - bound_names(inner) - {inner.name}
            if free & outer_names:
                continue
            others = [x for x in s.body if x is not inner]
            if inner.name in {n for x in others for n in stored_names(x)} | {a.arg for a in s.args.args}:
                continue
            if inner.args.defaults:
                continue
            fresh = context.name(inner.name)
            rename(s, {inner.name: fresh})
            s.body = [*s.body[:i], *s.body[i + 1 :]] or [ast.Pass()]
            tree.body.append(inner)
            context.record("hoist-function", f"def {s.name}: … def {inner.name}", f"def {inner.name}")
            return True
    return False


@module(
    needs="a nested function that is only called, and that reads (never assigns) parameters of the function "
    "around it",
    sound="what it reads when it is called is what is passed when it is called",
    fires=("n: int", "def g(k):\n if k > 3:\n  return g(k - 3) + n\n return k * n\nreturn g(n) + g(5)"),
    keeps=("n: int", "t = n\ndef g(k):\n return k * t\nt = 5\nreturn g(n)"),
)
def lift_function(context: Context) -> bool:
    """A nested function takes the parameters of the outer function that it reads as parameters of its own."""
    for outer in context.tree.body:
        if not isinstance(outer, ast.FunctionDef):
            continue
        parameters = [a.arg for a in outer.args.args]
        for inner in outer.body:
            if not isinstance(inner, ast.FunctionDef):
                continue
            if any(isinstance(n, NESTED) and n is not inner for n in walk(inner)):
                continue
            a = inner.args
            if a.defaults:
                continue
            free = read_names(inner) - bound_names(inner)
            wanted = [p for p in parameters if p in free]
            if not wanted or (free & bound_names(outer)) - {*wanted, inner.name}:
                continue
            calls = [
                n
                for n in walk(outer)
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == inner.name
            ]
            plain = all(len(c.args) == len(a.args) and not c.keywords for c in calls)
            if not plain or count_reads(outer, inner.name) != len(calls) or _hidden(outer, inner, wanted):
                continue
            a.args += [ast.arg(arg=p) for p in wanted]
            for c in calls:
                c.args += [load(p) for p in wanted]
            context.record("lift-function", f"def {inner.name}", f"def {inner.name}(…, {', '.join(wanted)})")
            return True
    return False


def _hidden(outer: ast.FunctionDef, inner: ast.FunctionDef, wanted: list[str]) -> bool:
    """Whether some other scope inside the outer function gives one of the names another meaning."""
    for n in walk(outer):
        if n is inner or n is outer:
            continue
        if isinstance(n, ast.FunctionDef | ast.Lambda):
            if any(isinstance(x, ast.arg) and x.arg in wanted for x in walk(n)):
                return True
            if isinstance(n, ast.FunctionDef) and bound_names(n) & {*wanted, inner.name}:
                return True
        elif (isinstance(n, ast.comprehension) and stored_names(n.target) & {*wanted, inner.name}) or (
            isinstance(n, ast.Name) and n.id == inner.name and not isinstance(n.ctx, ast.Load)
        ):
            return True
    return False


def bound_names(function: ast.FunctionDef) -> set[str]:
    names = {a.arg for a in walk(function.args) if isinstance(a, ast.arg)}
    for n in walk(function):
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load):
            names.add(n.id)
        elif isinstance(n, ast.FunctionDef | ast.ClassDef) and n is not function:
            names.add(n.name)
    return names


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
