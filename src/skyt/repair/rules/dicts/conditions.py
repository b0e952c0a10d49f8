"""Entries of dicts: keys that can be asked for again, what makes an entry, and what rules ask about them."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects import Effects, disturbs
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import int_value, load, mentions
from skyt.repair.rules.analysis.trees import children, same, walk
from skyt.repair.rules.analysis.types import is_str, kind
from skyt.repair.rules.patterns.conditions import Condition, Where, each
from skyt.repair.rules.patterns.template import Found, Value, first, made, pieces, value

STARTS: dict[str, ast.expr] = {
    "int": ast.Constant(value=0),
    "list": ast.List(elts=[], ctx=ast.Load()),
    "dict": ast.Dict(keys=[], values=[]),
    "set": ast.Call(func=load("set"), args=[], keywords=[]),
}
COUNTED = frozenset({"list", "tuple", "set", "deque", "iter"})
STABLE = frozenset({"int", "bool", "str", "char"})
INSERT = "if k not in d: d[k] = v"


def stable_key(key: ast.expr, scope: Scope) -> bool:
    """Whether evaluating a key again, with nothing changed in between, gives the same key."""
    if isinstance(key, ast.Name | ast.Constant):
        return True
    if isinstance(key, ast.Tuple):
        return all(stable_key(e, scope) for e in key.elts)
    return scope.type_of(key) in STABLE and scope.effects(key).pure


def start_of_default(node: ast.expr, scope: Scope) -> ast.expr | None:
    """What `defaultdict(f)` puts under a missing key."""
    p = pieces("collections.defaultdict(f)", node)
    if p is None:
        return None
    q = pieces("lambda: x", p["f"])
    if q is None:
        return STARTS.get(scope.builtin(p["f"]))
    return next((s for s in STARTS.values() if same(s, q["x"])), None)


def countable(node: ast.expr, scope: Scope) -> bool:
    """A container that is not a dict: `Counter` counts its elements. A set that is written there would become
    what a loop goes through, which has another order."""
    t = scope.type_of(node)
    return is_str(t) or (kind(t) in COUNTED and not isinstance(node, ast.Set))


def counted(node: ast.expr, scope: Scope) -> ast.expr | None:
    """What `Counter(e)` counts: the elements of a container that is not a dict."""
    p = pieces("collections.Counter(e)", node)
    return p["e"] if p is not None and countable(p["e"], scope) else None


def get_entry(entry: ast.Subscript, start: ast.expr) -> ast.expr:
    return value("d.get(k, v)", d=entry.value, k=entry.slice, v=start)  # type: ignore[no-any-return]


def counting_loop(counts: Value, source: Value, item: str) -> list[ast.stmt]:
    """The statements that count elements in a new dict."""
    return made("d = {}\nfor c in e: d[c] = d.get(c, 0) + 1", c=item, e=source, d=counts)


def entry(d: str, k: str) -> Condition:
    """A dict under a plain name or attribute, and a key that can be evaluated again after its entry was
    stored. When the entry is stored is then the rule's business."""

    def holds(found: Found, where: Where) -> bool:
        held, key, scope = found[d], found[k], where.scope
        named = held.value if isinstance(held, ast.Attribute) else held
        if not isinstance(named, ast.Name) or kind(scope.type_of(held)) != "dict":  # type: ignore[arg-type]
            return False
        return stable_key(key, scope) and not disturbs(_stored(held, key, scope), scope.effects(key), scope)  # type: ignore[arg-type]

    words = f"`{d}` is a dict under a name or attribute; `{k}` has no effects and gives the same key again"
    return Condition(words, holds, own=frozenset({f"{d}[{k}]"}))


def _stored(d: object, k: object, scope: Scope) -> Effects:
    return scope.effects(made("d[k] = 0", d=d, k=k)[0].targets[0])  # type: ignore[attr-defined]


def unseen(item: str, d: str, k: str, whole: str = "") -> Condition:
    """What goes into an entry cannot tell that the entry was made before it, nor leave it behind by raising
    (nor can what is made of it)."""

    def holds(found: Found, where: Where) -> bool:
        scope, seen, held = where.scope, where.scope.effects(found[item]), found[d]
        if whole and int_value(found[item]) is not None:  # type: ignore[arg-type]
            return True
        if not seen.pure or disturbs(_stored(held, found[k], scope), seen, scope):
            return False
        mine = isinstance(held, ast.Name) and held.id in scope.owned
        if mine and where.place is not None and where.place.private(held.id):  # type: ignore[union-attr]
            return True
        return scope.effects(value(whole or item, **found)).total

    words = (
        f"`{item}` has no effects, reads nothing of `{d}`, and cannot raise where `{d}` outlives the function"
    )
    return Condition(words, holds)


def counts(name: str) -> Condition:
    return each("a container that is not a dict", (name,), lambda e, where: countable(e, where.scope))


def an_int(name: str) -> Condition:
    """Exactly an int: adding 0 to True would make it one."""
    return each("type int, not bool", (name,), lambda e, where: where.scope.type_of(e) == "int")


def lists_kept(d: str) -> Condition:
    """A local dict, empty at first, whose lists nobody gets but by getting the dict at the end."""

    def holds(found: Found, where: Where) -> bool:
        held, place = found[d], where.place
        if place is None or not isinstance(held, ast.Name) or held.id not in where.scope.owned:
            return False
        function = place.info.node
        parents = {id(c): x for x in walk(function) for c in children(x)}
        uses = [n for n in walk(function) if isinstance(n, ast.Name) and n.id == held.id]
        return place.private(held.id) and all(_keeps_lists(n, parents) for n in uses)

    return Condition(f"`{d}` is local, empty at first, and nobody has one of its lists", holds)


def _keeps_lists(use: ast.Name, parents: dict[int, ast.AST]) -> bool:
    """Whether a use of the dict neither hands out nor brings in one of its lists (but by returning it)."""
    here = parents.get(id(use))
    while here is not None and not isinstance(here, ast.stmt):
        here = parents.get(id(here))
    if isinstance(here, ast.Assign) and use in here.targets:
        return pieces("d = {}", here) is not None
    if isinstance(here, ast.Return) and here.value is use:
        return True
    p = first(here, "d[k] = d.get(k, []) + [x]", "d[k].append(x)", d=use)
    if p is not None:
        return not mentions([p["k"], p["x"]], {use.id})
    return pieces("d[k] = []", here, d=use) is not None
