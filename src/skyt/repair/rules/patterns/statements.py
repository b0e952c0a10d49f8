"""Rules on statements: where in a block a template fits, and the block with what it becomes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from skyt.repair.rules.analysis.syntax import mentions
from skyt.repair.rules.analysis.trees import Shape, head, shape
from skyt.repair.rules.patterns.conditions import Where
from skyt.repair.rules.patterns.duty import Rewriting
from skyt.repair.rules.patterns.template import Found, Template, block_name, build, fewest, match
from skyt.repair.rules.registry import BlockRule, Place


def block_rule(groups: Sequence[tuple[Template, list[Rewriting]]]) -> BlockRule:
    """What applies the forms of a rule, grouped by their before side, to a block."""
    known: dict[Shape, list[tuple[list[ast.stmt], Shape | None, _Ends, list[Rewriting]]]] = {}
    for t, group in groups:
        known.setdefault(shape(t.body[0]), []).append((t.body, _first(t.body[0]), _Ends(t.body), group))

    def apply(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
        for i, (seen, start) in enumerate(place.looks):
            for wanted, first, ends, group in known.get(seen, ()):
                if first is not None and first != start:
                    continue
                for end in ends.after(i, body):
                    found: Found = {}
                    if match(wanted, body[i:end], found):
                        new = _rewritten(group, found, body[i:end], place, i)
                        if new is not None:
                            return [*body[:i], *new, *body[end:]]
        return None

    return apply


def _first(s: ast.stmt) -> Shape | None:
    """How the expression looks that a template starts with; None where it may be anything."""
    first = head(s)
    return () if first is None else Template("", [ast.Expr(value=first)]).shape


class _Ends:
    """Where what a template matches may end: at the end of the block if its last name stands for several
    statements."""

    def __init__(self, wanted: list[ast.stmt]) -> None:
        self.least, self.last = fewest(wanted), wanted[-1].__class__
        self.whole, self.fixed = block_name(wanted[-1]) is not None, fewest(wanted) == len(wanted)

    def after(self, start: int, body: list[ast.stmt]) -> Iterable[int]:
        end, size = start + self.least, len(body)
        if self.whole or end > size:
            return (size,) if end <= size else ()
        if self.fixed:
            return (end,) if body[end - 1].__class__ is self.last else ()
        return [k for k in range(end, size + 1) if body[k - 1].__class__ is self.last]


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
