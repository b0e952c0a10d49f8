"""Arguments: every call passes them all, by position, so that defaults and keywords say nothing."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.program import FunctionInfo
from skyt.repair.rules.analysis.trees.trees import clone, walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.registry import module


@module(
    needs="a function that is only called, with constant defaults; callers outside pass what the contract "
    "says",
    sound="a default that is a constant is the same value at every call, so the call can pass it; what every "
    "call passes needs no default",
    fires=(
        "n: int",
        "def g(a, b=2, c=3):\n return a * b - c if a < 9 else g(a - 9, b, c)\ndef f(n=0):\n"
        " return g(n) + g(n, b=5)",
    ),
    keeps=(
        "n: int",
        "def g(a, b=[]):\n b.append(a)\n return len(b) - len(b)\ndef f(n):\n return g(n) + g(n)",
    ),
)
def explicit_arguments(context: Context) -> bool:
    """`def f(a, k=0)` with `f(x)` and `f(x, k=2)` becomes `def f(a, k)` with `f(x, 0)` and `f(x, 2)`."""
    keywords = any(isinstance(n, ast.Call) and n.keywords for n in walk(context.tree))
    for info in context.program.functions.values():
        defaults = info.node.args.defaults
        if not defaults and not keywords:
            continue
        passed = context.facts.out_of_domain_free and len(info.parameters) == len(info.value_arguments)
        if info.public and not passed:
            continue
        if info.owner is not None and not info.public and info.node.name.startswith("__"):
            continue
        if not all(isinstance(d, ast.Constant) for d in defaults):
            continue
        calls = _calls(context, info)
        if calls is None or not all(_complete(c, info) for c in calls):
            continue
        if not defaults and not any(c.keywords for c in calls):
            continue
        for c in calls:
            _fill(c, info)
        info.node.args.defaults = []
        context.record(
            "explicit-arguments", f"def {info.node.name}", f"every call of {info.node.name} passes all"
        )
        return True
    return False


def _calls(context: Context, info: FunctionInfo) -> list[ast.Call] | None:
    """The calls of a function, or None if it is used in any other way or cannot be told from another."""
    name, method = info.node.name, info.owner is not None
    if method and name == "__init__":
        name, method = info.owner.name, False  # type: ignore[union-attr]
    if sum(i.node.name == info.node.name for i in context.program.functions.values()) != 1:
        return None
    mentions = sum(
        isinstance(n, ast.Attribute) and n.attr == name
        if method
        else isinstance(n, ast.Name) and n.id == name
        for n in walk(context.tree)
    )
    calls = [n for n in walk(context.tree) if isinstance(n, ast.Call) and _named(n.func, name, method)]
    return calls if len(calls) == mentions else None


def _named(function: ast.expr, name: str, method: bool) -> bool:
    if method:
        return isinstance(function, ast.Attribute) and function.attr == name
    return isinstance(function, ast.Name) and function.id == name


def _complete(call: ast.Call, info: FunctionInfo) -> bool:
    """Whether positions, keywords in the parameters' order, and defaults at the end make up the call."""
    names = info.value_arguments
    given = len(call.args)
    if given > len(names):
        return False
    keywords = [k.arg for k in call.keywords]
    if keywords != names[given : given + len(keywords)]:
        return False
    return len(names) - given - len(keywords) <= len(info.node.args.defaults)


def _fill(call: ast.Call, info: FunctionInfo) -> None:
    call.args += [k.value for k in call.keywords]
    call.keywords = []
    missing = len(info.value_arguments) - len(call.args)
    if missing:
        call.args += [clone(d) for d in info.node.args.defaults[-missing:]]
