"""The engine: apply rules until none fires, with a bound, and keep the trace.

One round walks every function once, innermost first: expression rules on each expression with the conditions
known there, then block rules on each list of statements, then module rules, until nothing changes.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

from skyt.repair.rules.analysis import syntax, trees
from skyt.repair.rules.analysis.effects import Effects
from skyt.repair.rules.analysis.language import before_cleaning, beyond, reflective
from skyt.repair.rules.analysis.program import FunctionInfo, Program
from skyt.repair.rules.analysis.reach import REUSABLE, Liveness, Reach, at_once, loading, unbound_name
from skyt.repair.rules.analysis.scope import MODULES, Scope
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, Comprehension, clone, shape, text, walk
from skyt.repair.rules.facts import Facts
from skyt.repair.rules.registry import RULES, Applied, Place, Rule, finder
from skyt.text.normalise import normalise
from skyt.text.parsing import parse, why_not_compiled

MAX_APPLICATIONS = 2000
MAX_WORK = 60_000  # applications times nodes: four times what any program of the recordings needs
MAX_ROUNDS = 40
MAX_NODES = 1000  # three times the largest program of the recordings
WHOLE = frozenset({ast.Constant, ast.Name, ast.Set})  # nothing inside changes; for sets see keeps_sets


class Census:
    """How often each name is read and stored in a piece of program, and the place of each name and each
    attribute (`.name`) among all that it reads, in order."""

    def __init__(self, where: ast.AST | Sequence[ast.AST]) -> None:
        self.where = where
        names = [n for n in walk(where) if n.__class__ is ast.Name]
        self.reads = Counter([n.id for n in names if n.ctx.__class__ is ast.Load])
        self.stores = Counter([n.id for n in names if n.ctx.__class__ is not ast.Load])

    @cached_property
    def first_read(self) -> dict[str, int]:
        nodes = trees.in_order(self.where)  # type: ignore[arg-type]
        reads = [n for n in nodes if getattr(n, "ctx", None).__class__ is ast.Load]
        names = ["." + n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in reads]
        return {name: place for place, name in enumerate(dict.fromkeys(names), 1)}


@dataclass
class Context:
    """One run of the engine: the tree, what is known of it, and the trace."""

    tree: ast.Module
    facts: Facts
    rules: Sequence[Rule]
    steps: bool = False  # whether the trace tells what each rule changed
    trace: list[Applied] = field(default_factory=list)
    fresh: int = 0
    rounds: int = 0
    _used: set[str] = field(default_factory=set)
    _program: Program | None = None
    _settled: dict[Hashable, tuple[int, Facts]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.find = finder(tuple(self.rules))
        self.nodes = len(walk(self.tree))
        self.most = min(MAX_APPLICATIONS, max(40, MAX_WORK // (self.nodes + 1)))
        self.moved()

    @property
    def program(self) -> Program:
        if self._program is None:
            self._program = Program(self.tree, self.facts)
        return self._program

    def settle(self, what: Hashable) -> None:
        """Note that a function, or a rule on the module, is as it stays until something else changes."""
        self._settled[what] = len(self.trace), self.facts

    def settled(self, what: Hashable) -> bool:
        return self._settled.get(what) == (len(self.trace), self.facts)

    def moved(self) -> None:
        """Forget what depends on where things stand."""
        self.liveness, self.census = cache(Liveness), cache(Census)
        if self._program is not None:
            self._program.seen.clear()

    def changed(self) -> None:
        """Forget all that is known of the tree."""
        self._program = None
        self.moved()

    def assume(self, facts: Facts) -> None:
        if facts != self.facts:
            self._program = None
        self.facts = facts

    def record(self, rule: str, *change: str | ast.AST | Sequence[ast.AST]) -> None:
        """Note that a rule was applied, and what stood there before and after."""
        before, after = (c if isinstance(c, str) else text(c) for c in change) if self.steps else ("", "")
        self.trace.append(Applied(rule, before, after))
        self.moved()
        if len(self.trace) > self.most:
            raise RuntimeError(f"no end after {self.most} applications of rules to {self.nodes:,} nodes")

    def name(self, base: str = "t") -> str:
        """A name that occurs nowhere in the program."""
        if not self._used:
            self._used = syntax.bound_anywhere(self.tree) | syntax.read_names(self.tree)
        while True:
            self.fresh += 1
            candidate = f"{base.rstrip('0123456789_') or 't'}_{self.fresh}"
            if candidate not in self._used:
                return candidate


@dataclass(frozen=True)
class NormalForm:
    """The normal form of a program.

    `complete` is False where the engine gave up: text that is not Python, a program beyond the size limit,
    or a bound reached. The text is then the program's own, or what the last complete round gave.
    """

    text: str
    trace: tuple[Applied, ...] = ()
    complete: bool = True
    failure: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules applied, in order, without repeats."""
        return tuple(dict.fromkeys(a.rule for a in self.trace))


