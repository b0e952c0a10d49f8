"""Repair: bring a program to the canon's text where that is shown to be the same program, else closer to it.

Bounded, monotone (the distance never rises; a step that raises it is undone), idempotent, and verified: no
repair changes what the oracle says of a program. The evidence is part of the result:

    identical    the normalised text was the canon's already
    rewritten    both have the same normal form under rules that keep behaviour by construction
    equivalent   another program that no oracle case and no generated input tells from the canon (opt-in)
    none         not canonical; a verified program at most as far from the canon is returned
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from skyt.text.distance import Distance, Measured

MAX_ROUNDS = 6
MAX_RULES = 20  # distinct rules tried one by one in a round


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


class Tools(Protocol):
    """What repair asks of the rest of the system, for one contract."""

    def normal_form(self, code: str) -> tuple[str, Sequence[str]]:
        """The normal form's text, and the name of the rule of each application that led to it."""

    def approach(self, code: str, canon: str) -> Approach:
        """The nearest program that single rules lead to (see `approach` below)."""

    def verdict(self, code: str) -> tuple[bool, str]:
        """Whether the oracle accepts a program, and a digest of everything it found."""

    def equivalence(self, code: str, canon: str) -> dict[str, Any] | None:
        """What differential testing found (`equal`, `inputs`, …), or None where it was not asked for."""


@dataclass(frozen=True)
class Repair:
    """What became of one program."""

    text: str
    d_before: float
    d_after: float
    evidence: str
    reason: str
    method: str = "exact"  # how the distances were measured
    steps: tuple[str, ...] = ()
    equivalence: dict[str, Any] | None = field(default=None, compare=False)

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
        following = _round(current, canon, tools)
        if following.success or following.text == current.text:
            return following
        current = following
    # Not settled within the bound: going on from the result would change it, so nothing is changed.
    return replace(start, reason=f"no fixed point within {MAX_ROUNDS} rounds; left as it was")


def _round(current: Repair, canon: str, tools: Tools) -> Repair:
    code = current.text
    form, rules = tools.normal_form(code)
    target, _ = tools.normal_form(canon)
    accepted, findings = tools.verdict(code)
    canon_accepted, _ = tools.verdict(canon)
    differs = "other normal form than the canon"
    if form == target:
        if accepted == canon_accepted:
            steps = (*current.steps, *rules)
            return replace(
                current, text=canon, d_after=0.0, evidence="rewritten", reason="same normal form", steps=steps
            )
        differs = "same normal form as the canon, but the oracle tells them apart"
    tested = tools.equivalence(code, canon) if accepted and canon_accepted else None
    if tested is not None and tested["equal"]:
        return replace(
            current,
            text=canon,
            d_after=0.0,
            evidence="equivalent",
            reason=f"no difference on {tested['inputs']} generated inputs",
            steps=(*current.steps, "replace_by_canon"),
            equivalence=tested,
        )
    reason = differs if tested is None else f"{differs}; differs from it on an input"
    if not accepted:
        reason = f"{differs}; rejected by the oracle"
    current = replace(current, reason=reason, equivalence=tested)
    return _closest(current, findings, canon, tools)


def _closest(current: Repair, findings: str, canon: str, tools: Tools) -> Repair:
    """The nearest program on the way, if the oracle finds of it exactly what it found of this one."""
    near = tools.approach(current.text, canon)
    if near.measured.d >= current.d_after or tools.verdict(near.text)[1] != findings:
        return current
    closer = replace(
        current,
        text=near.text,
        d_after=near.measured.d,
        method=near.measured.method,
        steps=(*current.steps, *near.rules),
    )
    if closer.success:
        return replace(closer, evidence="rewritten", reason="the rules lead to the canon's text")
    return closer
