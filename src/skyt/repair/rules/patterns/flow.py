"""Conditions on where a piece of program stands, and on what its blocks do to its variables."""

from __future__ import annotations

import ast
from typing import Any

from skyt.repair.rules.analysis.effects import Effects, conflict, disturbs
from skyt.repair.rules.analysis.syntax import mentions, own_breaks, read_names, returns, stored_names
from skyt.repair.rules.analysis.trees import walk
from skyt.repair.rules.analysis.types import is_str
from skyt.repair.rules.patterns.conditions import Condition, Where, asking, is_plain, shown
from skyt.repair.rules.patterns.template import Found, value


def mine(e: ast.expr, where: Where) -> bool:
    """Whether this is a container that the function made and nobody else has."""
    return where.private(e) and e.id in where.scope.owned  # type: ignore[attr-defined]


def _returning(body: list[ast.stmt], w: Where) -> bool:
    return returns(body) and not own_breaks(body, (ast.Break, ast.Continue))


def _not_gone_through(e: ast.expr, where: Where) -> bool:
    """Else the loop would go on with the old list."""
    loops = [n for n in walk(where.place.info.node) if isinstance(n, ast.For)]  # type: ignore[union-attr]
    over = [n.body for n in loops if mentions(n.iter, read_names(e))]
    return not any(x is where.matched[0] for body in over for x in walk(body))


closed = asking("without variables", lambda e, w: not read_names(e))
known_empty = asking("known to be empty here", lambda e, w: w.scope.implied(e) is False)
owned = asking("a container that nobody else has", mine, "own")
local = asking("a local variable", lambda e, w: w.private(e), "own")  # storing it once more is not seen
not_gone_through = asking("not what a loop around goes through", _not_gone_through)
returning_always = asking("always leaves the function, never a loop around it", _returning, "leaving")
running_out = asking("does not always return", lambda b, w: not returns(b))
no_continue = asking("has no `continue`", lambda b, w: not own_breaks(b, (ast.Continue,)))
breaking = asking("has a `break`", lambda b, w: own_breaks(b))


def _ending(words: str, end: str) -> Condition:
    return Condition(words, lambda f, w: w.last and w.place is not None and w.place.end == end, end=end)


ends_round = _ending("at the end of a loop's body", "continue")
ends_function = _ending("at the end of a function", "return")


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


def apart(*names: str, of: str, within: tuple[type[ast.AST], ...] = ()) -> Condition:
    """Pieces in which a variable does not occur, or not in these parts of them."""

    def holds(found: Found, where: Where) -> bool:
        parts = [n for name in names for n in walk(found[name]) if not within or isinstance(n, within)]
        return not mentions(parts, {found[of].id})  # type: ignore[union-attr]

    kinds = "".join(f", in a {kind.__name__}" for kind in within)
    return Condition(f"{shown(names)}: without `{of}`{kinds}", holds)


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
        place: Any = found[target]
        if isinstance(place, ast.Subscript):
            key, place, scope = place.slice, place.value, where.scope
            equal = scope.type_of(key) in {"int", "bool", "str", "char"} and scope.effects(key).pure
            if not scope.effects(found[value]).pure or not (
                equal or isinstance(key, ast.Name | ast.Constant)
            ):
                return False
        return is_plain(place, where)

    return Condition(f"`{target}` is the same place after `{value}` was computed", holds)