def normal_form(
    code: str, facts: Facts, rules: Sequence[Rule] | None = None, steps: bool = False
) -> NormalForm:
    """Bring a program to its normal form under the facts. Deterministic, idempotent, never raises.

    `rules` replaces the registered ones (used to measure one rule, or to shuffle their order). With `steps`
    the trace has the texts before and after each application.
    """
    plain = normalise(code)

    def failed(why: str) -> NormalForm:
        return NormalForm(code, complete=False, failure=why)

    if not plain.parsed:
        return failed(plain.problem)
    try:
        tree = parse(plain.text)
        if problem := why_not_compiled(tree):
            return failed(f"not Python: {problem}")
        nodes = len(walk(trees.bare(tree)))
        if nodes > MAX_NODES:
            return failed(f"{nodes:,} nodes; the rules take at most {MAX_NODES:,}")
        form = _run(Context(tree, facts, RULES if rules is None else rules, steps))
        problem = why_not_compiled(form.text)
        return failed(f"the rules lead to what is not Python: {problem}") if problem else form
    except Exception as error:
        # A defect of a rule must not take a measurement down; no program of the development data gets here.
        return failed(f"{type(error).__name__}: {error}".removeprefix("BeyondError: "))


class BeyondError(Exception):
    """The program uses something that the rules do not know, and keeps its text."""


def _clean(context: Context) -> None:
    """Bring a program into the language of the rules; BeyondError if it cannot be."""
    tree, name = context.tree, context.facts.name
    defined = any(getattr(s, "name", None) == name for s in tree.body)
    kept = Reach(tree, name).kept if defined and len(tree.body) > 1 else tree.body
    why = reflective([s for s in tree.body if at_once(s)]) or before_cleaning(kept)
    if why is None:
        _check_loading(context, kept)
        _apply_modules(context, "0")
        why = beyond(context.tree)
    if why is not None:
        raise BeyondError(f"{why} is beyond the rules")
    if (local := unbound_name(context.tree)) is not None:
        raise BeyondError(f"{local} may be read before it has a value")


def _check_loading(context: Context, kept: Sequence[ast.stmt]) -> None:
    """What runs while the module loads, and goes, must leave nothing behind: as a function it has to be in
    the language of the rules, in which nothing outlives a call. Else BeyondError."""
    body, name = context.tree.body, context.name("load")
    run = [x for s in body if s not in kept for x in loading(s)]
    if any(isinstance(n, ast.Call) for n in walk(run)):
        load = ast.parse(f"def {name}(): pass").body
        load[0].body = run  # type: ignore[attr-defined]
        tree = ast.Module([*(s for s in body if s in kept or isinstance(s, REUSABLE)), *load], [])
        tree.body = clone(ast.Module(Reach(tree, name).kept, [])).body
        _clean(Context(tree, Facts(name=name, public=frozenset({name})), context.rules))


def _run(context: Context) -> NormalForm:
    facts, failure = context.facts, f"not settled within {MAX_ROUNDS} rounds"
    _clean(context)
    for _ in range(MAX_ROUNDS):
        named = [n for n in walk(context.tree) if isinstance(n, ast.Name | ast.Attribute)]
        used = {n.id if isinstance(n, ast.Name) else f".{n.attr}" for n in named}
        context.assume(facts.without_bounds(used))
        context.rounds += 1
        if not _round(context):
            failure = ""
            break
    _apply_modules(context, "2")
    modules = syntax.read_names(context.tree) & MODULES  # which a rule may have named (`math.isqrt`)
    missing = sorted(modules - syntax.stored_names(context.tree.body))
    context.tree.body[:0] = [ast.Import(names=[ast.alias(name=name)]) for name in missing]
    return NormalForm(text(context.tree), tuple(context.trace), not failure, failure)


def _round(context: Context) -> bool:
    before = len(context.trace)
    for info in list(context.program.functions.values()):
        if context.settled(id(info.node)):
            continue
        count = len(context.trace)
        Walker(context).function(info)
        if len(context.trace) != count:
            context.changed()
        else:
            context.settle(id(info.node))
    _apply_modules(context, "1")
    return len(context.trace) != before


def _apply_modules(context: Context, phase: str) -> None:
    for rule in context.find("module", frozenset(), phase):
        if context.settled((rule.name, phase)):
            continue
        count = len(context.trace)
        if not rule.apply(context):
            context.settle((rule.name, phase))
            continue
        context.changed()
        if len(context.trace) == count:
            raise AssertionError(f"{rule.name} changed the program without a record")


