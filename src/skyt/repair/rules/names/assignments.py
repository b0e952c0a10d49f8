"""Assignments: split, expanded, put where they are used and in one order, so that only what carries
information is left; values that change places do so at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise, permutations

from skyt.repair.rules.analysis import syntax
from skyt.repair.rules.analysis.effects import conflict, disturbs, mutates_receiver
from skyt.repair.rules.analysis.ranking import binding_order, spelled
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import LOOPS, count_reads, stored_names, substitute
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, children, clone, in_order, walk
from skyt.repair.rules.analysis.types import IMMUTABLE, MUTATORS
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import Found
from skyt.repair.rules.patterns.when import Condition, Where, immutable, local, of_kind, own, settled, unseen
from skyt.repair.rules.registry import Place, block

SMALL, LARGEST = 12, 120  # nodes of a value that is repeated, and that putting a statement into branches adds
CHEAP = frozenset({"len", "str", "abs", "int"})


def simple_target(s: ast.stmt) -> str | None:
    """The name that `name = value` assigns."""
    if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
        return s.targets[0].id
    return None


rewrite(
    "split-chained",
    ("x = y = e", "x = e\ny = e"),
    needs=[of_kind("int bool str none", "e")],
    because="every variable gets the same value, left to right, and evaluating it again gives it again",
    fires="n: int\na = b = 0\nreturn a + b + n",
    keeps="n: int\na = b = []\na.append(n)\nreturn b",
)


def _splits(count: int) -> Iterator[tuple[str, str]]:
    """An assignment of this many values at once, and one after the other in every order."""
    parts = [(f"target_{name}", name) for name in "abcd"[:count]]
    before = ", ".join(t for t, _ in parts) + " = " + ", ".join(v for _, v in parts)
    for ordered in permutations(parts):
        yield before, "\n".join(f"{t} = {v}" for t, v in ordered)


rewrite(
    "split-tuple",
    *(form for count in (2, 3, 4) for form in _splits(count)),
    needs=[unseen("target")],
    because="where no part reads what an earlier one stored, all values are the same as before any store, "
    "and a local that is stored earlier cannot be seen",
    fires="n: int\na, b = 0, n\nreturn a - b",
    keeps="a: int; b: int\na, b = b, a\nreturn a - b",
)
ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>")
rewrite(
    "expand-augmented",
    *((f"target {op}= e", f"target = target {op} e") for op in ARITHMETIC),
    needs=[immutable("target"), settled("target", "e")],
    because="on immutable values `x += e` is `x = x + e`",
    fires="n: int\nn += 1\nreturn n",
    keeps="n: any\nn += 1\nreturn n",
)
rewrite(
    "extend-in-place",
    ("x += [e]", "x.append(e)"),
    ("x += e", "x.extend(e)"),
    needs=[of_kind("list", "x"), local("x")],
    because="on a list `x += e` is `x.extend(e)`",
    fires="n: int\nx = [n]\nx += [n, 1]\nx += [n]\nreturn x",
    keeps="x: any\nx += [1]\nreturn x",
)


def bound_first(x: str, y: str) -> Condition:
    """Of two variables the one that is bound first in the function."""

    def holds(found: Found, where: Where) -> bool:
        order = binding_order(where.scope)
        first, second = (order.get(found[name].id, len(order)) for name in (x, y))  # type: ignore[union-attr]
        return first < second

    return Condition(f"`{x}` is bound before `{y}`", holds)


rewrite(
    "simultaneous",
    ("t = e\nx = f\ny = t", "x, y = f, e", [bound_first("x", "y")]),
    ("t = e\nx = f\ny = t", "y, x = e, f", [bound_first("y", "x")]),
    needs=[own("t"), unseen("x"), unseen("y")],
    because="one simultaneous assignment gives every variable the same value",
    fires="a: int >= 1; b: int >= 1\nwhile b:\n t = a % b\n a = b\n b = t\nreturn a",
    keeps="a: int >= 1; b: int >= 1\nt = a\na = b\nb = t\nreturn a - b + t",
)


@block(
    ast.Assign,
    ast.If,
    needs="one use, in the next statement, before which nothing is evaluated that does not commute with "
    "the value (of every branch that ends with one); or one assignment of a pure value that cannot raise (or "
    "whose first use comes next) of which nothing changes before the last use; for several uses: a small "
    "value of immutable type with no calls but `len`, `str`, `abs`, `int`, or a plain name",
    sound="the value is computed at the same point as before, or evaluating it again gives the same",
    fires="xs: list[int]; n: int\nif n > 1:\n t = n\nelse:\n t = 3\nk = len(xs)\nreturn k * k + t",
    keeps="xs: list[int]; n: int\nt = 7 // n\nk = len(xs)\nxs.append(1)\nif n > 1:\n m = n\nelse:\n"
    " m = 7 // n\nreturn [[8][n], m, k * k, n < 3 or t < 2]",
    phases="01",
)
def inline_temporary(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`k = len(xs)` `return k * k` is `return len(xs) * len(xs)`; branches that assign get the statement."""
    for i, (s, t) in enumerate(pairwise(body)):
        last = s
        while isinstance(last, ast.If):
            last = last.body[-1]
        name = simple_target(last)
        if name is None or not place.private(name):
            continue
        passed: list[ast.stmt] = []
        if last is s and not count_reads(t, name) and count_reads(body[i + 2 : i + 3], name):
            plain = isinstance(t, ast.Assign) and isinstance(body[i + 2], ast.Assign)
            if plain and _commute(t, body[i + 2], place.before(i + 1)):
                passed, t = [t], body[i + 2]
        if count_reads(t, name) != 1:
            continue
        if name not in stored_names(t) and name not in place.live_at(t):
            new = _put(s, t, name, place.before(i) if last is s else place.scope.bare)
            if new is not None and len(walk(new)) <= len(walk(s)) + LARGEST:
                return [*body[:i], new, *passed, *body[i + 2 + len(passed) :]]
    return _everywhere(body, place)


