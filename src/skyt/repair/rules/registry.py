"""The rules, and the record of one application.

A rule is a function with a name, the facts it needs, and the reason why it keeps behaviour. Three shapes:
- expression rules see one expression (its children done) and give another in its place;
- block rules see one list of statements and give another in its place;
- module rules change the whole tree and say whether they did.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, wraps
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees import Shape as NodeShape
from skyt.repair.rules.analysis.trees import look

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.program import FunctionInfo
    from skyt.repair.rules.engine.context import Context

ExpressionRule = Callable[[Any, Scope, bool], ast.expr | None]
BlockRule = Callable[[list[ast.stmt], "Place"], list[ast.stmt] | None]
StatementRule = Callable[[Any, "Place", int], list[ast.stmt] | None]
ModuleRule = Callable[["Context"], bool]
Shape = Literal["expression", "block", "module"]
Example = tuple[str, str]  # facts (`n: int >= 0; s: str`), program


class About(TypedDict):
    """What a rule says of itself: the facts it needs, why it keeps behaviour, a program on which it fires,
    and one on which it must not."""

    needs: str
    sound: str
    fires: str
    keeps: str


def example(given: str) -> Example:
    """Facts, which are the first line, and a program: the body alone stands for `def f` with their names."""
    facts, _, code = given.partition("\n")
    if "def f(" in code:
        return facts, code
    names = ", ".join(part.partition(":")[0].strip() for part in facts.split(";"))
    return facts, f"def f({names}):\n" + textwrap.indent(code, " ")


@dataclass(frozen=True, eq=False)
class Rule:
    """One rewriting rule, with what its documentation says, a program on which it fires, and one on which it
    must not."""

    name: str
    shape: Shape
    needs: str
    sound: str
    apply: Callable[..., Any]
    looks: frozenset[object] = frozenset()  # kinds or shapes of nodes one of which it needs, if any
    phase: int = 1
    again: bool = False  # a rule of phase 0 that every round applies too
    fires: Example = ("", "")
    keeps: Example = ("", "")
    home: str = ""  # the module that has it
    forms: tuple[tuple[str, str], ...] = ()  # templates before and after, where the rule is written in them


@dataclass(frozen=True)
class Applied:
    """One application of a rule: the text before and after, of the piece it changed."""

    rule: str
    before: str
    after: str


@dataclass
class Place:
    """Where a block stands: its scope, what encloses it, and what is live after its statements."""

    body: list[ast.stmt]
    start: Scope
    context: Context
    end: str  # running off its end is a `return` of None from the function, or a `continue`
    _scopes: list[Scope] = field(default_factory=list)  # before each statement, as far as asked for

    def live_at(self, s: ast.stmt) -> frozenset[str]:
        """The variables that may be read after a statement."""
        return self.context.liveness(self.info.node).live_after(s)

    def private(self, name: str) -> bool:
        """Whether a name is a local that no nested function sees."""
        return name not in self.context.liveness(self.info.node).always

    @cached_property
    def live_out(self) -> frozenset[str]:
        return self.live_at(self.body[-1])

    @cached_property
    def scope(self) -> Scope:
        """What holds at every statement of the block."""
        return self.start.within(self.body)

    @property
    def info(self) -> FunctionInfo:
        """The function around the block."""
        return self.start.info  # type: ignore[return-value]

    @cached_property
    def looks(self) -> list[tuple[NodeShape, NodeShape]]:
        """How each statement looks."""
        return [look(s) for s in self.body]

    def before(self, index: int) -> Scope:
        """The scope just before the statement at this index of the block."""
        scopes = self._scopes or [self.start]
        while len(scopes) <= index:
            scopes.append(scopes[-1].after(self.body[len(scopes) - 1]))
        self._scopes = scopes
        return scopes[index]


RULES: list[Rule] = []


@lru_cache(maxsize=4)
def finder(rules: tuple[Rule, ...]) -> Callable[[Shape, frozenset[object]], list[Rule]]:
    """What finds the rules of a shape that have something to do with nodes of these kinds and shapes."""

    @cache
    def find(shape: Shape, seen: frozenset[object]) -> list[Rule]:
        return [r for r in rules if r.shape == shape and not (r.looks and r.looks.isdisjoint(seen))]

    return find


def _registers(
    shape: Shape, nodes: tuple[type, ...], about: About, phase: int = 1, again: bool = False
) -> Callable[[Any], Any]:
    """What enters a function as a rule of this shape, and gives it back."""

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        shown = {**about, "fires": example(about["fires"]), "keeps": example(about["keeps"])}
        made = {"phase": phase, "again": again, "home": f.__module__, "name": f.__name__.replace("_", "-")}
        RULES.append(Rule(shape=shape, apply=f, looks=frozenset(nodes), **made, **shown))  # type: ignore[arg-type]
        return f

    return register


def expression(*nodes: type, **about: Unpack[About]) -> Callable[[ExpressionRule], ExpressionRule]:
    """A rule for expressions of these kinds."""
    return _registers("expression", nodes, about)


def block(*statements: type, **about: Unpack[About]) -> Callable[[BlockRule], BlockRule]:
    """`statements` are kinds of which a block must have one for the rule to have something to do."""
    return _registers("block", statements, about)


def statement(*statements: type, **about: Unpack[About]) -> Callable[[StatementRule], BlockRule]:
    """A block rule that puts statements in the place of one: it sees the statement, the place of its block,
    and its index there."""

    def register(f: StatementRule) -> BlockRule:
        @wraps(f)
        def apply(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
            for i, s in enumerate(body):
                new = f(s, place, i)
                if new is not None:
                    return [*body[:i], *new, *body[i + 1 :]]
            return None

        return block(*statements, **about)(apply)

    return register


def module(
    *, phase: int = 1, again: bool = False, **about: Unpack[About]
) -> Callable[[ModuleRule], ModuleRule]:
    """`phase` 0 runs once before the fixed point (and inside it too with `again`), 1 inside, 2 once after."""
    return _registers("module", (), about, phase, again)