@dataclass
class Walker:
    """One walk over one function: expressions first, then the blocks around them."""

    context: Context

    def function(self, info: FunctionInfo) -> None:
        scope = Scope(self.context.program, info).at_start()
        self._rewrite(info.node, "body", Place(info.node.body, scope, self.context, "return"), "0")
        self.block(info.node, "body", scope, "return")

    def block(self, owner: ast.AST, field_name: str, scope: Scope, end: str) -> None:
        """A list of statements; `end` is what running off its end amounts to (see Place)."""
        body: list[ast.stmt] = getattr(owner, field_name)
        scopes, count = [scope], len(self.context.trace)
        for s in body:
            self.statement(s, scopes[-1], end if s is body[-1] else "")
            scopes += [] if s is body[-1] else [scopes[-1].after(s)]
        known = scopes if len(self.context.trace) == count else []
        self._rewrite(owner, field_name, Place(body, scope, self.context, end, known), "1")

    def _rewrite(self, owner: ast.AST, field_name: str, place: Place, phase: str) -> None:
        """Apply the rules to a block until none applies: in phase 0 those that come before its insides."""
        for _ in range(60):
            new = self._apply_block(place, phase) if place.body else None
            if new is None:
                return
            body = new or ([ast.Pass()] if field_name == "body" else [])
            setattr(owner, field_name, body)
            self.context.moved()
            place = Place(body, place.start, self.context, place.end)

    def _apply_block(self, place: Place, phase: str) -> list[ast.stmt] | None:
        seen = frozenset([s.__class__ for s in place.body] + [look for look, _ in place.looks])
        for rule in self.context.find("block", seen, phase):
            new: list[ast.stmt] | None = rule.apply(place.body, place)
            if new is not None and syntax.keeps_sets(place.body, new):
                self.context.record(rule.name, *_changes(place.body, new))
                return new
        return None

    def statement(self, s: ast.stmt, scope: Scope, end: str) -> None:
        if isinstance(s, ast.If):
            s.test = self.expr(s.test, scope.quiet(s.test), True)
            self.block(s, "body", scope.when(s.test), end)
            if s.orelse:
                self.block(s, "orelse", scope.when(s.test, False), end)
        elif isinstance(s, syntax.LOOPS):
            inner = body = scope.quiet(s)
            if isinstance(s, ast.While):
                s.test = self.expr(s.test, inner.quiet(s.test), True)
                body = inner.when(s.test)
            else:
                lazy = any(isinstance(n, ast.GeneratorExp | ast.Lambda) for n in walk(s.iter))
                s.iter = self.expr(s.iter, (inner if lazy else scope).quiet(s.iter), False)
            self.block(s, "body", body, "continue")
            self.block(s, "orelse", inner, end)
        elif not isinstance(s, trees.NESTED):
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
        for rule in self.context.find("expression", frozenset((node.__class__, shape(node))), "1"):
            new: ast.expr | None = rule.apply(node, scope, boolean)
            if new is not None and syntax.keeps_sets(node, new):
                self.context.record(rule.name, node, new)
                return new
        return None

    def _children(self, node: ast.expr, scope: Scope, boolean: bool) -> None:
        if isinstance(node, ast.BoolOp):
            here = scope
            for i, value in enumerate(node.values):
                node.values[i] = self.expr(value, here.quiet(value), boolean)
                here = here.when(node.values[i], isinstance(node.op, ast.And))
            node.values = syntax.operands(node)  # `a and (b and c)` is `a and b and c`
        elif isinstance(node, ast.UnaryOp):
            node.operand = self.expr(node.operand, scope, isinstance(node.op, ast.Not))
        elif isinstance(node, ast.IfExp):
            node.test = self.expr(node.test, scope, True)
            node.body = self.expr(node.body, scope.when(node.test).quiet(node.body), boolean)
            node.orelse = self.expr(node.orelse, scope.when(node.test, False).quiet(node.orelse), boolean)
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
        if isinstance(node, ast.AugAssign):  # whose target is looked up before its value
            scope = scope.quiet([syntax.loaded(node.target), node.value])
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

    def _comprehension(self, node: Comprehension, scope: Scope) -> None:
        here = outer = scope
        for generator in node.generators:
            here = outer if isinstance(node, ast.GeneratorExp) else here  # its user may change what held
            generator.iter = self.expr(generator.iter, here, False)
            bound = Effects(writes=syntax.stored_names(generator.target))
            here, outer = here.without(bound), outer.without(bound)
            for i, condition in enumerate(generator.ifs):
                generator.ifs[i] = self.expr(condition, here, True)
                here = here.when(generator.ifs[i]).quiet(node)
        for name in ("key", "value", "elt"):
            if hasattr(node, name):
                setattr(node, name, self.expr(getattr(node, name), here, False))


def _changes(before: list[ast.stmt], after: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The statements that are not in both, all where they only changed places."""
    old, new = {id(s) for s in before}, {id(s) for s in after}
    if old == new:
        return before, after
    return [s for s in before if id(s) not in new], [s for s in after if id(s) not in old]
