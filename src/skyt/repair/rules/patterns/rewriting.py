"""`rewrite`: a rule as a name, templates before and after, conditions, a reason, and two examples."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from skyt.repair.rules.analysis.effects.commuting import Effects, conflict
from skyt.repair.rules.analysis.effects.vocabulary import UNKNOWN
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import operands
from skyt.repair.rules.analysis.trees.trees import clone, same
from skyt.repair.rules.patterns.conditions import Condition, Where
from skyt.repair.rules.patterns.making import Made, Spelled
from skyt.repair.rules.patterns.order import Duties, Event, duties
from skyt.repair.rules.patterns.template import Found, Template, build, fill, match, shape
from skyt.repair.rules.registry import RULES, Example, ExpressionRule, Place, Rule, example


class Rewriting:
    """One pair of templates of a rule, with what has to be shown for it."""

    def __init__(
        self, before: str, after: str, needs: Sequence[Condition], made: Mapping[str, Made] | None = None
    ) -> None:
        self.before, self.after, self.needs = Template.read(before), Template.read(after), needs
        self.made = {name: m for name, m in (made or {}).items() if name in self.after.names}
        if unknown := self.after.names - self.before.names - set(self.made):
            raise ValueError(f"{sorted(unknown)[0]} stands for nothing: it is not in\n{self.before.text}")
        leaving = frozenset[str]().union(*(n.leaving for n in needs))
        known = {name: value for n in needs for name, value in n.decides.items()}
        spelled = Spelled(self.made)
        evaluated = Template(self.after.text, [spelled.visit(clone(s)) for s in self.after.body])
        self.duties: Duties = duties(self.before, evaluated, leaving, known)

    def pieces(self, found: Found, where: Where) -> Found | None:
        """All that the after side needs; None where a condition fails or something bears no moving."""
        if not all(n.holds(found, where) for n in self.needs):
            return None
        computed = {name: m.compute(found, where) for name, m in self.made.items()}
        pieces = found | {name: piece for name, piece in computed.items() if piece is not None}
        complete = len(pieces) == len(found) + len(computed)
        return pieces if complete and self._in_turn(pieces, where.scope) else None

    def _in_turn(self, found: Found, scope: Scope) -> bool:
        """Whether what the rule moves, drops and repeats bears it."""
        effects = {e: _effects(e, found, scope) for e in self._pieces()}
        if not all(effects[e].total for e in self.duties.total):
            return False
        if not all(effects[e].pure for e in self.duties.pure):
            return False
        return not any(conflict(effects[a], effects[b], scope) for a, b in self.duties.apart)

    def _pieces(self) -> set[Event]:
        found = self.duties
        return {*found.total, *found.pure, *(e for pair in found.apart for e in pair)}


def _effects(event: Event, found: Found, scope: Scope) -> Effects:
    if event in found:
        return scope.effects(found[event])
    name = event.removesuffix(" =")
    stored = found.get(name)
    if event.endswith(" =") and isinstance(stored, ast.Name):
        return Effects(writes={stored.id})
    unknown = Effects(jumps=True, other=True)  # a loop, a comprehension, a return: never moved
    unknown.fails()
    return unknown


def rewrite(
    name: str,
    *forms: tuple[str, str],
    needs: Sequence[Condition] = (),
    made: Mapping[str, Made] | None = None,
    on: tuple[type[ast.expr], ...] = (),
    because: str,
    fires: Example,
    keeps: Example,
) -> ExpressionRule:
    """Register a rule, and give what applies it. Every form is (before, after). `made` computes names of the
    after side; `on` are the kinds of expression that a before side which is a name alone stands for."""
    rules = [Rewriting(before, after, needs, made) for before, after in forms]
    words = "; ".join([*(n.words for n in needs), *(f"`{n}`: {m.words}" for n, m in (made or {}).items())])
    shape = "expression" if on or rules[0].before.expression is not None else "block"
    apply = _expression(rules) if shape == "expression" else _block(rules)
    roots: tuple[type, ...] = on or tuple({type(r.before.expression or r.before.body[0]) for r in rules})
    frame = inspect.currentframe()
    home = frame.f_back.f_globals["__name__"] if frame is not None and frame.f_back is not None else ""
    shown = {"fires": example(fires), "keeps": example(keeps), "forms": tuple(forms), "home": home}
    RULES.append(Rule(name, shape, words or "nothing", because, apply, roots, **shown))  # type: ignore[arg-type]
    return apply


def _groups(rules: list[Rewriting]) -> list[tuple[Template, list[Rewriting]]]:
    """Forms in a row that have one before side."""
    grouped = groupby(rules, key=lambda r: r.before.text)
    return [(group[0].before, group) for group in ([*g] for _, g in grouped)]


def _expression(rules: list[Rewriting]) -> ExpressionRule:
    groups = [(t.body[0].value, t.shape, group) for t, group in _groups(rules)]  # type: ignore[attr-defined]

    def apply(whole: ast.expr, scope: Scope, boolean: bool) -> ast.expr | None:
        looks, where = shape(whole), Where(scope, boolean)
        for pattern, wanted, group in groups:
            if wanted is not None and wanted != looks:
                continue
            for node, put_back in _runs(pattern, whole):
                found: Found = {}
                if not match(pattern, node, found):
                    continue
                for form in group:
                    pieces = form.pieces(found, where)
                    new = None if pieces is None else fill(form.after.body[0].value, pieces)  # type: ignore[attr-defined]
                    if new is None or (form.made and same(new, node)):
                        continue
                    old = scope.effects(node).errors
                    if UNKNOWN in old or scope.effects(new).errors <= old:
                        return put_back(new)
        return None

    return apply


def _runs(pattern: ast.expr, node: ast.expr) -> Iterator[tuple[ast.expr, Callable[[ast.expr], ast.expr]]]:
    """An expression, and, of a longer `and` or `or` than the pattern's, every run of as many operands: what
    may be done to the run alone may be done to it among others. With each, how the whole is put together."""
    if not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
        yield node, lambda new: new
    if not (isinstance(pattern, ast.BoolOp) and isinstance(node, ast.BoolOp)):
        return
    values, count = node.values, len(pattern.values)
    for i in range(len(values) - count + 1 if len(values) > count else 0):
        before, run, after = values[:i], values[i : i + count], values[i + count :]

        def put_back(
            new: ast.expr, before: list[ast.expr] = before, after: list[ast.expr] = after
        ) -> ast.expr:
            return ast.BoolOp(op=node.op, values=operands(ast.BoolOp(node.op, [*before, new, *after])))

        yield ast.BoolOp(op=node.op, values=run), put_back


def _block(rules: list[Rewriting]) -> Callable[..., Any]:
    groups = [(t.body, t.shape, group) for t, group in _groups(rules)]
    starts = {body[0].__class__ for body, _, _ in groups}

    def apply(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
        for i, s in enumerate(body):
            if s.__class__ not in starts:
                continue
            looks = shape(s)
            for wanted, seen, group in groups:
                if seen != looks:
                    continue
                last = isinstance(wanted[-1], ast.Expr) and isinstance(wanted[-1].value, ast.Name)
                end = len(body) if last else i + len(wanted)
                found: Found = {}
                if end > len(body) or not match(wanted, body[i:end], found):
                    continue
                for form in group:
                    pieces = form.pieces(found, Where(place.before(i)))
                    if pieces is not None:
                        return [*body[:i], *build(form.after.body, pieces), *body[end:]]
        return None

    return apply
