"""The walk over a function: expressions first, with the conditions known there, then the blocks around
them.
"""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import Effects
from skyt.repair.rules.analysis.program import FunctionInfo
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import (
    LOOPS,
    compare,
    conjuncts,
    leaves,
    load,
    number,
    operands,
    own_breaks,
    refuted,
    stored_names,
)
from skyt.repair.rules.analysis.trees.trees import NESTED, text, walk
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
        if not body:
            return
        for _ in range(60):
            current: list[ast.stmt] = getattr(owner, field_name)
            new = self._apply_block(current, scope, in_loop, tail, loop_tail) if current else None
            if new is None:
                return
            setattr(owner, field_name, new or ([] if field_name != "body" else [ast.Pass()]))
            self.context.moved()

    def _apply_block(
        self, body: list[ast.stmt], scope: Scope, in_loop: bool, tail: bool, loop_tail: bool
    ) -> list[ast.stmt] | None:
        liveness = self.context.liveness(self.info.node)
        out = liveness.live_after(body[-1])
        live = liveness.live_after
        scopes = [scope]
        place = Place(scope, self.context, out, in_loop, tail, live, loop_tail, scopes, after_statement, body)
        kinds = {s.__class__ for s in body}
        for rule in self.context.blocks:
            if rule.nodes and kinds.isdisjoint(rule.nodes):
                continue
            new: list[ast.stmt] | None = rule.apply(body, place)
            if new is not None:
                self.context.record(rule.name, *_changes(body, new))
                return new
        return None

    def statement(self, s: ast.stmt, scope: Scope, *, in_loop: bool, tail: bool, loop_tail: bool) -> None:
        if isinstance(s, ast.If):
            s.test = self.expr(s.test, quiet(s.test, scope), True)
            seen = scope.changes(s.test)
            yes, no = scope.with_known(conjuncts(s.test)), scope.with_known(refuted(s.test))
            self.block(s, "body", yes.without(seen), in_loop=in_loop, tail=tail, loop_tail=loop_tail)
            self.block(s, "orelse", no.without(seen), in_loop=in_loop, tail=tail, loop_tail=loop_tail)
        elif isinstance(s, LOOPS):
            inner = loop_scope(s, scope)
            if isinstance(s, ast.While):
                s.test = self.expr(s.test, quiet(s.test, inner), True)
                body = inner.with_known(conjuncts(s.test)).without(inner.changes(s.test))
            else:
                s.iter = self.expr(s.iter, quiet(s.iter, scope), False)
                facts = _range_facts(s, inner)
                body = inner.with_known(facts).without(inner.changes(s.body)) if facts else inner
            self.block(s, "body", body, in_loop=True, tail=False, loop_tail=True)
            self.block(s, "orelse", inner, in_loop=in_loop, tail=tail, loop_tail=loop_tail)
        elif isinstance(s, NESTED):
            return
        else:
            self._expressions(s, scope)

    def _expressions(self, s: ast.stmt, scope: Scope) -> None:
        for name, value in ast.iter_fields(s):
            if isinstance(value, ast.expr):
                setattr(s, name, self.expr(value, quiet(value, scope), False))
            elif isinstance(value, list):
                after = quiet(s, scope)
                setattr(
                    s, name, [self.expr(v, after, False) if isinstance(v, ast.expr) else v for v in value]
                )

    def expr(self, node: ast.expr, scope: Scope, boolean: bool) -> ast.expr:
        self._children(node, scope, boolean)
        for _ in range(12):
            new = self._apply_expression(node, scope, boolean)
            if new is None:
                return node
            node = new
        return node

    def _apply_expression(self, node: ast.expr, scope: Scope, boolean: bool) -> ast.expr | None:
        for rule in self.context.expressions.get(node.__class__, ()):
            new: ast.expr | None = rule.apply(node, scope, boolean)
            if new is not None:
                self.context.record(rule.name, text(node), text(new))
                return new
        return None

    def _children(self, node: ast.expr, scope: Scope, boolean: bool) -> None:
        if isinstance(node, ast.BoolOp):
            here = scope
            for i, value in enumerate(node.values):
                node.values[i] = self.expr(value, here, boolean)
                facts = conjuncts if isinstance(node.op, ast.And) else refuted
                here = here.with_known(facts(node.values[i])).without(here.changes(node.values[i]))
            node.values = operands(node)  # `a and (b and c)` is `a and b and c`
        elif isinstance(node, ast.UnaryOp):
            node.operand = self.expr(node.operand, scope, isinstance(node.op, ast.Not))
        elif isinstance(node, ast.IfExp):
            node.test = self.expr(node.test, scope, True)
            seen = scope.changes(node.test)
            node.body = self.expr(node.body, scope.with_known(conjuncts(node.test)).without(seen), boolean)
            node.orelse = self.expr(node.orelse, scope.with_known(refuted(node.test)).without(seen), boolean)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            self._comprehension(node, scope)
        elif isinstance(node, ast.Lambda):
            bound = Effects(writes={a.arg for a in node.args.args})
            node.body = self.expr(node.body, scope.without(bound), False)
        elif isinstance(node, ast.FormattedValue):  # the format is not an expression of its own
            node.value = self.expr(node.value, scope, False)
        elif not isinstance(node, ast.Constant | ast.Name):
            for name, value in ast.iter_fields(node):
                if isinstance(value, ast.expr):
                    setattr(node, name, self.expr(value, scope, False))
                elif isinstance(value, list):
                    for i, item in enumerate(value):
                        if isinstance(item, ast.expr):
                            value[i] = self.expr(item, scope, False)
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
        if isinstance(node, ast.DictComp):
            node.key, node.value = self.expr(node.key, here, False), self.expr(node.value, here, False)
        else:
            node.elt = self.expr(node.elt, here, False)


