"""When a rule applies: what it may ask of the pieces that it matched, of their place, and of its variables.

A condition is a function of these, with words for people: templates look at the program in no other way.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from skyt.repair.rules.analysis import syntax
from skyt.repair.rules.analysis.effects import Effects, conflict, disturbs
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees import walk, words
from skyt.repair.rules.analysis.types import SIZED, is_int, is_str, kind
from skyt.repair.rules.analysis.types import ordered as in_order
from skyt.repair.rules.patterns.template import Found, value

if TYPE_CHECKING:
    from skyt.repair.rules.registry import Place

CLASSES = words("int str list float bool dict set tuple")


@dataclass(frozen=True)
class Where:
    """The place of a match."""

    find_scope: Callable[[], Scope]
    boolean: bool = False  # only the truth of the expression counts
    place: Place | None = None  # of a match of statements
    matched: Sequence[ast.stmt] = ()
    last: bool = False  # whether they are the last of their block

    @cached_property
    def scope(self) -> Scope:
        """What is known there; found when the first condition asks, as most matches fail before."""
        return self.find_scope()

    def private(self, e: object) -> bool:
        """Whether something is a local variable that no nested function sees."""
        return isinstance(e, ast.Name) and self.place is not None and self.place.private(e.id)

    def name(self, base: str, found: Found) -> str:
        """A name that occurs nowhere in the program, nor in what was matched."""
        if self.place is not None:
            return self.place.context.name(base)
        return self.scope.fresh([e for e in found.values() if isinstance(e, ast.expr)])


@dataclass(frozen=True)
class Condition:
    """What must hold, and what that says about how the templates of a rule run."""

    words: str
    holds: Callable[[Found, Where], bool]
    leaving: frozenset[str] = frozenset()  # blocks that control never runs out of
    known: Mapping[str, bool] = field(default_factory=dict)  # names that are always true, or false
    own: frozenset[str] = frozenset()  # variables, or entries (`d[k]`), that are the rule's business alone
    end: str = ""  # what happens at the end of the block anyway
    lazily: bool = False  # elements of a list can be made when a loop asks for them
    jumps: frozenset[tuple[str, str]] = frozenset()  # (block, `break` or `continue` that it has)


def together(needs: Sequence[Condition]) -> Condition:
    """All of some conditions."""
    return Condition(
        "; ".join(n.words for n in needs),
        lambda found, where: all(n.holds(found, where) for n in needs),
        frozenset[str]().union(*(n.leaving for n in needs)),
        {name: value for n in needs for name, value in n.known.items()},
        frozenset[str]().union(*(n.own for n in needs)),
        "".join({n.end for n in needs}),
        any(n.lazily for n in needs),
    )


def each(words: str, names: Sequence[str], test: Callable[[Any, Where], object]) -> Condition:
    """A condition on each of some names, or on what is made of them (`len(x) - k`)."""

    def holds(found: Found, where: Where) -> bool:
        return all(test(found[n] if n in found else value(n, **found), where) for n in names)

    return Condition(f"{shown(names)}: {words}", holds)


def asking(words: str, test: Callable[[Any, Where], object], says: str = "") -> Callable[..., Condition]:
    """What asks one thing of every name that it is given: `integer("a", "b")`. Where it holds it may say
    something about the names (see Condition)."""

    def asked(*names: str) -> Condition:
        said: dict[str, Any] = {says: frozenset(names)} if says else {}
        return replace(each(words, names, test), **said)

    return asked


def shown(names: Sequence[str]) -> str:
    return " and ".join(f"`{n}`" for n in names)


def _kind(e: ast.expr, w: Where) -> str:
    t = w.scope.type_of(e)
    return "str" if is_str(t) else kind(t)


def is_plain(e: ast.expr, w: Where) -> bool:
    return isinstance(e.value if isinstance(e, ast.Attribute) else e, ast.Name)


def _no_quantifier(e: ast.expr, w: Where) -> bool:
    """Not `any` or `all` over a generator, which are loops in disguise: see expand-quantifier."""
    return not syntax.is_quantifier(e.values[-1] if isinstance(e, ast.BoolOp) else e)


integer = asking("type int", lambda e, w: is_int(w.scope.type_of(e)))
text = asking("type str", lambda e, w: is_str(w.scope.type_of(e)))
boolean = asking("type bool", lambda e, w: w.scope.type_of(e) == "bool")
immutable = asking("of immutable type", lambda e, w: w.scope.immutable(e))
sized = asking("a str or container", lambda e, w: _kind(e, w) in SIZED | {"str"})
number = asking("an integer constant", lambda e, w: syntax.int_value(e) is not None)
constant = asking("a positive integer constant", lambda e, w: (syntax.int_value(e) or 0) > 0)
not_constant = asking("not an integer constant", lambda e, w: syntax.int_value(e) is None)
plain = asking("a name or attribute", is_plain)
small = asking("short", lambda e, w: len(walk(e)) <= 20)
no_quantifier = asking("no `any` or `all` over a generator at its end", _no_quantifier)
leaving = asking("always leaves (return, raise, break, continue)", lambda b, w: syntax.leaves(b), "leaving")
running_on = asking("may run on to what follows", lambda b, w: not syntax.leaves(b))

truth_only = Condition("only the truth of the result counts", lambda found, w: w.boolean)
values_shared = Condition(
    "no function of the program changes an object that is not its own", lambda found, w: w.scope.values_shared
)
domain_only = Condition(
    "nothing is promised outside the domain", lambda found, w: w.scope.program.facts.out_of_domain_free
)


def of_kind(kinds: str, *names: str) -> Condition:
    """Of one of these built-in types: `of_kind("list set", "x")`."""
    wanted = frozenset(kinds.split())
    return each("type " + " or ".join(sorted(wanted)), names, lambda e, w: _kind(e, w) in wanted)


def at_least(low: int, *names: str) -> Condition:
    return each(f"an int of at least {low}", names, lambda e, w: w.scope.at_least(low, e))


def at_most(high: int, *names: str) -> Condition:
    return each(f"an int of at most {high}", names, lambda e, w: w.scope.at_most(high, e))


def ordered(a: str, b: str) -> Condition:
    return Condition(
        f"`{a}` and `{b}` are both int, or both str",
        lambda found, w: in_order(w.scope.type_of(found[a]), w.scope.type_of(found[b])),  # type: ignore[arg-type]
    )


def always(value: bool, name: str) -> Condition:
    """A condition that is the constant True, or False."""
    said = f"a constant that is {str(value).lower()}"
    asked = each(said, (name,), lambda e, w: isinstance(e, ast.Constant) and bool(e.value) is value)
    return replace(asked, known={name: value})


def instance(x: str, k: str, is_one: bool = True) -> Condition:
    """Whether a value of known type is of one of some built-in classes."""

    def holds(found: Found, w: Where) -> bool:
        classes: Any = found[k]
        t = _kind(found[x], w)  # type: ignore[arg-type]
        names = {getattr(c, "id", "") for c in getattr(classes, "elts", [classes])}
        above = {t, "object", "int" if t == "bool" else t}
        if t not in CLASSES or "" in names:
            return False
        return bool(names & above) if is_one else names <= CLASSES - above

    return Condition(f"`{x}` is of {'a' if is_one else 'no'} class in `{k}`", holds)


def mine(e: ast.expr, where: Where) -> bool:
    """Whether this is a container that the function made and nobody else has."""
    return where.private(e) and e.id in where.scope.owned  # type: ignore[attr-defined]


def _returning(body: list[ast.stmt], w: Where) -> bool:
    return syntax.returns(body) and not syntax.own_breaks(body, (ast.Break, ast.Continue))


def _not_gone_through(e: ast.expr, where: Where) -> bool:
    """Else the loop would go on with the old list."""
    loops = [n for n in walk(where.place.info.node) if isinstance(n, ast.For)]  # type: ignore[union-attr]
    over = [n.body for n in loops if syntax.mentions(n.iter, syntax.read_names(e))]
    return not any(x is where.matched[0] for body in over for x in walk(body))


closed = asking("without variables", lambda e, w: not syntax.read_names(e))
known_empty = asking("known to be empty here", lambda e, w: w.scope.implied(e) is False)
owned = asking("a container that nobody else has", mine, "own")
local = asking("a local variable", lambda e, w: w.private(e), "own")  # storing it once more is not seen
not_gone_through = asking("not what a loop around goes through", _not_gone_through)
returning_always = asking("always leaves the function, never a loop around it", _returning, "leaving")
running_out = asking("does not always return", lambda b, w: not syntax.returns(b))
no_continue = asking("has no `continue`", lambda b, w: not syntax.own_breaks(b, (ast.Continue,)))
breaking = asking("has a `break`", lambda b, w: syntax.own_breaks(b))


def _ending(words: str, end: str) -> Condition:
    return Condition(words, lambda f, w: w.last and w.place is not None and w.place.end == end, end=end)


ends_round = _ending("at the end of a loop's body", "continue")
ends_function = _ending("at the end of a function", "return")


def own(*names: str) -> Condition:
    """Variables that nothing else sees: what they hold is the rule's business alone."""

    def holds(found: Found, where: Where) -> bool:
        ends: Any = [*where.matched[-1:], *syntax.own_breaks(where.matched, (ast.Break, ast.Continue))]
        after = {n for s in ends for n in where.place.live_at(s)} if where.place is not None else set[str]()
        blocks = [piece for piece in found.values() if isinstance(piece, list)]
        variables = [p.id for p in found.values() if isinstance(p, ast.Name)]
        for name in names:
            e = found.get(name)
            if not isinstance(e, ast.Name) or not where.private(e) or e.id in after:
                return False
            if variables.count(e.id) > 1 or any(e.id in syntax.stored_names(b) for b in blocks):
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
            if not isinstance(held, ast.Name) or held.id in syntax.stored_names(found[by]):
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
        return not syntax.mentions(parts, {found[of].id})  # type: ignore[union-attr]

    kinds = "".join(f", in a {kind.__name__}" for kind in within)
    return Condition(f"{shown(names)}: without `{of}`{kinds}", holds)


