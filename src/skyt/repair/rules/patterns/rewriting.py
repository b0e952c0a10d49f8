"""`rewrite`: a rule as a name, templates before and after, conditions, a reason, and two examples. A name of
the after side that is not in the program as it is stands for a computed piece:

    rewrite("strict-integers", ("a <= k", "a < m"), made={"m": folded("k + 1")}, …)

The order of evaluation is checked with them too. A piece that is computed from others is something new for
something dropped, and both must go unnoticed, unless it names a template (`like`) that evaluates the same.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, groupby
from typing import Any

from skyt.repair.rules.analysis import syntax
from skyt.repair.rules.analysis.effects import conflict, operation
from skyt.repair.rules.analysis.evaluate import GiveUpError, returned
from skyt.repair.rules.analysis.raising import UNKNOWN
from skyt.repair.rules.analysis.ranking import linear, rank
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import number, own_breaks, stored_names
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, STORING, Shape, clone, head, same, shape, walk
from skyt.repair.rules.patterns import template as templates
from skyt.repair.rules.patterns.duty import JUMPS, Duties, duties, elements
from skyt.repair.rules.patterns.template import Found, Template, Value, block_name, build, fill, read, value
from skyt.repair.rules.patterns.when import Condition, Where, together, truth_only
from skyt.repair.rules.registry import RULES, BlockRule, ExpressionRule, Place, Rule, example

Form = tuple[str, str] | tuple[str, str, Sequence[Condition]]
Jumps = frozenset[tuple[str, str]]
REST = "rest_of_block"  # what follows the statements that a template matches
Groups = Sequence[tuple[Template, Sequence["Rewriting"]]]  # forms in a row that have one before side


@dataclass(frozen=True)
class Made:
    """A piece that is computed; None where it cannot be, and then the rule does not apply."""

    words: str
    compute: Callable[[Found, Where], Value | None]
    like: str = ""  # a template with the same evaluations, in the same order, and the same truth


def constant_value(node: ast.expr) -> int | str | bool | None:
    """The value of an expression of constants; None where it is not one, raises, or is none of these."""
    try:
        found = returned([ast.Return(value=node)], {}).value
    except GiveUpError:
        return None
    return found if type(found) in (int, str, bool) else None


def folded(template: str) -> Made:
    """The constant that an expression of the matched pieces comes to: `folded("k + 1")`."""

    def compute(found: Found, where: Where) -> ast.expr | None:
        result = constant_value(value(template, **found))
        if result is None:
            return None
        return number(result) if type(result) is int else ast.Constant(value=result)

    return Made(f"the value of `{template}`, a constant", compute)


def ranked(a: str, b: str, place: int) -> Made:
    """The first or the second of two pieces, in the order that all commutative operations have."""

    def compute(found: Found, where: Where) -> Value:
        one, other = found[a], found[b]
        turned = rank(other, where.scope) < rank(one, where.scope)  # type: ignore[arg-type]
        if turned and conflict(where.scope.effects(one), where.scope.effects(other), where.scope):
            turned = False
        return (one, other)[place if not turned else 1 - place]

    return Made(f"number {place + 1} of `{a}` and `{b}` in their order", compute, like=(a, b)[place])


def fresh(base: str) -> Made:
    """A variable that occurs nowhere in the program."""
    return Made("a new variable", lambda found, where: syntax.load(where.name(base, found)), like="None")


def replacing(block: str, *pairs: tuple[str, str]) -> Made:
    """A block or expression with variables, or lookups of one in another, replaced:
    `replacing("body", ("s[i]", "c"))`. It must not assign any of the variables."""

    def compute(found: Found, where: Where) -> Value | None:
        olds, news = ([value(template, **found) for template in side] for side in zip(*pairs, strict=True))
        given, inside, names = found[block], walk(found[block]), syntax.read_names([*olds, *news])
        if any(isinstance(n, ast.arg) and n.arg in names for n in inside):
            return None  # inside a lambda the name is another
        bound = [n for n in inside if isinstance(getattr(n, "ctx", None), ast.Store | ast.Del)]
        if any(n.id in names if isinstance(n, ast.Name) else any(same(n, o) for o in olds) for n in bound):
            return None
        new = {id(n): new for n in inside for old, new in zip(olds, news, strict=True) if same(n, old)}
        if not isinstance(given, list):
            return clone(given, new)
        return [clone(s, new) for s in given] if new or not isinstance(olds[0], ast.Subscript) else None

    words = " and ".join(f"`{new}` for `{old}`" for old, new in pairs)
    return Made(f"`{block}` with {words}", compute, like=block)


def returning(block: str, result: str) -> Made:
    """A block that returns what follows its loop in the place of each `break`."""

    def compute(found: Found, where: Where) -> list[ast.stmt]:
        body: Any = found[block]
        new = dict.fromkeys(map(id, own_breaks(body)), ast.Return(value=found[result]))  # type: ignore[arg-type]
        return [clone(s, new) for s in body]

    return Made(f"`{block}` with `return {result}` for `break`", compute, like=block)


def looks_back(index: str, block: str, start: str) -> Made:
    """How far below an index a block that has it only in subscripts looks, at most as far as its start."""

    def compute(found: Found, where: Where) -> ast.expr | None:
        name = found[index].id  # type: ignore[union-attr]
        looked = [n.slice for n in walk(found[block]) if isinstance(n, ast.Subscript)]
        forms = [form for at in looked if (form := linear(at, where.scope)) is not None]
        offsets = [k for atoms, k in forms if [(getattr(a, "id", ""), n) for a, n in atoms] == [(name, 1)]]
        by = min(syntax.int_value(found[start]) or 0, -min(offsets, default=0))  # type: ignore[arg-type]
        return number(by) if by > 0 and len(offsets) == syntax.count_reads(found[block], name) else None

    return Made(f"how far `{block}` looks below `{index}`, which it has in subscripts only", compute)


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
        self.loops = any(isinstance(n, syntax.LOOPS) for n in old)
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

    def rewritten(self, node: Any, found: Found, where: Where) -> Any:
        """What it makes of a piece of program that its before side matches; None where it does not apply."""
        if self.loops and where.matched:
            before = where
            where = replace(where, find_scope=lambda: before.scope.quiet(before.matched))
        pieces = self._pieces(found, where)
        if pieces is None:
            return None
        if isinstance(node, list):
            new: Any = build(self.after.body, pieces)
            return None if any(syntax.mentions(new, {found[n].id}) for n in self.gone) else new  # type: ignore[union-attr]
        new, old = fill(self.after.body[0].value, pieces), where.scope.effects(node).errors  # type: ignore[attr-defined]
        if self.made and same(new, node):
            return None
        # An operation that may raise anything excuses new errors, its operands do not.
        excused = self.renames or UNKNOWN in operation(node, where.scope).errors
        return new if excused or where.scope.effects(new).errors <= old else None

    def _pieces(self, found: Found, where: Where) -> Found | None:
        """All that the after side needs; None where a condition fails or something bears no moving."""
        if self._confused(found) or not self.given.holds(found, where):
            return None
        pieces = dict(found)
        for name, computed in self.made.items():
            piece = computed.compute(pieces, where)
            if piece is None:
                return None
            pieces[name] = piece
        blocks = [(name, p) for name, p in found.items() if self.loops and isinstance(p, list)]
        jumps = frozenset((n, word) for n, b in blocks for k, word in JUMPS.items() if own_breaks(b, (k,)))
        if not self.shown(jumps).done(pieces, where.scope):
            return None
        for bound, names in self.released:
            variables = {v for target in bound for v in stored_names(found[target])}
            new = {v: where.name(v.rstrip("0123456789_") or "c", pieces) for v in sorted(variables)}
            pieces |= {n: syntax.rename(clone(pieces[n]), new) for n in names if n in pieces}  # type: ignore[type-var]
        return pieces

    def _confused(self, found: Found) -> bool:
        """Whether a variable of a loop is also another one, or what the loop goes through."""
        named = [[p.id for n in head if isinstance(p := found.get(n), ast.Name)] for head in self.heads]
        return any(len(names) != len({*names}) for names in named)


def _names(nodes: Sequence[ast.AST]) -> set[str]:
    return {n.id for n in walk(nodes) if isinstance(n, ast.Name)}


def rewrite(
    name: str,
    *forms: Form,
    needs: Sequence[Condition] = (),
    made: Mapping[str, Made] | None = None,
    on: tuple[type[ast.expr], ...] = (),
    phases: str = "1",
    because: str,
    fires: str,
    keeps: str,
) -> Callable[..., Any]:
    """Register a rule, and give what applies it. Every form is (before, after), with conditions of its own if
    it has any. `made` computes names of the after side; `on` are the kinds of expression that a before side
    which is a name alone stands for."""
    rules = [Rewriting(b, a, [*needs, *chain(*further)], made) for b, a, *further in forms]
    asked = [n.words for r in rules for n in r.needs]
    words = "; ".join(dict.fromkeys([*asked, *(f"`{n}`: {m.words}" for n, m in (made or {}).items())]))
    single = all(r.before.expression is not None and isinstance(r.after.body[0], ast.Expr) for r in rules)
    groups = [(g[0].before, g) for g in ([*x] for _, x in groupby(rules, lambda r: r.before.text))]
    looks: set[object] = {*on} or {shape(r.before.body[0]) for r in rules}
    if single and not on:
        looks = {r.before.shape or type(r.before.expression) for r in rules}
    frame: Any = inspect.currentframe()
    kind, apply = ("expression", _expression(groups)) if on or single else ("block", _block(groups))
    about = (name, kind, words or "nothing", because, apply, frozenset(looks), phases)
    texts = tuple((r.before.text, r.after.text) for r in rules)
    RULES.append(Rule(*about, example(fires), example(keeps), frame.f_back.f_globals["__name__"], texts))  # type: ignore[arg-type]
    return apply


def _rewritten(group: Sequence[Rewriting], pattern: object, node: Any, where: Callable[[Any], Where]) -> Any:
    """What the first form of a group that applies makes of a piece of program, with what follows it."""
    found: Found = {}
    if not templates.match(pattern, node, found):
        return None
    rest: Any = found.pop(REST, [])
    matched = node[: len(node) - len(rest)] if isinstance(node, list) else node
    here = where(matched)
    made = next((new for form in group if (new := form.rewritten(matched, found, here)) is not None), None)
    return made if made is None or not rest else [*made, *rest]


def _expression(groups: Groups) -> ExpressionRule:
    patterns = [(t.body[0].value, t.shape, group) for t, group in groups]  # type: ignore[attr-defined]
    truth = all(truth_only in r.needs for _, group in groups for r in group)

    def apply(whole: Any, scope: Scope, boolean: bool) -> ast.expr | None:
        if (truth and not boolean) or getattr(whole, "ctx", None).__class__ in STORING:
            return None
        looks = shape(whole)
        for pattern, wanted, group in patterns:
            for before, node, after in _runs(pattern, whole) if wanted in (None, looks) else ():
                new = _rewritten(group, pattern, node, lambda _: Where(lambda: scope, boolean))
                if new is not None and node is not whole:
                    return ast.BoolOp(whole.op, syntax.operands(ast.BoolOp(whole.op, [*before, new, *after])))
                if new is not None:
                    return new  # type: ignore[no-any-return]
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


def _block(groups: Groups) -> BlockRule:
    known: dict[Shape, list[Any]] = {}
    for t, group in groups:
        pattern = t.body if block_name(t.body[-1]) else [*t.body, *read(f"*{REST}").body]
        first = head(t.body[0])  # how the expression looks that a template starts with
        look = () if first is None else Template("", [ast.Expr(value=first)]).shape
        known.setdefault(shape(t.body[0]), []).append((pattern, look, group))

    def apply(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
        def place_of(at: int, matched: list[ast.stmt]) -> Where:
            return Where(partial(place.before, at), False, place, matched, body[-1] is matched[-1])

        for i, (seen, start) in enumerate(place.looks):
            for pattern, first, group in known.get(seen, ()):
                if first is None or first == start:
                    new = _rewritten(group, pattern, body[i:], partial(place_of, i))
                    if new is not None:
                        return [*body[:i], *new]
        return None

    return apply
