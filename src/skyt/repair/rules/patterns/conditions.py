"""The vocabulary of conditions: what a rule may ask of the pieces that it matched, and of their place.

A condition is a function of what was matched and of the place, with words for people. There is no other way
for a rule in templates to look at the program.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import int_value, is_false, is_quantifier, is_true, leaves
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

    scope: Scope
    boolean: bool = False  # only the truth of the expression counts
    place: Place | None = None  # of a match of statements
    matched: Sequence[ast.stmt] = ()
    last: bool = False  # whether they are the last of their block

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
    inner: bool = False  # comprehensions may have more than one `for`: the rule is about the last


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
        inner=any(n.inner for n in needs),
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
    return not is_quantifier(e.values[-1] if isinstance(e, ast.BoolOp) else e)


integer = asking("type int", lambda e, w: is_int(w.scope.type_of(e)))
text = asking("type str", lambda e, w: is_str(w.scope.type_of(e)))
boolean = asking("type bool", lambda e, w: w.scope.type_of(e) == "bool")
immutable = asking("of immutable type", lambda e, w: w.scope.immutable(e))
sized = asking("a str or container", lambda e, w: _kind(e, w) in SIZED | {"str"})
number = asking("an integer constant", lambda e, w: int_value(e) is not None)
constant = asking("a positive integer constant", lambda e, w: (int_value(e) or 0) > 0)
not_constant = asking("not an integer constant", lambda e, w: int_value(e) is None)
plain = asking("a name or attribute", is_plain)
small = asking("short", lambda e, w: len(walk(e)) <= 20)
no_quantifier = asking("no `any` or `all` over a generator at its end", _no_quantifier)
leaving = asking("always leaves (return, raise, break, continue)", lambda b, w: leaves(b), "leaving")
running_on = asking("may run on to what follows", lambda b, w: not leaves(b))

truth_only = Condition("only the truth of the result counts", lambda found, w: w.boolean)
last_for = Condition("of several `for`s in a comprehension, the last", lambda found, w: True, inner=True)
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
    test = is_true if value else is_false
    asked = each(f"a constant that is {str(value).lower()}", (name,), lambda e, w: test(e))
    return replace(asked, known={name: value})


def instance(x: str, k: str, is_one: bool = True) -> Condition:
    """Whether a value of known type is of one of some built-in classes."""

    def holds(found: Found, w: Where) -> bool:
        classes: Any = found[k]
        t = _kind(found[x], w)  # type: ignore[arg-type]
        names = {w.scope.builtin(c) for c in (classes.elts if isinstance(classes, ast.Tuple) else [classes])}
        above = {t, "object", "int" if t == "bool" else t}
        if t not in CLASSES or "" in names:
            return False
        return bool(names & above) if is_one else names <= CLASSES - above

    return Condition(f"`{x}` is of {'a' if is_one else 'no'} class in `{k}`", holds)
