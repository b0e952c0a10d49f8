"""The engine: apply rules until none fires, with a bound, and keep the trace.

One round walks every function once, innermost first: expression rules on each expression with the conditions
known there, then block rules on each list of statements, then module rules. Rounds repeat until nothing
changes.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from skyt.repair.rules.analysis.language import before_cleaning, beyond, reflective
from skyt.repair.rules.analysis.reach import Reach, unbound_name
from skyt.repair.rules.analysis.scope import MODULES
from skyt.repair.rules.analysis.syntax import bound_anywhere, read_names
from skyt.repair.rules.analysis.trees import bare, text, walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.engine.walker import Walker, verified
from skyt.repair.rules.facts import Facts
from skyt.repair.rules.registry import RULES, Applied, Rule
from skyt.text.normalise import normalise
from skyt.text.parsing import parse, why_not_compiled

MAX_ROUNDS = 40
MAX_NODES = 1000  # three times the largest program of the recordings


@dataclass(frozen=True)
class NormalForm:
    """The normal form of a program.

    `complete` is False where the engine gave up: text that is not Python, a program beyond the size limit,
    or a bound reached. The text is then what normalisation or the last complete round gave.
    """

    text: str
    trace: tuple[Applied, ...] = ()
    complete: bool = True
    failure: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules applied, in order, without repeats."""
        return tuple(dict.fromkeys(a.rule for a in self.trace))


def normal_form(
    code: str, facts: Facts, rules: Sequence[Rule] | None = None, steps: bool = False
) -> NormalForm:
    """Bring a program to its normal form under the facts. Deterministic, idempotent, never raises.

    `rules` replaces the registered ones (used to measure one rule, or to shuffle their order). With `steps`
    the trace has the texts before and after each application.
    """
    plain = normalise(code)

    def failed(why: str, text: str = plain.text) -> NormalForm:
        return NormalForm(text, complete=False, failure=why)

    if not plain.parsed:
        return failed(plain.problem)
    try:
        tree = parse(plain.text)
        if problem := why_not_compiled(tree):
            return failed(f"not Python: {problem}")
        nodes = len(walk(bare(tree)))
        if nodes > MAX_NODES:
            return failed(f"{nodes:,} nodes; the rules take at most {MAX_NODES:,}")
        form = _run(Context(tree, facts, RULES if rules is None else rules, steps))
        problem = why_not_compiled(form.text)
        return failed(f"the rules lead to what is not Python: {problem}") if problem else form
    except BeyondError as error:  # normalisation drops what `__doc__` shows
        return failed(str(error), code if "__doc__" in code else plain.text)
    except Exception as error:
        # A defect of a rule must not take a measurement down: the program keeps its normalised text, the
        # failure is on the record, and the tests hold that no program of the development data gets here.
        return failed(f"{type(error).__name__}: {error}")


class BeyondError(Exception):
    """The program uses something that the rules do not know, and keeps its text."""


def _clean(context: Context) -> None:
    """Bring a program into the language of the rules; BeyondError if it cannot be."""
    tree, name = context.tree, context.facts.name
    defined = any(getattr(s, "name", None) == name for s in tree.body)
    kept = Reach(tree, name).kept if defined and len(tree.body) > 1 else tree.body
    why = reflective(tree) or before_cleaning(kept)
    if why is None:
        _apply_modules(context, "0")
        why = beyond(context.tree)
    if why is not None:
        raise BeyondError(f"{why} is beyond the rules")
    if (local := unbound_name(context.tree)) is not None:
        raise BeyondError(f"{local} may be read before it has a value")


def _run(context: Context) -> NormalForm:
    facts, complete = context.facts, True
    _clean(context)
    for _ in range(MAX_ROUNDS):
        if context.facts is not facts or not context.rounds:
            # What could not be shown of the program as it was written may be plain in its present form.
            context.assume(facts)
            context.assume(verified(context))
        context.rounds += 1
        if not _round(context):
            break
    else:
        complete = False
    _apply_modules(context, "2")
    _import_missing(context.tree)
    failure = "" if complete else f"not settled within {MAX_ROUNDS} rounds"
    return NormalForm(text(context.tree), tuple(context.trace), complete, failure)


def _import_missing(tree: ast.Module) -> None:
    """Import what a rule has named (`math.isqrt`) and the program had not."""
    missing = sorted((read_names(tree) & MODULES).difference(bound_anywhere(tree)))
    tree.body[:0] = [ast.Import(names=[ast.alias(name=name)]) for name in missing]


def _round(context: Context) -> bool:
    before = len(context.trace)
    for info in list(context.program.functions.values()):
        if context.settled(id(info.node)):
            continue
        count = len(context.trace)
        Walker(context, info).function()
        if len(context.trace) != count:
            context.changed()
        else:
            context.settle(id(info.node))
    _apply_modules(context, "1")
    return len(context.trace) != before


def _apply_modules(context: Context, phase: str) -> None:
    for rule in context.rules:
        if rule.shape != "module" or phase not in rule.phases or context.settled((rule.name, phase)):
            continue
        count = len(context.trace)
        if not rule.apply(context):
            context.settle((rule.name, phase))
            continue
        context.changed()
        if len(context.trace) == count:
            raise AssertionError(f"{rule.name} changed the program without a record")
