"""Conditions: what is known to hold at the start of a function, in a loop, and behind a statement."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.functions import FunctionInfo
from skyt.repair.rules.analysis.scope import Scope, plain
from skyt.repair.rules.analysis.syntax import (
    compare,
    conjuncts,
    leaves,
    load,
    number,
    own_breaks,
    read_names,
    stored_names,
)


def domain_conditions(info: FunctionInfo) -> list[ast.expr]:
    """What the contract promises of the parameters, as conditions that hold when the function starts."""
    found: list[ast.expr] = []
    for argument, parameter in info.given.items():
        for op, bound in ((ast.GtE, parameter.min), (ast.LtE, parameter.max)):
            if bound is not None:
                found.append(compare(load(argument), op, number(bound)))
        if parameter.nonempty:
            found.append(load(argument))
    return found


def quiet(node: ast.AST, scope: Scope) -> Scope:
    """What holds at every point while something runs: its parts may change what held before it. At the start
    of every round of a loop that is nothing that any round may change."""
    read = isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), ast.Load | None)
    if not scope.known or (read and not scope.program.grows and plain(node)):  # type: ignore[arg-type]
        return scope
    return scope.without(scope.changes(node))


def when(test: ast.expr, scope: Scope, holds: bool = True) -> Scope:
    """What is known where a test has turned out true, or false."""
    return scope.with_known(conjuncts(test, holds)).without(scope.changes(test))


def range_facts(s: ast.For) -> list[ast.expr]:
    """Bounds of a loop variable that runs over a range and is not assigned in the loop."""
    match s:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[*first, high])):
            low = first[0] if first else ast.Constant(value=0)
            written = stored_names(s.body)
            if len(first) > 1 or name in written:
                return []
            bounds = ((ast.GtE, low), (ast.Lt, high))
            return [compare(load(name), op, b) for op, b in bounds if not read_names(b) & written]
    return []


def after_statement(s: ast.stmt, scope: Scope) -> Scope:
    """What holds behind a statement."""
    if not scope.known and not isinstance(s, ast.If | ast.While):
        return scope
    if isinstance(s, ast.If) and leaves(s.body):
        return when(s.test, scope, False).without(scope.changes(s.orelse))
    if isinstance(s, ast.While) and not own_breaks(s.body):
        return when(s.test, quiet(s, scope), False)
    return quiet(s, scope)
