"""Repair: bring a program to the canon's text where that is shown to be the same program, else closer to it.

Bounded, monotone (the distance never rises; a step that raises it is undone), idempotent, and verified: no
repair changes what the oracle says of a program. The evidence is part of the result:

    identical    the normalised text was the canon's already
    rewritten    all three: the same normal form as the canon, the same verdict of the oracle, and no
                 difference from the canon on generated inputs and inputs made from both programs' constants
    equivalent   the last two without the first, both accepted by the oracle (opt-in)
    none         not canonical; a verified program at most as far from the canon is returned

Rules are believed only as far as the comparison bears them out: a pair with the same normal form that a call
tells apart is reported with that call, and the program stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from skyt.sandbox.results import outcome
from skyt.text.distance import Distance, Measured

MAX_ROUNDS = 6
NEARER_INPUTS = 100  # on which a program on the way is compared: it is no evidence, only nearer
MAX_RULES = 20  # distinct rules tried one by one in a round
Record = dict[str, Any]


@dataclass(frozen=True)
class Approach:
    """A program nearer to the canon, or the same one, and the rules that led to it."""

    text: str
    measured: Measured
    rules: tuple[str, ...] = ()


def approach(
    code: str, canon: str, rules: Iterable[str], distance: Distance, apply: Callable[[str, str], str]
) -> Approach:
    """One rule at a time: what brings the program closer to the canon stays, what does not is undone.

    `apply(code, rule)` is the program after that rule alone, as often as it fires.
    """
    best = Approach(code, distance(code, canon))
    for rule in list(dict.fromkeys(rules))[:MAX_RULES]:
        text = apply(best.text, rule)
        measured = distance(text, canon)
        if measured.d < best.measured.d:
            best = Approach(text, measured, (*best.rules, rule))
    return best


class Form(NamedTuple):
    """A normal form's text, the rule of each application that led to it, and why the rules gave up, if so."""

    text: str
    rules: Sequence[str] = ()
    failure: str = ""


class Tools(Protocol):
    """What repair asks of the rest of the system, for one contract."""

    @property
    def accepts_equivalent(self) -> bool:
        """Whether a comparison alone, without the same normal form, is evidence enough."""

    def normal_form(self, code: str) -> Form: ...

    def approach(self, code: str, canon: str) -> Approach:
        """The nearest program that single rules lead to (see `approach` below)."""

    def verdict(self, code: str) -> tuple[bool, str]:
        """Whether the oracle accepts a program, and a digest of everything it found."""

    def comparison(self, code: str, other: str, most: int | None = None) -> Record:
        """What running both programs on the same calls found (`equal`, `inputs`, `counterexample`, …); on at
        most so many generated inputs."""


@dataclass(frozen=True)
class Repair:
    """What became of one program. The last three fields are what the evidence rests on; None: not asked."""

    text: str
    d_before: float
    d_after: float
    evidence: str
    reason: str
    method: str = "exact"  # how the distances were measured
    steps: tuple[str, ...] = ()
    same_normal_form: bool | None = None
    same_verdict: bool | None = None
    comparison: Record | None = field(default=None, compare=False)

    @property
    def success(self) -> bool:
        return self.d_after == 0.0


def repair(code: str, canon: str, distance: Distance, tools: Tools) -> Repair:
    """Repair normalised `code` towards the normalised `canon`."""
    before = distance(code, canon)
    if code == canon:
        return Repair(code, 0.0, 0.0, "identical", "the normalised text is the canon's")
    start = Repair(code, before.d, before.d, "none", "", before.method)
    current = start
    for _ in range(MAX_ROUNDS):
        following = _round(current, start, canon, tools)
        if following.success or following.text in (current.text, code):
            return following
        current = following
    # Not settled within the bound: going on from the result would change it, so nothing is changed.
    return replace(start, reason=f"no fixed point within {MAX_ROUNDS} rounds; left as it was")


