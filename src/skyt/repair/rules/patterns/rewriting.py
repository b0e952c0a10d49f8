"""`rewrite`: a rule as a name, templates before and after, conditions, a reason, and two examples."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import LOOPS, mentions, operands, own_breaks, rename, stored_names
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, STORING, Shape, clone, head, same, shape, walk
from skyt.repair.rules.analysis.vocabulary import UNKNOWN
from skyt.repair.rules.patterns.conditions import Condition, Where, together, truth_only
from skyt.repair.rules.patterns.duty import JUMPS, Duties, duties, elements
from skyt.repair.rules.patterns.making import Made
from skyt.repair.rules.patterns.template import (
    OUTER,
    Found,
    Template,
    block_name,
    build,
    fewest,
    fill,
    match,
    read,
)
from skyt.repair.rules.registry import RULES, BlockRule, ExpressionRule, Place, Rule, example

Form = tuple[str, str] | tuple[str, str, Sequence[Condition]]
Jumps = frozenset[tuple[str, str]]


class Rewriting:
    """One pair of templates of a rule, with what has to be shown for it."""

    def __init__(
        self, before: str, after: str, needs: Sequence[Condition], made: Mapping[str, Made] | None = None
    ) -> None:
        self.before, self.after, self.needs = Template.read(before), Template.read(after), needs
        self.made = {name: m for name, m in (made or {}).items() if name in self.after.names}
        if unknown := self.after.names - self.before.names - set(self.made):
            raise ValueError(f"{sorted(unknown)[0]} stands for nothing: it is not in\n{self.before.text}")
        self.given, old, new = together(needs), walk(self.before.body), walk(self.after.body)
        self.gone = self.given.own & stored_names(self.before.body) - self.after.names
        self.renames = any(m.like == "None" for m in self.made.values())  # the analysis has no type for these
        self.loops = any(isinstance(n, LOOPS) for n in old)
        self.heads = [_names([s.target, s.iter]) for s in old if isinstance(s, ast.For)]
        looped = stored_names([s.target for s in new if isinstance(s, ast.For)])
        parts = [(n.generators[0], elements(n)) for n in old if isinstance(n, COMPREHENSIONS)]
        self.released = [  # variables of comprehensions that become loops, and the pieces that have them
            (bound, _names([g.target, *g.ifs, *inner]))
            for g, inner in parts
            if (bound := stored_names(g.target)) & looped
        ]
        self.shown: Callable[[Jumps], Duties] = cache(self._shown)
        self.duties = self.shown(frozenset())

    def _shown(self, jumps: Jumps) -> Duties:
        """What has to be shown where blocks have these jumps."""
        likes = {name: m.like for name, m in self.made.items() if m.like}
        said = {name: read(likes.get(name, name)).body for name in self.after.names}
        blocks = {block_name(s) for s in walk(self.after.body)}
        spelled: Any = {name: body if name in blocks else body[0].value for name, body in said.items()}  # type: ignore[attr-defined]
        evaluated = Template("", build(self.after.body, spelled))
        return duties(self.before, evaluated, replace(self.given, jumps=jumps))

    def pieces(self, found: Found, where: Where) -> Found | None:
        """All that the after side needs; None where a condition fails or something bears no moving."""
        if (OUTER in found and not self.given.inner) or self._confused(found):
            return None
        if not self.given.holds(found, where):
            return None
        pieces = dict(found)
        for name, computed in self.made.items():
            piece = computed.compute(pieces, where)
            if piece is None:
                return None
            pieces[name] = piece
        if not self.shown(_jumps(found) if self.loops else frozenset()).done(pieces, where.scope):
            return None
        for bound, names in self.released:
            variables = {v for target in bound for v in stored_names(found[target])}
            new = {v: where.name(v.rstrip("0123456789_") or "c", pieces) for v in sorted(variables)}
            pieces |= {n: rename(clone(pieces[n]), new) for n in names if n in pieces}  # type: ignore[type-var]
        return pieces

    def _confused(self, found: Found) -> bool:
        """Whether a variable of a loop is also another one, or what the loop goes through."""
        named = [[p.id for n in head if isinstance(p := found.get(n), ast.Name)] for head in self.heads]
        return any(len(names) != len({*names}) for names in named)


def _names(nodes: Sequence[ast.AST]) -> set[str]:
    return {n.id for n in walk(nodes) if isinstance(n, ast.Name)}


def _jumps(found: Found) -> Jumps:
    """The blocks that have a `break` or `continue` of their own."""
    blocks = [(name, piece) for name, piece in found.items() if isinstance(piece, list)]
    return frozenset((n, word) for n, body in blocks for k, word in JUMPS.items() if own_breaks(body, (k,)))


def rewrite(
    name: str,
    *forms: Form,
    needs: Sequence[Condition] = (),
    made: Mapping[str, Made] | None = None,
    on: tuple[type[ast.expr], ...] = (),
    because: str,
    fires: str,
    keeps: str,
) -> Callable[..., Any]:
    """Register a rule, and give what applies it. Every form is (before, after), with conditions of its own if
    it has any. `made` computes names of the after side; `on` are the kinds of expression that a before side
    which is a name alone stands for."""
    rules = [Rewriting(form[0], form[1], [*needs, *_further(form)], made) for form in forms]
    asked = [n.words for n in (*needs, *(n for form in forms for n in _further(form)))]
    words = "; ".join(dict.fromkeys([*asked, *(f"`{n}`: {m.words}" for n, m in (made or {}).items())]))
    single = all(r.before.expression is not None and isinstance(r.after.body[0], ast.Expr) for r in rules)
    kind = "expression" if on or single else "block"
    apply = _expression(rules) if kind == "expression" else block_rule(_groups(rules))
    looks: set[object] = {*on} or {shape(r.before.body[0]) for r in rules}
    if single and not on:
        looks = {r.before.shape or type(r.before.expression) for r in rules}
    frame = inspect.currentframe()
    home = frame.f_back.f_globals["__name__"] if frame is not None and frame.f_back is not None else ""
    texts = tuple((form[0], form[1]) for form in forms)
    shown = {"fires": example(fires), "keeps": example(keeps), "forms": texts, "home": home}
    RULES.append(Rule(name, kind, words or "nothing", because, apply, frozenset(looks), **shown))  # type: ignore[arg-type]
    return apply


def _further(form: Form) -> Sequence[Condition]:
    return form[2] if len(form) == 3 else ()


def _groups(rules: list[Rewriting]) -> list[tuple[Template, list[Rewriting]]]:
    """Forms in a row that have one before side."""
    grouped = groupby(rules, key=lambda r: r.before.text)
    return [(group[0].before, group) for group in ([*g] for _, g in grouped)]


def _expression(rules: list[Rewriting]) -> ExpressionRule:
    groups = [(t.body[0].value, t.shape, group) for t, group in _groups(rules)]  # type: ignore[attr-defined]
    truth = all(truth_only in r.needs for r in rules)  # most expressions are not asked for their truth alone

    def apply(whole: ast.expr, scope: Scope, boolean: bool) -> ast.expr | None:
        if (truth and not boolean) or getattr(whole, "ctx", None).__class__ in STORING:
            return None
        looks = shape(whole)
        for pattern, wanted, group in groups:
            if wanted is not None and wanted != looks:
                continue
            for before, node, after in _runs(pattern, whole):
                found: Found = {}
                if not match(pattern, node, found):
                    continue
                for form in group:
                    pieces = form.pieces(found, Where(scope, boolean))
                    new = None if pieces is None else fill(form.after.body[0].value, pieces)  # type: ignore[attr-defined]
                    if new is None or (form.made and same(new, node)):
                        continue
                    old = scope.effects(node).errors
                    if form.renames or UNKNOWN in old or scope.effects(new).errors <= old:
                        return new if node is whole else _joined(whole, [*before, new, *after])
        return None

    return apply


def _runs(pattern: ast.expr, node: ast.expr) -> list[tuple[list[ast.expr], ast.expr, list[ast.expr]]]:
    """An expression, and, of a longer `and` or `or` than the pattern's, every run of as many operands, with
    those before and after it: what may be done to the run alone may be done to it among others."""
    if not (isinstance(pattern, ast.BoolOp) and isinstance(node, ast.BoolOp)):
        return [([], node, [])]
    values, count = node.values, len(pattern.values)
    starts = range(len(values) - count + 1 if len(values) > count else 0)
    parts = [(values[:i], values[i : i + count], values[i + count :]) for i in starts]
    return [([], node, []), *((a, ast.BoolOp(op=node.op, values=b), c) for a, b, c in parts)]


def _joined(node: Any, values: list[ast.expr]) -> ast.BoolOp:
    return ast.BoolOp(op=node.op, values=operands(ast.BoolOp(node.op, values)))


def block_rule(groups: Sequence[tuple[Template, list[Rewriting]]]) -> BlockRule:
    """What applies the forms of a rule, grouped by their before side, to a block."""
    known: dict[
        Shape, list[tuple[list[ast.stmt], Shape | None, Callable[..., Iterable[int]], list[Rewriting]]]
    ] = {}
    for t, group in groups:
        known.setdefault(shape(t.body[0]), []).append((t.body, _first(t.body[0]), _ends(t.body), group))

    def apply(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
        for i, (seen, start) in enumerate(place.looks):
            for wanted, first, ends, group in known.get(seen, ()):
                if first is not None and first != start:
                    continue
                for end in ends(i, body):
                    found: Found = {}
                    if match(wanted, body[i:end], found):
                        new = _rewritten(group, found, body[i:end], place, i)
                        if new is not None:
                            return [*body[:i], *new, *body[end:]]
        return None

    return apply


def _first(s: ast.stmt) -> Shape | None:
    """How the expression looks that a template starts with; None where it may be anything."""
    first = head(s)
    return () if first is None else Template("", [ast.Expr(value=first)]).shape


def _ends(wanted: list[ast.stmt]) -> Callable[[int, list[ast.stmt]], Iterable[int]]:
    """What tells where a match that starts somewhere in a block may end: at the end of the block if the
    template's last name stands for several statements."""
    least, last = fewest(wanted), wanted[-1].__class__
    whole, exact = block_name(wanted[-1]) is not None, least == len(wanted)

    def ends(start: int, body: list[ast.stmt]) -> Iterable[int]:
        end, size = start + least, len(body)
        if whole:
            return (size,) if end <= size else ()
        return [
            k for k in range(end, (min(end, size) if exact else size) + 1) if body[k - 1].__class__ is last
        ]

    return ends


def _rewritten(
    group: list[Rewriting], found: Found, matched: list[ast.stmt], place: Place, at: int
) -> list[ast.stmt] | None:
    for form in group:
        scope = place.before(at)
        last = place.body[-1] is matched[-1]
        where = Where(scope.within(matched) if form.loops else scope, False, place, matched, last)
        pieces = form.pieces(found, where)
        if pieces is None:
            continue
        new = build(form.after.body, pieces)
        if not any(mentions(new, {found[name].id}) for name in form.gone):  # type: ignore[union-attr]
            return new
    return None
