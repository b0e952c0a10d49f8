"""The rules, and the record of one application.

A rule is a function with the facts it needs, and the reason why it keeps behaviour. It gives another
expression, or list of statements, in the place of one, or changes the whole tree and says whether it did.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees import Shape, look

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.program import FunctionInfo
    from skyt.repair.rules.engine import Context

ExpressionRule = Callable[[Any, Scope, bool], ast.expr | None]
BlockRule = Callable[[list[ast.stmt], "Place"], list[ast.stmt] | None]
Kind = Literal["expression", "block", "module"]
F = TypeVar("F", bound=Callable[..., Any])
Example = tuple[str, str]  # facts (`n: int >= 0; s: str`), program


def example(given: str) -> Example:
    """Facts, which are the first line, and a program: the body alone stands for `def f` with their names."""
    facts, _, code = given.partition("\n")
    if "def f(" in code:
        return facts, code
    names = ", ".join(part.partition(":")[0].strip() for part in facts.split(";"))
    return facts, f"def f({names}):\n" + textwrap.indent(code, " ")


@dataclass(frozen=True, eq=False)
class Rule:
    """One rewriting rule, what its documentation says, and programs on which it fires and must not."""

    name: str
    shape: Kind
    needs: str
    sound: str
    apply: Callable[..., Any]
    looks: frozenset[object] = frozenset()  # kinds or shapes of nodes one of which it needs, if any
    phases: str = "1"  # 0 before the fixed point (of a block: before its insides), 1 inside it, 2 after it
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
        live = self.context.liveness(self.info.node)
        return live.after.get(id(s), frozenset()) | live.always

    def private(self, name: str) -> bool:
        """Whether a name is a local that no nested function sees."""
        return name not in self.context.liveness(self.info.node).always

    @cached_property
    def scope(self) -> Scope:
        """What holds at every statement of the block."""
        return self.start.quiet(self.body)

    @property
    def info(self) -> FunctionInfo:
        """The function around the block."""
        return self.start.info  # type: ignore[return-value]

    @cached_property
    def looks(self) -> list[tuple[Shape, Shape]]:
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
def finder(rules: tuple[Rule, ...]) -> Callable[[Kind, frozenset[object], str], list[Rule]]:
    """What finds the rules of a shape that have something to do with nodes of these kinds and shapes."""

    @cache
    def find(shape: Kind, seen: frozenset[object], phase: str) -> list[Rule]:
        able = [r for r in rules if r.shape == shape and phase in r.phases]
        return [r for r in able if not (r.looks and r.looks.isdisjoint(seen))]

    return find


def rule(
    shape: Kind, *nodes: type, needs: str, sound: str, fires: str, keeps: str, phases: str = "1"
) -> Callable[[F], F]:
    """What enters a function as a rule; `nodes`: kinds of which a block, or expression, must have one."""

    def register(f: F) -> F:
        about = (needs, sound, f, frozenset(nodes), phases, example(fires), example(keeps))
        RULES.append(Rule(f.__name__.replace("_", "-"), shape, *about, home=f.__module__))
        return f

    return register


expression, block, module = partial(rule, "expression"), partial(rule, "block"), partial(rule, "module")