def one_by_one(made: str, target: str, body: str) -> Condition:
    """Elements of a list can be made one by one between the rounds of a loop: they have no effects, the
    rounds do not change what they read, and what the rounds have done cannot be seen where making an element
    raises."""

    def holds(found: Found, where: Where) -> bool:
        scope = where.scope
        seen, done = scope.effects(value(made, **found)), Effects(writes=syntax.stored_names(found[target]))
        done.include(scope.effects(found[body]))
        done.fails(not isinstance(found[target], ast.Name))  # unpacking
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


def stable_key(key: ast.expr, scope: Scope) -> bool:
    """Whether evaluating a key again, with nothing changed in between, gives the same key."""
    return all(
        isinstance(e, ast.Name | ast.Constant)
        or (scope.type_of(e) in {"int", "bool", "str", "char"} and scope.effects(e).pure)
        for e in (key.elts if isinstance(key, ast.Tuple) else [key])
    )


def settled(target: str, value: str) -> Condition:
    """A place to store into that is found again after a value was computed: a variable, an attribute of one,
    or an entry of either under a key that is the same again."""

    def holds(found: Found, where: Where) -> bool:
        place: Any = found[target]
        if isinstance(place, ast.Subscript):
            if not where.scope.effects(found[value]).pure or not stable_key(place.slice, where.scope):
                return False
            place = place.value
        return is_plain(place, where)

    return Condition(f"`{target}` is the same place after `{value}` was computed", holds)