def _commute(s: ast.stmt, t: ast.stmt, scope: Scope) -> bool:
    """Whether two statements can be done in either order."""
    first, second = scope.effects(s), scope.effects(t)
    return not (first.other or second.other) and not conflict(first, second, scope)


def _put(s: ast.stmt, t: ast.stmt, name: str, scope: Scope) -> ast.stmt | None:
    """A statement with the value in it that the one before it gives a variable, or each of its branches."""
    if isinstance(s, ast.If):
        then, other = (_put(b[-1], t, name, scope) if b else None for b in (s.body, s.orelse))
        if then is None or other is None or isinstance(t, ast.If | ast.For):
            return None
        return ast.If(test=s.test, body=[*s.body[:-1], then], orelse=[*s.orelse[:-1], other])
    if not isinstance(s, ast.Assign) or simple_target(s) != name:
        return None
    earlier = before(t, *_uses(t, name))
    if earlier is None or conflict(scope.effects(s.value), scope.effects(earlier), scope):
        return None
    return substitute(clone(t), {name: s.value})


def _uses(t: ast.AST, name: str) -> list[ast.AST]:
    return [n for n in walk(t) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]


def before(t: ast.stmt, part: ast.AST) -> list[ast.expr] | None:
    """What a statement evaluates before a part of it; None if that may happen not at all, or twice."""
    found: list[ast.expr] = []
    way = _evaluated(t)
    while True:
        node = next((n for n in way if any(x is part for x in walk(n))), None)
        if node is None:
            return None
        found += way[: way.index(node)]
        if node is part:
            return found
        way = _evaluated(node)


def _evaluated(node: ast.AST) -> list[ast.expr]:
    """The parts of a node that it surely evaluates, once, in order, as far as nothing comes in between."""
    match node:
        case ast.Assign(targets=targets, value=value):
            unpacks = any(isinstance(t, ast.Tuple | ast.List) for t in targets)  # before it stores
            return [value, *targets] if not unpacks or isinstance(value, ast.Tuple) else [value]
        case ast.AugAssign(target=ast.Name(), value=first) | ast.If(test=first) | ast.For(iter=first):
            return [first]
        case ast.BoolOp(values=[first, *_]):
            return [first]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return [node.generators[0].iter]
        case ast.Dict() | ast.Lambda() | ast.IfExp() | ast.Compare(ops=[_, _, *_]):
            return []
        case ast.stmt() if not isinstance(node, ast.Return | ast.Expr | ast.Raise | ast.Delete):
            return []
    inside = [[n] if isinstance(n, ast.expr) else _evaluated(n) for n in children(node)]
    return [n for part in inside for n in part]


