"""Conditions on where a piece of program stands, and on what its blocks do to its variables."""

from __future__ import annotations

import ast
from dataclasses import replace

from skyt.repair.rules.analysis.effects import Effects, conflict, disturbs
from skyt.repair.rules.analysis.syntax import (
    count_reads,
    mentions,
    own_breaks,
    read_names,
    returns,
    stored_names,
)
from skyt.repair.rules.analysis.trees import walk
from skyt.repair.rules.analysis.types import is_str
from skyt.repair.rules.patterns.conditions import Condition, Where, asking, asking_blocks, each, shown
from skyt.repair.rules.patterns.template import Found, value

closed = asking("without variables", lambda e, w: not read_names(e))
known_empty = asking("known to be empty here", lambda e, w: w.scope.implied(e) is False)
no_continue = asking_blocks("has no `continue`", lambda body: not own_breaks(body, (ast.Continue,)))
running_out = asking_blocks("does not always return", lambda body: not returns(body))
breaking = asking_blocks("has a `break`", own_breaks)
_returning = asking_blocks(
    "always leaves the function", lambda b: returns(b) and not own_breaks(b, (ast.Break, ast.Continue))
)


def returning_always(name: str) -> Condition:
    """A block that leaves the function, never the loop around it."""
    return replace(_returning(name), leaving=frozenset({name}))


def own(*names: str) -> Condition:
    """Variables that nothing else sees: what they hold is the rule's business alone."""

    def holds(found: Found, where: Where) -> bool:
        after = where.place.live_at(where.matched[-1]) if where.place is not None else ()
        blocks = [piece for piece in found.values() if isinstance(piece, list)]
        variables = [p.id for p in found.values() if isinstance(p, ast.Name)]
        for name in names:
            e = found.get(name)
            if not isinstance(e, ast.Name) or not where.private(e) or e.id in after:
                return False
            if variables.count(e.id) > 1 or any(e.id in stored_names(b) for b in blocks):
                return False
        return True

    words = f"{shown(names)}: a local that only the template assigns, not read afterwards"
    return Condition(words, holds, own=frozenset(names))


def mine(e: ast.expr, where: Where) -> bool:
    """Whether this is a container that the function made and nobody else has."""
    return where.private(e) and e.id in where.scope.owned  # type: ignore[attr-defined]


def owned(name: str) -> Condition:
    return replace(each("a container that nobody else has", (name,), mine), own=frozenset({name}))


def local(*names: str) -> Condition:
    """Variables that no nested function sees, so that nobody can tell whether they are stored once more."""
    return replace(each("a local variable", names, lambda e, w: w.private(e)), own=frozenset(names))


def not_gone_through(name: str) -> Condition:
    """No loop around this goes through the list: it would go on with the old one."""

    def test(e: ast.expr, where: Where) -> bool:
        loops = [n for n in walk(where.place.info.node) if isinstance(n, ast.For)]  # type: ignore[union-attr]
        over = [n for n in loops if mentions(n.iter, read_names(e))]
        return not any(x is where.matched[0] for n in over for x in walk(n.body))

    return each("not what a loop around goes through", (name,), test)


def unchanged(*names: str, by: str) -> Condition:
    """Variables that a block neither assigns nor, where they hold a container, changes."""

    def holds(found: Found, where: Where) -> bool:
        done = where.scope.effects(found[by])
        for name in names:
            held = found[name]
            if not isinstance(held, ast.Name) or held.id in stored_names(found[by]):
                return False
            read = set() if is_str(where.scope.type_of(held)) else {held.id}
            if disturbs(done, Effects(heap_reads=read), where.scope):
                return False
        return True

    return Condition(f"{shown(names)}: a name that `{by}` does not change", holds)


def apart(*names: str, of: str) -> Condition:
    """Pieces in which a variable does not occur."""
    return Condition(
        f"{shown(names)}: without `{of}`",
        lambda found, where: not any(mentions(found[n], read_names(found[of])) for n in names),
    )


def never_read(name: str, by: str) -> Condition:
    return Condition(
        f"`{by}` does not read `{name}`",
        lambda found, where: not count_reads(found[by], found[name].id),  # type: ignore[union-attr]
    )


def not_kept(name: str, by: str) -> Condition:
    """No generator of a block keeps the variable for later."""

    def holds(found: Found, where: Where) -> bool:
        later = [n for n in walk(found[by]) if isinstance(n, ast.GeneratorExp)]
        return not mentions(later, read_names(found[name]))

    return Condition(f"no generator of `{by}` has `{name}`", holds)


def _ending(words: str, end: str) -> Condition:
    return Condition(words, lambda f, w: w.last and w.place is not None and w.place.end == end, end=end)


ends_round = _ending("at the end of a loop's body", "continue")
ends_function = _ending("at the end of a function", "return")


def one_by_one(made: str, target: str, body: str) -> Condition:
    """Elements of a list can be made one by one between the rounds of a loop: they have no effects, the
    rounds do not change what they read, and what the rounds have done cannot be seen where making an element
    raises."""

    def holds(found: Found, where: Where) -> bool:
        scope = where.scope
        seen, done = scope.effects(value(made, **found)), Effects(writes=stored_names(found[target]))
        done.include(scope.effects(found[body]))
        if not seen.pure or disturbs(done, seen, scope):
            return False
        return not seen.raises or not conflict(seen, done, scope)

    return Condition(f"`{made}` has no effects and reads nothing that `{body}` changes", holds, lazily=True)


def unseen(prefix: str) -> Condition:
    """Places to store into, by how their names begin, that nobody looks at in between: locals that no nested
    function sees, or parts of objects, about which effects know."""

    def holds(found: Found, where: Where) -> bool:
        places = [e for name, e in found.items() if name.startswith(prefix)]
        return all(isinstance(e, ast.Attribute | ast.Subscript) or where.private(e) for e in places)

    return Condition(f"each `{prefix}` is a local, an attribute or an entry", holds)


def settled(target: str, value: str) -> Condition:
    """A place to store into that is found again after a value was computed: a variable, an attribute of one,
    or an entry of either whose key is a variable, a constant, or without effects and of a type of which equal
    values are one key."""

    def holds(found: Found, where: Where) -> bool:
        place, key = found[target], None
        if isinstance(place, ast.Subscript):
            key, place = place.slice, place.value
            if not where.scope.effects(found[value]).pure:
                return False
        owner = place.value if isinstance(place, ast.Attribute) else place
        if key is None or isinstance(key, ast.Name | ast.Constant):
            return isinstance(owner, ast.Name)
        equal = where.scope.type_of(key) in {"int", "bool", "str", "char"} and where.scope.effects(key).pure
        return isinstance(owner, ast.Name) and equal

    return Condition(f"`{target}` is the same place after `{value}` was computed", holds)
