"""`rewrite`: a rule as a name, templates before and after, conditions, a reason, and two examples."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from skyt.repair.rules.analysis.effects.commuting import Effects, conflict
from skyt.repair.rules.analysis.effects.vocabulary import UNKNOWN
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.patterns.conditions import Condition, Where
from skyt.repair.rules.patterns.order import Duties, Event, duties
from skyt.repair.rules.patterns.template import Found, Template, build, fill, match, shape
from skyt.repair.rules.registry import RULES, Example, Place, Rule, example


class Rewriting:
    """One pair of templates of a rule, with what has to be shown for it."""

    def __init__(self, before: str, after: str, needs: Sequence[Condition]) -> None:
        self.before, self.after, self.needs = Template.read(before), Template.read(after), needs
        self.shape = shape(self.before.expression or self.before.body[0])
        if unknown := self.after.names - self.before.names:
            raise ValueError(f"{sorted(unknown)[0]} stands for nothing: it is not in\n{self.before.text}")
        leaving = frozenset[str]().union(*(n.leaving for n in needs))
        known = {name: value for n in needs for name, value in n.decides.items()}
        self.duties: Duties = duties(self.before, self.after, leaving, known)

    def fits(self, found: Found, where: Where) -> bool:
        return all(n.holds(found, where) for n in self.needs) and self._in_turn(found, where.scope)

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
    because: str,
    fires: Example,
    keeps: Example,
) -> None:
    """Register a rule. Every form is (before, after)."""
    made = [Rewriting(before, after, needs) for before, after in forms]
    words = "; ".join(n.words for n in needs) or "nothing"
    shape = "expression" if made[0].before.expression is not None else "block"
    apply = _expression(made) if shape == "expression" else _block(made)
    roots = tuple({type(m.before.expression or m.before.body[0]) for m in made})
    frame = inspect.currentframe()
    home = frame.f_back.f_globals["__name__"] if frame is not None and frame.f_back is not None else ""
    shown = {"fires": example(fires), "keeps": example(keeps), "forms": tuple(forms), "home": home}
    RULES.append(Rule(name, shape, words, because, apply, roots, **shown))  # type: ignore[arg-type]


def _expression(forms: list[Rewriting]) -> Callable[..., Any]:
    def apply(node: ast.expr, scope: Scope, boolean: bool) -> ast.expr | None:
        looks = shape(node)
        for form in forms:
            found: Found = {}
            if form.shape != looks or not match(form.before.expression, node, found):
                continue
            if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
                continue
            if not form.fits(found, Where(scope, boolean)):
                continue
            new = fill(form.after.body[0].value, found)  # type: ignore[attr-defined]
            old = scope.effects(node).errors
            if UNKNOWN in old or scope.effects(new).errors <= old:
                return new
        return None

    return apply


def _block(forms: list[Rewriting]) -> Callable[..., Any]:
    starts = {form.before.body[0].__class__ for form in forms}

    def apply(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
        for i, s in enumerate(body):
            if s.__class__ not in starts:
                continue
            looks = shape(s)
            for form in forms:
                if form.shape != looks:
                    continue
                wanted = form.before.body
                last = isinstance(wanted[-1], ast.Expr) and isinstance(wanted[-1].value, ast.Name)
                end = len(body) if last else i + len(wanted)
                found: Found = {}
                if end > len(body) or not match(wanted, body[i:end], found):
                    continue
                if form.fits(found, Where(place.before(i))):
                    return [*body[:i], *build(form.after.body, found), *body[end:]]
        return None

    return apply
