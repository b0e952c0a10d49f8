"""The walk over a function: expressions first, with the conditions known there, then the blocks around
them. And what such a walk shows of the calls that a program makes to itself."""

from __future__ import annotations

import ast
from functools import partial

from skyt.repair.rules.analysis.effects import Effects
from skyt.repair.rules.analysis.program import FunctionInfo
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import LOOPS, conjuncts, keeps_sets, operands, stored_names
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, NESTED, shape, walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.facts import Facts, Parameter
from skyt.repair.rules.registry import Place, Rule

WHOLE = frozenset({ast.Constant, ast.Name, ast.Set})  # nothing inside changes; for sets see keeps_sets


class Walker:
    """One walk over one function: expressions first, then the blocks around them."""

    def __init__(self, context: Context, info: FunctionInfo) -> None:
        self.context = context
        self.info = info

    def function(self) -> None:
        scope = Scope(self.context.program, self.info).at_start()
        self.block(self.info.node, "body", scope, "return")

    def block(self, owner: ast.AST, field_name: str, scope: Scope, end: str) -> None:
        """A list of statements; `end` is what running off its end amounts to (see Place)."""
        body: list[ast.stmt] = getattr(owner, field_name)
        scopes, count = [scope], len(self.context.trace)
        for s in body:
            self.statement(s, scopes[-1], end if s is body[-1] else "")
            scopes += [] if s is body[-1] else [scopes[-1].after(s)]
        known = scopes if len(self.context.trace) == count else []
        for _ in range(60):
            new = self._apply_block(Place(body, scope, self.context, end, known)) if body else None
            if new is None:
                return
            body, known = new or ([ast.Pass()] if field_name == "body" else []), []
            setattr(owner, field_name, body)
            self.context.moved()

    def _apply_block(self, place: Place) -> list[ast.stmt] | None:
        seen = frozenset([s.__class__ for s in place.body] + [look for look, _ in place.looks])
        for rule in self.context.find("block", seen):
            new: list[ast.stmt] | None = rule.apply(place.body, place)
            if new is not None and keeps_sets(place.body, new):
                self.context.record(rule.name, *_changes(place.body, new))
                return new
        return None

    def statement(self, s: ast.stmt, scope: Scope, end: str) -> None:
        if isinstance(s, ast.If):
            s.test = self.expr(s.test, scope.quiet(s.test), True)
            self.block(s, "body", scope.when(s.test), end)
            if s.orelse:
                self.block(s, "orelse", scope.when(s.test, False), end)
        elif isinstance(s, LOOPS):
            inner = body = scope.quiet(s)
            if isinstance(s, ast.While):
                s.test = self.expr(s.test, inner.quiet(s.test), True)
                body = inner.when(s.test)
            else:
                s.iter = self.expr(s.iter, scope.quiet(s.iter), False)
            self.block(s, "body", body, "continue")
            self.block(s, "orelse", inner, end)
        elif not isinstance(s, NESTED):
            self._parts(s, scope)

    def expr(self, node: ast.expr, scope: Scope, boolean: bool) -> ast.expr:
        if node.__class__ not in WHOLE:
            self._children(node, scope, boolean)
        for _ in range(12):
            new = self._apply_expression(node, scope, boolean)
            if new is None:
                return node
            node = new
        return node

    def _apply_expression(self, node: ast.expr, scope: Scope, boolean: bool) -> ast.expr | None:
        for rule in self.context.find("expression", frozenset((node.__class__, shape(node)))):
            new: ast.expr | None = rule.apply(node, scope, boolean)
            if new is not None and keeps_sets(node, new):
                self.context.record(rule.name, node, new)
                return new
        return None

    def _children(self, node: ast.expr, scope: Scope, boolean: bool) -> None:
        if isinstance(node, ast.BoolOp):
            here = scope
            for i, value in enumerate(node.values):
                node.values[i] = self.expr(value, here, boolean)
                here = here.when(node.values[i], isinstance(node.op, ast.And))
            node.values = operands(node)  # `a and (b and c)` is `a and b and c`
        elif isinstance(node, ast.UnaryOp):
            node.operand = self.expr(node.operand, scope, isinstance(node.op, ast.Not))
        elif isinstance(node, ast.IfExp):
            node.test = self.expr(node.test, scope, True)
            node.body = self.expr(node.body, scope.when(node.test), boolean)
            node.orelse = self.expr(node.orelse, scope.when(node.test, False), boolean)
        elif isinstance(node, COMPREHENSIONS):
            self._comprehension(node, scope)
        elif isinstance(node, ast.Lambda):
            bound = Effects(writes={a.arg for a in node.args.args})
            node.body = self.expr(node.body, scope.without(bound), False)
        elif isinstance(node, ast.FormattedValue):  # the format is not an expression of its own
            node.value = self.expr(node.value, scope, False)
        else:
            self._parts(node, scope)

    def _parts(self, node: ast.AST, scope: Scope) -> None:
        """The expressions directly inside."""
        whole = isinstance(node, ast.stmt)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, name, self.expr(value, scope.quiet(value) if whole else scope, False))
            elif isinstance(value, list):
                here = scope.quiet(node) if whole else scope
                for i, item in enumerate(value):
                    if isinstance(item, ast.expr):
                        value[i] = self.expr(item, here, False)
                    elif isinstance(item, ast.keyword):
                        item.value = self.expr(item.value, scope, False)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope
    ) -> None:
        here = scope
        for generator in node.generators:
            generator.iter = self.expr(generator.iter, here, False)
            here = here.without(Effects(writes=stored_names(generator.target)))
            for i, condition in enumerate(generator.ifs):
                generator.ifs[i] = self.expr(condition, here, True)
                here = here.with_known(conjuncts(generator.ifs[i]))
        for name in ("key", "value", "elt"):
            if hasattr(node, name):
                setattr(node, name, self.expr(getattr(node, name), here, False))


def _changes(before: list[ast.stmt], after: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The statements that are not in both, all where they only changed places."""
    old, new = {id(s) for s in before}, {id(s) for s in after}
    if old == new:
        return before, after
    return [s for s in before if id(s) not in new], [s for s in after if id(s) not in old]


def verified(context: Context) -> Facts:
    """The facts that also hold where the program calls its own entry point: bounds on the parameters are an
    induction hypothesis, kept only if every such call keeps them, given the conditions on its path."""
    facts, tree, kept = context.facts, context.tree, dict[int, bool]()
    named = [n for n in walk(tree) if isinstance(n, ast.Name | ast.Attribute)]
    used = [n.id if isinstance(n, ast.Name) else f".{n.attr}" for n in named]
    if facts.kind == "class" or facts.name not in used:
        return facts.without_bounds({*used})

    def look(node: ast.Call, scope: Scope, boolean: bool) -> None:
        if getattr(node.func, "id", "") == facts.name:
            regular = len(node.args) == len(facts.parameters) and not node.keywords
            kept[id(node)] = regular and all(map(partial(_keeps, scope), facts.parameters, node.args))

    rule = Rule("look", "expression", "", "", look, frozenset({ast.Call}))  # which changes nothing
    looking = Context(tree, facts, (rule,), _program=context.program)
    for info in context.program.functions.values():
        Walker(looking, info).function()
    every = len(kept) == used.count(facts.name)  # else it is a value somewhere (`map(f, …)`)
    return facts if every and all(kept.values()) else facts.without_bounds({facts.name})


def _keeps(scope: Scope, p: Parameter, given: ast.expr) -> bool:
    above = p.min is None or scope.at_least(p.min, given)
    below = p.max is None or scope.at_most(p.max, given)
    return above and below and (not p.nonempty or scope.nonempty(given))
