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
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

from skyt.repair.rules.analysis.scope import Scope

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.functions import FunctionInfo
    from skyt.repair.rules.engine.context import Context


ExpressionRule = Callable[[Any, Scope, bool], ast.expr | None]


BlockRule = Callable[[list[ast.stmt], "Place"], list[ast.stmt] | None]


StatementRule = Callable[[Any, "Place", int], list[ast.stmt] | None]
ModuleRule = Callable[["Context"], bool]


Example = tuple[str, str]  # facts (`n: int >= 0; s: str`), program (or the body of f alone)


def example(given: Example) -> Example:
    """An example whose program is spelled out: the body alone stands for `def f` with the facts' names."""
    facts, code = given
    if "def f(" in code:
        return given
    names = ", ".join(part.partition(":")[0].strip() for part in facts.split(";"))
    return facts, f"def f({names}):\n" + textwrap.indent(code, " ")


@dataclass(frozen=True)
class Rule:
    """One rewriting rule, with what its documentation says, a program on which it fires, and one on which it
    must not."""

    name: str
    shape: Literal["expression", "block", "module"]
    needs: str
    sound: str
    apply: Callable[..., Any]
    nodes: tuple[type, ...] = ()
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
    """Where a block stands: its scope, what encloses it, and what is live after it."""

    start: Scope
    context: Context
    live_out: frozenset[str]
    in_loop: bool
    tail: bool  # running off the end of this block is returning None from the function
    live_at: Callable[[ast.stmt], frozenset[str]]
    loop_tail: bool  # running off the end of this block starts the loop's next round
    scopes: list[Scope]  # the scope before each statement, as far as asked for
    follow: Callable[[ast.stmt, Scope], Scope]
    body: list[ast.stmt]
    _whole: Scope | None = None

    @property
    def scope(self) -> Scope:
        """What holds at every statement of the block."""
        if self._whole is None:
            self._whole = self.start.within(self.body)
        return self._whole

    @property
    def info(self) -> FunctionInfo:
        """The function around the block."""
        return self.start.info  # type: ignore[return-value]

    def before(self, index: int) -> Scope:
        """The scope just before the statement at this index of the block."""
        while len(self.scopes) <= index:
            self.scopes.append(self.follow(self.body[len(self.scopes) - 1], self.scopes[-1]))
        return self.scopes[index]


RULES: list[Rule] = []


def expression(
    *nodes: type, needs: str, sound: str, fires: Example, keeps: Example
) -> Callable[[ExpressionRule], ExpressionRule]:
    def register(f: ExpressionRule) -> ExpressionRule:
        RULES.append(_rule(f, "expression", needs, sound, fires, keeps, nodes))
        return f

    return register


def block(
    *statements: type, needs: str, sound: str, fires: Example, keeps: Example
) -> Callable[[BlockRule], BlockRule]:
    """`statements` are kinds of which a block must have one for the rule to have something to do."""

    def register(f: BlockRule) -> BlockRule:
        RULES.append(_rule(f, "block", needs, sound, fires, keeps, statements))
        return f

    return register


def statement(
    *statements: type, needs: str, sound: str, fires: Example, keeps: Example
) -> Callable[[StatementRule], StatementRule]:
    """A block rule that puts statements in the place of one: it sees the statement, the place of its block,
    and its index there."""

    def register(f: StatementRule) -> StatementRule:
        @wraps(f)
        def apply(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
            for i, s in enumerate(body):
                new = f(s, place, i)
                if new is not None:
                    return [*body[:i], *new, *body[i + 1 :]]
            return None

        RULES.append(_rule(apply, "block", needs, sound, fires, keeps, statements))
        return f

    return register


def module(
    *, needs: str, sound: str, fires: Example, keeps: Example, phase: int = 1, again: bool = False
) -> Callable[[ModuleRule], ModuleRule]:
    """`phase` 0 runs once before the fixed point (and inside it too with `again`), 1 inside, 2 once after."""

    def register(f: ModuleRule) -> ModuleRule:
        RULES.append(_rule(f, "module", needs, sound, fires, keeps, phase=phase, again=again))
        return f

    return register


def _rule(
    f: Callable[..., Any],
    shape: Literal["expression", "block", "module"],
    needs: str,
    sound: str,
    fires: Example,
    keeps: Example,
    nodes: tuple[type, ...] = (),
    phase: int = 1,
    again: bool = False,
) -> Rule:
    name = f.__name__.replace("_", "-")
    return Rule(
        name, shape, needs, sound, f, nodes, phase, again, example(fires), example(keeps), f.__module__
    )
