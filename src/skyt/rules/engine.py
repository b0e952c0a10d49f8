"""The engine: apply rules until none fires, with a bound, and keep the trace.

One round walks every function once, innermost first: expression rules on each expression with the conditions known
there, then block rules on each list of statements, then module rules. Rounds repeat until nothing changes.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from skyt.normalise import normalise
from skyt.rules.bound import unbound_name, unsupported
from skyt.rules.effects import Effects
from skyt.rules.facts import Facts
from skyt.rules.liveness import Liveness
from skyt.rules.program import FunctionInfo, Program
from skyt.rules.registry import RULES, Applied, Place, Rule
from skyt.rules.scope import MODULES, Scope
from skyt.rules.syntax import (
    walk,
    LOOPS,
    NESTED,
    bare,
    compare,
    conjuncts,
    leaves,
    load,
    number,
    own_breaks,
    read_names,
    refuted,
    stored_names,
    text,
)

MAX_ROUNDS = 40
MAX_APPLICATIONS = 2000
MAX_NODES = 6000


@dataclass(frozen=True)
class NormalForm:
    """The normal form of a program.

    `complete` is False where the engine gave up: text that is not Python, a program beyond the size limit, or a
    bound reached. The text is then what normalisation or the last complete round gave.
    """

    text: str
    trace: tuple[Applied, ...] = ()
    complete: bool = True
    failure: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules applied, in order, without repeats."""
        return tuple(dict.fromkeys(a.rule for a in self.trace))


class OutOfBudget(Exception):
    """More applications than any terminating run needs."""


@dataclass
class Context:
    """One run of the engine: the tree, what is known of it, and the trace."""

    tree: ast.Module
    facts: Facts
    rules: Sequence[Rule]
    trace: list[Applied] = field(default_factory=list)
    fresh: int = 0
    rounds: int = 0
    _used: set[str] = field(default_factory=set)
    _program: Program | None = None
    _liveness: dict[int, Liveness] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.expressions: dict[type, list[Rule]] = {}
        for rule in self.rules:
            for node in rule.nodes:
                self.expressions.setdefault(node, []).append(rule)
        self.blocks = [r for r in self.rules if r.shape == "block"]

    @property
    def program(self) -> Program:
        if self._program is None:
            self._program = Program(self.tree, self.facts)
        return self._program

    def liveness(self, function: ast.FunctionDef) -> Liveness:
        if id(function) not in self._liveness:
            self._liveness[id(function)] = Liveness(function)
        return self._liveness[id(function)]

    def changed(self) -> None:
        self._program = None
        self._liveness.clear()

    def record(self, rule: str, before: str, after: str) -> None:
        self.trace.append(Applied(rule, before, after))
        if len(self.trace) > MAX_APPLICATIONS:
            raise OutOfBudget(rule)

    def name(self, base: str = "t") -> str:
        """A name that occurs nowhere in the program."""
        if not self._used:
            self._used = {n.id for n in walk(self.tree) if isinstance(n, ast.Name)}
            self._used |= {n.arg for n in walk(self.tree) if isinstance(n, ast.arg)}
        while True:
            self.fresh += 1
            candidate = f"{base}_{self.fresh}"
            if candidate not in self._used:
                return candidate


