"""The walk over a function: expressions first, with the conditions known there, then the blocks around
them.
"""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.conditions import after_statement, domain_conditions, quiet, range_facts, when
from skyt.repair.rules.analysis.effects import Effects
from skyt.repair.rules.analysis.functions import FunctionInfo
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import LOOPS, conjuncts, keeps_sets, operands, stored_names
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, NESTED, shape, text
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.registry import Place


class Walker:
    """One walk over one function: expressions first, then the blocks around them."""

    def __init__(self, context: Context, info: FunctionInfo) -> None:
        self.context = context
        self.info = info

    def function(self) -> None:
        scope = Scope(self.context.program, self.info).with_known(domain_conditions(self.info))
        self.block(self.info.node, "body", scope, in_loop=False, tail=True, loop_tail=False)

    def block(
        self, owner: ast.AST, field_name: str, scope: Scope, *, in_loop: bool, tail: bool, loop_tail: bool
    ) -> None:
        body: list[ast.stmt] = getattr(owner, field_name)
        here = scope
        for i, s in enumerate(body):
            last = i == len(body) - 1
            self.statement(s, here, in_loop=in_loop, tail=tail and last, loop_tail=loop_tail and last)
            here = here if last else after_statement(s, here)
        for _ in range(60):
            if not body:
                return
            live = self.context.liveness(self.info.node).live_after
            new = self._apply_block(Place(body, scope, self.context, live, in_loop, tail, loop_tail))
            if new is None:
                return
            body = new or ([ast.Pass()] if field_name == "body" else [])
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

    def statement(self, s: ast.stmt, scope: Scope, *, in_loop: bool, tail: bool, loop_tail: bool) -> None:
        if isinstance(s, ast.If):
            s.test = self.expr(s.test, quiet(s.test, scope), True)
            yes, no = when(s.test, scope), when(s.test, scope, False)
            self.block(s, "body", yes, in_loop=in_loop, tail=tail, loop_tail=loop_tail)
            self.block(s, "orelse", no, in_loop=in_loop, tail=tail, loop_tail=loop_tail)
        elif isinstance(s, LOOPS):
            inner = body = quiet(s, scope)
            if isinstance(s, ast.While):
                s.test = self.expr(s.test, quiet(s.test, inner), True)
                body = when(s.test, inner)
            else:
                s.iter = self.expr(s.iter, quiet(s.iter, scope), False)
                if facts := range_facts(s):
                    body = inner.with_known(facts).without(inner.changes(s.body))
            self.block(s, "body", body, in_loop=True, tail=False, loop_tail=True)
            self.block(s, "orelse", inner, in_loop=in_loop, tail=tail, loop_tail=loop_tail)
        elif not isinstance(s, NESTED):
            self._parts(s, scope)

    def expr(self, node: ast.expr, scope: Scope, boolean: bool) -> ast.expr:
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
                self.context.record(rule.name, text(node), text(new))
                return new
        return None

    def _children(self, node: ast.expr, scope: Scope, boolean: bool) -> None:
        if isinstance(node, ast.BoolOp):
            here = scope
            for i, value in enumerate(node.values):
                node.values[i] = self.expr(value, here, boolean)
                here = when(node.values[i], here, isinstance(node.op, ast.And))
            node.values = operands(node)  # `a and (b and c)` is `a and b and c`
        elif isinstance(node, ast.UnaryOp):
            node.operand = self.expr(node.operand, scope, isinstance(node.op, ast.Not))
        elif isinstance(node, ast.IfExp):
            node.test = self.expr(node.test, scope, True)
            node.body = self.expr(node.body, when(node.test, scope), boolean)
            node.orelse = self.expr(node.orelse, when(node.test, scope, False), boolean)
        elif isinstance(node, COMPREHENSIONS):
            self._comprehension(node, scope)
        elif isinstance(node, ast.Lambda):
            bound = Effects(writes={a.arg for a in node.args.args})
            node.body = self.expr(node.body, scope.without(bound), False)
        elif isinstance(node, ast.FormattedValue):  # the format is not an expression of its own
            node.value = self.expr(node.value, scope, False)
        elif not isinstance(node, ast.Constant | ast.Name | ast.Set):  # for sets see keeps_sets
            self._parts(node, scope)

    def _parts(self, node: ast.AST, scope: Scope) -> None:
        """The expressions directly inside."""
        settle = isinstance(node, ast.stmt)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, name, self.expr(value, quiet(value, scope) if settle else scope, False))
            elif isinstance(value, list):
                here = quiet(node, scope) if settle else scope
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


class CallFinder(Walker):
    """Finds the calls of a function with the conditions on the way to each."""

    def __init__(self, context: Context, info: FunctionInfo, name: str) -> None:
        super().__init__(context, info)
        self.name = name
        self.found: list[tuple[ast.Call, Scope]] = []

    def expr(self, node: ast.expr, scope: Scope, boolean: bool) -> ast.expr:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == self.name:
            self.found.append((node, scope))
        return super().expr(node, scope, boolean)


def _changes(before: list[ast.stmt], after: list[ast.stmt]) -> tuple[str, str]:
    """The text of the statements that are not in both, of all where they only changed places."""
    old, new = {id(s) for s in before}, {id(s) for s in after}
    if old == new:
        return text(before), text(after)
    return text([s for s in before if id(s) not in new]), text([s for s in after if id(s) not in old])