def quiet(node: ast.AST, scope: Scope) -> Scope:
    """What holds at every point while something is evaluated: its parts may change what held before it."""
    return scope.without(scope.changes(node)) if scope.known else scope


class CallFinder(Walker):
    """Finds the calls of the entry point with the conditions on the way to each."""

    name = ""

    def __init__(self, context: Context, info: FunctionInfo) -> None:
        super().__init__(context, info)
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


def domain_conditions(info: FunctionInfo) -> list[ast.expr]:
    """What the contract promises of the parameters, as conditions that hold when the function starts."""
    found: list[ast.expr] = []
    for parameter, argument in zip(info.parameters, info.value_arguments, strict=False):
        for op, bound in ((ast.GtE, parameter.min), (ast.LtE, parameter.max)):
            if bound is not None:
                found.append(compare(load(argument), op, number(bound)))
        if parameter.nonempty:
            found.append(load(argument))
    return found


def loop_scope(s: ast.For | ast.While, scope: Scope) -> Scope:
    """What holds at the start of every round: nothing that any round may change."""
    return scope.without(scope.changes(s)) if scope.known else scope


def _range_facts(s: ast.For, scope: Scope) -> list[ast.expr]:
    """Bounds of a loop variable that runs over a range and is not assigned in the loop."""
    call = s.iter
    if not (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "range"
        and isinstance(s.target, ast.Name)
        and len(call.args) in (1, 2)
    ):
        return []
    written = {n for inner in s.body for n in stored_names(inner)}
    if s.target.id in written:
        return []
    low = call.args[0] if len(call.args) == 2 else ast.Constant(value=0)
    high = call.args[-1]
    name = ast.Name(id=s.target.id, ctx=ast.Load())
    return [
        compare(name, op, bound)
        for op, bound in ((ast.GtE, low), (ast.Lt, high))
        if not any(isinstance(n, ast.Name) and n.id in written for n in walk(bound))
    ]


def after_statement(s: ast.stmt, scope: Scope) -> Scope:
    """The scope behind a statement."""
    if not scope.known and not isinstance(s, ast.If | ast.While):
        return scope
    if isinstance(s, ast.If):
        seen = scope.changes(s.test)
        if leaves(s.body):
            return scope.with_known(refuted(s.test)).without(seen).without(scope.changes(s.orelse))
        if s.orelse and leaves(s.orelse):
            return scope.with_known(conjuncts(s.test)).without(seen).without(scope.changes(s.body))
    if isinstance(s, ast.While) and not own_breaks(s.body):
        inner = loop_scope(s, scope)
        return inner.with_known(refuted(s.test)).without(inner.changes(s.test))
    return scope.without(scope.changes(s))