def _everywhere(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """The value of the only assignment of a variable put wherever that is read."""
    census = place.context.census(place.info.node)
    for i, s in enumerate(body):
        name, rest = simple_target(s), body[i + 1 :]
        if name is None or not place.private(name) or name in place.info.arguments:
            continue
        value, uses = s.value, census.reads[name]  # type: ignore[attr-defined]
        if census.stores[name] != 1 or not uses or uses != count_reads(rest, name):
            continue
        scope = place.before(i)
        seen = scope.effects(value)
        if not seen.pure or not _repeatable(value, uses, rest, name, scope):
            continue
        earlier = [before(rest[0], use) for use in _uses(rest[0], name)]
        if seen.raises and not any(e is not None and scope.effects(e).total for e in earlier):
            continue
        last = max(k for k, t in enumerate(rest) if count_reads(t, name))
        taken = syntax.read_names(value) & syntax.bound_anywhere(
            rest[: last + 1]
        )  # by variables of comprehensions
        if not taken and not disturbs(scope.effects(rest[: last + 1]), seen, scope):
            return [*body[:i], *(substitute(clone(t), {name: value}) for t in rest)]
    return None


def _repeatable(value: ast.expr, uses: int, rest: list[ast.stmt], name: str, scope: Scope) -> bool:
    """Whether a value is so small, or used so rarely, that its name can go."""
    if isinstance(value, ast.Name | ast.Constant):
        return True
    nodes = walk(value)
    called = {getattr(n.func, "id", "") for n in nodes if isinstance(n, ast.Call)}
    small = len(nodes) <= SMALL and not any(isinstance(n, COMPREHENSIONS) for n in nodes)
    cheap = called <= {"len"} or (called <= CHEAP and scope.effects(value).total)
    if small and cheap and scope.type_of(value) in IMMUTABLE - {"float"}:  # of one NaN there may be two
        return True
    again = [n for n in walk(rest) if isinstance(n, (*LOOPS, *COMPREHENSIONS, ast.Lambda))]
    return uses == 1 and not any(count_reads(n.body if isinstance(n, ast.For) else n, name) for n in again)


@block(
    needs="neighbouring assignments of pure values, changes to containers, or an assignment and a condition "
    "behind it, neither of which touches what the other writes, and not both of which may raise or leave",
    sound="two computations that do not touch each other's data can be done in either order",
    fires="xs: list[int]; n: int\na = len(xs)\nb = 0\nif n > 2:\n n = n - 2\nreturn [a, b, a, b, n]",
    keeps="xs: list[int]; n: int\na = len(xs)\nb = a\nif b > 2:\n n = n - 2\nreturn [a, b, a, b, n]",
)
def order_assignments(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """Conditions first; assignments by the shape of the value, then by where the variable is first read."""
    for i, (s, t) in enumerate(pairwise(body)):
        if _target(s) is None or not (
            (isinstance(s, ast.Assign) and isinstance(t, ast.If))
            or (_target(t) is not None and type(s) is type(t) and _key(t, place) < _key(s, place))
        ):
            continue
        if _commute(s, t, place.before(i)):
            return [*body[:i], t, s, *body[i + 2 :]]
    return None


def _target(s: ast.stmt) -> ast.Name | ast.Attribute | None:
    """What a statement assigns, or the container that it changes: a variable, or an attribute of one."""
    match s:
        case ast.Expr(value=ast.Call() as call):
            target = mutates_receiver(call)
        case ast.Assign(targets=[ast.expr() as only]):
            target = only
        case _:
            return None
    owner = target.value if isinstance(target, ast.Attribute) else target
    return target if isinstance(owner, ast.Name) else None  # type: ignore[return-value]


def _key(s: ast.stmt, place: Place) -> tuple[bool, str, int]:
    """Variables before attributes, by the shape of the value, then by where they are read first."""
    target, context, info = _target(s), place.context, place.info
    known = context.facts.public | MUTATORS
    shape = spelled(
        in_order(s.value),  # type: ignore[attr-defined]
        lambda name: f"#{info.arguments.index(name)}" if name in info.arguments else "_",
        lambda attr: attr if attr in known else "",
    )
    if isinstance(target, ast.Attribute):
        return True, shape, context.census(context.tree).first_read.get("." + target.attr, 0)
    return False, shape, context.census(info.node).first_read.get(target.id, 0)  # type: ignore[union-attr]
