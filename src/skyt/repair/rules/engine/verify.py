"""Bounds that also hold for the calls that a program makes to itself."""

from __future__ import annotations

import ast
from dataclasses import replace

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import count_reads, read_names
from skyt.repair.rules.analysis.trees import walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.engine.walker import CallFinder
from skyt.repair.rules.facts import Facts


def verified(context: Context) -> Facts:
    """The facts that also hold when the program calls its own entry point.

    Bounds on a parameter are an induction hypothesis: they are kept only if every such call keeps them,
    given the conditions on its path. A bound that is not kept is weakened to 0, then dropped, until all that
    is left holds.
    """
    facts, nodes = context.facts, walk(context.tree)
    if facts.kind == "class":  # public methods that the program may call itself
        called = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        made = {"__init__"} if facts.name in read_names(context.tree) else set()
        return facts.without_bounds(called | made)
    calls = [n for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "id", "") == facts.name]
    if len(calls) != count_reads(context.tree, facts.name):
        return facts.unbounded()  # it is a value somewhere (`map(f, …)`), so that not all calls can be seen
    for _ in range(3 * len(facts.parameters) + 1) if calls else ():
        context.assume(facts)
        weaker = facts
        for call, scope in _entry_calls(context):
            weaker = _kept(weaker, call, scope)
        if weaker == facts:
            return facts
        facts = weaker
    return facts.unbounded() if calls else facts


def _entry_calls(context: Context) -> list[tuple[ast.Call, Scope]]:
    found: list[tuple[ast.Call, Scope]] = []
    for info in context.program.functions.values():
        looking = Context(context.tree, context.facts, ())  # without rules
        looking._program = context.program
        finder = CallFinder(looking, info, context.facts.name)
        finder.function()
        found += finder.found
    return found


def _kept(facts: Facts, call: ast.Call, scope: Scope) -> Facts:
    regular = len(call.args) == len(facts.parameters) and not call.keywords
    new = []
    for i, parameter in enumerate(facts.parameters):
        low, high = scope.interval(call.args[i]) if regular else (None, None)
        least, most = parameter.min, parameter.max
        if least is not None and (low is None or low < least):
            least = 0 if least > 0 else None
        if most is not None and (high is None or high > most):
            most = None
        full = regular and parameter.nonempty and scope.nonempty(call.args[i])
        new.append(replace(parameter, min=least, max=most, nonempty=full))
    return replace(facts, parameters=tuple(new))