def _round(current: Repair, start: Repair, canon: str, tools: Tools) -> Repair:
    """One attempt from where repair has got to. What is compared with the canon is what it started from."""
    form, target = tools.normal_form(current.text), tools.normal_form(canon)
    accepted, findings = tools.verdict(current.text)
    canon_accepted, _ = tools.verdict(canon)
    same_form, same_verdict = form.text == target.text, accepted == canon_accepted
    current = replace(current, same_normal_form=same_form, same_verdict=same_verdict)
    differs = f"{'same' if same_form else 'other'} normal form {'as' if same_form else 'than'} the canon"
    if not same_form and (form.failure or target.failure):
        differs += _gave_up(form, target)
    if same_form and same_verdict:
        return _believed(current, start, canon, form.rules, tools)
    if same_form:
        differs += ", but the oracle tells them apart"
    if not accepted:
        differs += "; rejected by the oracle"
    elif canon_accepted and tools.accepts_equivalent:
        tested = tools.comparison(start.text, canon)
        current = replace(current, comparison=tested)
        if tested["equal"]:
            reason = f"no difference on {tested['inputs']} generated inputs{_weakness(tested)}"
            return _canonical(current, canon, "equivalent", reason, ("replace_by_canon",))
        differs += f"; {_difference(tested)}"
    return _closest(replace(current, reason=differs), start.text, findings, canon, tools)


def _believed(current: Repair, start: Repair, canon: str, rules: Sequence[str], tools: Tools) -> Repair:
    """The rules and the oracle see one program; the comparison decides whether that is believed."""
    tested = tools.comparison(start.text, canon)
    if tested["equal"]:
        reason = f"same normal form, same verdict, no difference on {tested['inputs']} inputs"
        return _canonical(replace(current, comparison=tested), canon, "rewritten", reason, rules)
    # A rule is wrong about one of the two programs, so no rule is believed about this one.
    return replace(
        start,
        reason=f"same normal form as the canon, but {_difference(tested)}",
        same_normal_form=True,
        same_verdict=True,
        comparison=tested,
    )


def _canonical(current: Repair, canon: str, evidence: str, reason: str, steps: Sequence[str]) -> Repair:
    return replace(
        current, text=canon, d_after=0.0, evidence=evidence, reason=reason, steps=(*current.steps, *steps)
    )


def _closest(current: Repair, original: str, findings: str, canon: str, tools: Tools) -> Repair:
    """The nearest program on the way, if the oracle finds of it exactly what it found of this one and no call
    tells it from the original."""
    near = tools.approach(current.text, canon)
    if near.measured.d >= current.d_after:
        return current
    arrived = near.measured.d == 0.0  # evidence, and not only a program on the way
    tested = tools.comparison(original, near.text, None if arrived else NEARER_INPUTS)
    if not tested["equal"] or tools.verdict(near.text)[1] != findings:
        return current
    closer = replace(
        current,
        text=near.text,
        d_after=near.measured.d,
        method=near.measured.method,
        steps=(*current.steps, *near.rules),
    )
    if not closer.success:
        return closer
    reason = f"the rules lead to the canon's text, same verdict, no difference on {tested['inputs']} inputs"
    return replace(closer, evidence="rewritten", reason=reason, same_normal_form=True, comparison=tested)


def _difference(tested: Record) -> str:
    """The refuting call, or what kept the comparison from a result, in words."""
    example = tested["counterexample"]
    if example is None:
        return f"{tested['undecided']} of {tested['inputs']} calls came to no comparable end"
    return f"{example['shown']} {outcome(example['program'])}; the canon {outcome(example['canon'])}"


def _weakness(tested: Record) -> str:
    """What the calls left unseen, if that is much."""
    if not tested.get("weak"):
        return ""
    branches = tested["branches"]
    return f" (weak: branches reached {branches['program']}, the canon {branches['canon']})"


def _gave_up(form: Form, target: Form) -> str:
    return f" ({form.failure})" if form.failure else f" (the canon: {target.failure})"
