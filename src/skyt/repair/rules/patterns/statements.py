"""Rules on statements: where in a block a template fits, and the block with what it becomes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from skyt.repair.rules.analysis.trees.syntax import mentions
from skyt.repair.rules.patterns.conditions import Where
from skyt.repair.rules.patterns.duty import Rewriting
from skyt.repair.rules.patterns.template import Found, Template, block_name, build, fewest, match, shape
from skyt.repair.rules.registry import BlockRule, Place


def block_rule(groups: Sequence[tuple[Template, list[Rewriting]]]) -> BlockRule:
    """What applies the forms of a rule, grouped by their before side, to a block."""
    known = [(t.body, shape(t.body[0]), group) for t, group in groups]
    starts = {body[0].__class__ for body, _, _ in known}

    def apply(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
        for i, s in enumerate(body):
            if s.__class__ not in starts:
                continue
            looks = shape(s)
            for wanted, seen, group in known:
                for end in _ends(wanted, body, i) if seen == looks else ():
                    found: Found = {}
                    if match(wanted, body[i:end], found):
                        new = _rewritten(group, found, body[i:end], place, i)
                        if new is not None:
                            return [*body[:i], *new, *body[end:]]
        return None

    return apply


def _ends(wanted: list[ast.stmt], body: list[ast.stmt], start: int) -> Iterable[int]:
    """Where what is matched may end: with a name for several statements at the end of the block."""
    if block_name(wanted[-1]):
        return (len(body),)
    end = start + len(wanted)
    if fewest(wanted) == len(wanted):
        return (end,) if end <= len(body) else ()
    last = wanted[-1].__class__
    return [k for k in range(start + fewest(wanted), len(body) + 1) if body[k - 1].__class__ is last]


def _rewritten(
    group: list[Rewriting], found: Found, matched: list[ast.stmt], place: Place, at: int
) -> list[ast.stmt] | None:
    for form in group:
        scope = place.before(at)
        last = place.body[-1] is matched[-1]
        where = Where(scope.within(matched) if form.loops else scope, False, place, matched, last)
        pieces = form.pieces(found, where)
        if pieces is None:
            continue
        new = build(form.after.body, pieces)
        if not any(mentions(new, {found[name].id}) for name in form.gone):  # type: ignore[union-attr]
            return new
    return None