def normal_form(code: str, facts: Facts, rules: Sequence[Rule] | None = None) -> NormalForm:
    """Bring a program to its normal form under the facts. Deterministic, idempotent, never raises.

    `rules` replaces the registered ones (used to measure one rule, or to shuffle their order).
    """
    plain = normalise(code)
    if not plain.parsed:
        return NormalForm(plain.text, complete=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = bare(ast.parse(plain.text))
            if sum(1 for _ in walk(tree)) > MAX_NODES:
                return NormalForm(plain.text, complete=False)
            return _run(tree, facts, RULES if rules is None else rules)
        except Exception as error:
            # A defect of a rule must not take a measurement down: the program keeps its normalised text, the
            # failure is on the record, and the tests hold that no program of the development data gets here.
            return NormalForm(plain.text, complete=False, failure=f"{type(error).__name__}: {error}")


def _run(tree: ast.Module, facts: Facts, rules: Sequence[Rule]) -> NormalForm:
    context = Context(tree, facts, rules)
    complete = True
    for rule in rules:
        if rule.shape == "module" and rule.phase == 0:
            _apply_module(rule, context)
    hook, name = unsupported(context.tree), unbound_name(context.tree)
    if hook is not None or name is not None:
        why = f"{hook} is beyond the rules" if hook else f"{name} may be read before it has a value"
        return NormalForm(text(context.tree), tuple(context.trace), False, why)
    for _ in range(MAX_ROUNDS):
        if context.facts is not facts or not context.rounds:
            # What could not be shown of the program as it was written may be plain in its present form.
            context.facts = facts
            context.facts = verified(context)
            context.changed()
        context.rounds += 1
        if not _round(context):
            break
    else:
        complete = False
    for rule in rules:
        if rule.shape == "module" and rule.phase == 2:
            _apply_module(rule, context)
    _import_missing(context.tree)
    return NormalForm(text(context.tree), tuple(context.trace), complete)


def _import_missing(tree: ast.Module) -> None:
    """Import what a rule has named (`math.isqrt`) and the program had not."""
    bound = {n for s in tree.body for n in stored_names(s)}
    bound |= {n.arg for n in walk(tree) if isinstance(n, ast.arg)}
    bound |= {n.id for n in walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    missing = sorted((read_names(tree) & MODULES) - bound)
    tree.body[:0] = [ast.Import(names=[ast.alias(name=name)]) for name in missing]


def _round(context: Context) -> bool:
    before = len(context.trace)
    for info in list(context.program.functions.values()):
        walker = Walker(context, info)
        count = len(context.trace)
        walker.function()
        if len(context.trace) != count:
            context.changed()
    for rule in context.rules:
        if rule.shape == "module" and rule.phase == 1:
            _apply_module(rule, context)
    return len(context.trace) != before


def _apply_module(rule: Rule, context: Context) -> None:
    count = len(context.trace)
    if rule.apply(context):
        context.changed()
        if len(context.trace) == count:
            raise AssertionError(f"{rule.name} changed the program without a record")


def verified(context: Context) -> Facts:
    """The facts that also hold when the program calls its own entry point.

    Bounds on a parameter are an induction hypothesis: they are kept only if every such call keeps them, given the
    conditions on its path. A bound that is not kept is weakened to 0, then dropped, until all that is left holds.
    """
    facts = context.facts
    if facts.kind == "class":
        return facts.without_bounds(_called_methods(context))
    for _ in range(3 * len(facts.parameters) + 1):
        context.facts = facts
        context.changed()
        weaker = facts
        for call, scope in _entry_calls(context):
            weaker = _kept(weaker, call, scope)
        if weaker == facts:
            return facts
        facts = weaker
    return replace(facts, parameters=tuple(replace(p, min=None, max=None) for p in facts.parameters))


def _entry_calls(context: Context) -> list[tuple[ast.Call, Scope]]:
    name = context.facts.name
    if not any(
        n.func.id == name
        for n in walk(context.tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    ):
        return []
    found: list[tuple[ast.Call, Scope]] = []
    for info in context.program.functions.values():
        finder = CallFinder(Context(context.tree, context.facts, ()), info)
        finder.context._program = context.program
        finder.name = name
        finder.function()
        found += finder.found
    return found


def _called_methods(context: Context) -> set[str]:
    """Public methods that the program may call itself."""
    called = {
        n.func.attr
        for n in walk(context.tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
    }
    own = {n.func.id for n in walk(context.tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    return called | ({"__init__"} if context.facts.name in own else set())


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
        new.append(replace(parameter, min=least, max=most))
    return replace(facts, parameters=tuple(new))


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
            here = after_statement(s, here)
        if not body:
            return
        for _ in range(60):
            current: list[ast.stmt] = getattr(owner, field_name)
            new = self._apply_block(current, scope, in_loop, tail, loop_tail) if current else None
            if new is None:
                return
            setattr(owner, field_name, new or ([] if field_name != "body" else [ast.Pass()]))
            self.context._liveness.clear()

    def _apply_block(
        self, body: list[ast.stmt], scope: Scope, in_loop: bool, tail: bool, loop_tail: bool
    ) -> list[ast.stmt] | None:
        liveness = self.context.liveness(self.info.node)
        out = liveness.live_after(body[-1])
        place = Place(scope, self.context, out, in_loop, tail, liveness.live_after, loop_tail)
        for rule in self.context.blocks:
            new = rule.apply(body, place)
            if new is not None:
                assert isinstance(new, list)
                self.context.record(rule.name, text(body), text(new))
                return new
        return None

    def statement(self, s: ast.stmt, scope: Scope, *, in_loop: bool, tail: bool, loop_tail: bool) -> None:
        if isinstance(s, ast.If):
            s.test = self.expr(s.test, scope, True)
            seen = scope.effects(s.test)
            yes, no = scope.with_known(conjuncts(s.test)), scope.with_known(refuted(s.test))
            self.block(s, "body", yes.without(seen), in_loop=in_loop, tail=tail, loop_tail=loop_tail)
            self.block(s, "orelse", no.without(seen), in_loop=in_loop, tail=tail, loop_tail=loop_tail)
        elif isinstance(s, LOOPS):
            inner = loop_scope(s, scope)
            if isinstance(s, ast.While):
                s.test = self.expr(s.test, inner, True)
                body = inner.with_known(conjuncts(s.test)).without(inner.effects(s.test))
            else:
                s.iter = self.expr(s.iter, scope, False)
                body = inner.with_known(_range_facts(s, inner))
            self.block(s, "body", body, in_loop=True, tail=False, loop_tail=True)
            self.block(s, "orelse", inner, in_loop=in_loop, tail=tail, loop_tail=loop_tail)
        elif isinstance(s, NESTED):
            return
        elif isinstance(s, ast.Try | ast.With | ast.Match):
            inner = scope.without(scope.effects(s))
            inner = Scope(inner.program, inner.info)
            for part in (s, *getattr(s, "handlers", ()), *getattr(s, "cases", ())):
                for name in ("body", "orelse", "finalbody"):
                    if getattr(part, name, None):
                        self.block(part, name, inner, in_loop=in_loop, tail=False, loop_tail=False)
        else:
            self._expressions(s, scope)

    def _expressions(self, s: ast.stmt, scope: Scope) -> None:
        boolean = isinstance(s, ast.Assert)
        for name, value in ast.iter_fields(s):
            if isinstance(value, ast.expr):
                setattr(s, name, self.expr(value, scope, boolean and name == "test"))
            elif isinstance(value, list):
                setattr(
                    s, name, [self.expr(v, scope, False) if isinstance(v, ast.expr) else v for v in value]
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
            new = rule.apply(node, scope, boolean)
            if new is not None:
                assert isinstance(new, ast.expr)
                self.context.record(rule.name, text(node), text(new))
                return new
        return None

    def _children(self, node: ast.expr, scope: Scope, boolean: bool) -> None:
        if isinstance(node, ast.BoolOp):
            here = scope
            for i, value in enumerate(node.values):
                node.values[i] = self.expr(value, here, boolean)
                facts = conjuncts if isinstance(node.op, ast.And) else refuted
                here = here.with_known(facts(node.values[i])).without(here.effects(node.values[i]))
        elif isinstance(node, ast.UnaryOp):
            node.operand = self.expr(node.operand, scope, isinstance(node.op, ast.Not))
        elif isinstance(node, ast.IfExp):
            node.test = self.expr(node.test, scope, True)
            seen = scope.effects(node.test)
            node.body = self.expr(node.body, scope.with_known(conjuncts(node.test)).without(seen), boolean)
            node.orelse = self.expr(node.orelse, scope.with_known(refuted(node.test)).without(seen), boolean)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            self._comprehension(node, scope)
        elif isinstance(node, ast.Lambda):
            bound = Effects(writes={a.arg for a in node.args.args})
            node.body = self.expr(node.body, scope.without(bound), False)
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


def domain_conditions(info: FunctionInfo) -> list[ast.expr]:
    """What the contract promises of the parameters, as conditions that hold when the function starts."""
    found: list[ast.expr] = []
    for parameter, argument in zip(info.parameters, info.value_arguments, strict=False):
        for op, bound in ((ast.GtE, parameter.min), (ast.LtE, parameter.max)):
            if bound is not None:
                found.append(compare(load(argument), op, number(bound)))
    return found


def loop_scope(s: ast.For | ast.While, scope: Scope) -> Scope:
    """What holds at the start of every round: nothing that any round may change."""
    return scope.without(scope.effects(s))


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
    if isinstance(s, ast.If):
        seen = scope.effects(s.test)
        if leaves(s.body):
            return scope.with_known(refuted(s.test)).without(seen).without(scope.effects(s.orelse))
        if s.orelse and leaves(s.orelse):
            return scope.with_known(conjuncts(s.test)).without(seen).without(scope.effects(s.body))
    if isinstance(s, ast.While) and not own_breaks(s.body):
        inner = loop_scope(s, scope)
        return inner.with_known(refuted(s.test)).without(inner.effects(s.test))
    return scope.without(scope.effects(s))


def scope_before(body: Sequence[ast.stmt], index: int, scope: Scope) -> Scope:
    """The scope just before the statement at this index of a block."""
    for s in body[:index]:
        scope = after_statement(s, scope)
    return scope
