"""Comprehensions that look up each element by its index or key: the element has a name instead."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.syntax import count_reads
from skyt.repair.rules.analysis.trees import same, walk
from skyt.repair.rules.containers.consumers import consumer
from skyt.repair.rules.patterns.conditions import Condition, Where, at_least, of_kind, plain
from skyt.repair.rules.patterns.making import fresh, replacing
from skyt.repair.rules.patterns.rewriting import Form, rewrite
from skyt.repair.rules.patterns.template import Found, value

PIECES = ("f", "g", "c")
KINDS = (  # comprehensions, and the same with other elements
    ("[f for {} in {} if c]", "[p for {} in {} if r]"),
    ("{{f for {} in {} if c}}", "{{p for {} in {} if r}}"),
    ("{{f: g for {} in {} if c}}", "{{p: q for {} in {} if r}}"),
    ("u(f for {} in {} if c)", "u(p for {} in {} if r)"),
)


def looking_up(lookup: str, index: str, only: bool) -> Condition:
    """Pieces without effects that look something up, and have the index (only) there."""

    def holds(found: Found, where: Where) -> bool:
        made, name = value(lookup, **found), found[index].id  # type: ignore[union-attr]
        parts = [found[p] for p in PIECES if p in found]
        uses = sum(isinstance(n, ast.Subscript) and same(n, made) for p in parts for n in walk(p))
        if not uses or (only and uses != sum(count_reads(p, name) for p in parts)):
            return False
        late = any(isinstance(n, ast.Lambda) for p in parts for n in walk(p))
        return not late and all(where.scope.effects(p).pure for p in parts)

    words = f"elements without effects that have `{lookup}`" + f", and `{index}` nowhere else" * only
    return Condition(words, holds, own=frozenset({index}) if only else frozenset(), inner=True)


def _forms(old: tuple[str, str], new: tuple[str, str], *needs: Condition) -> list[Form]:
    """A comprehension of each kind over something, and over something else."""
    consumed = {KINDS[-1]: [consumer("u")]}
    return [(kind[0].format(*old), kind[1].format(*new), [*needs, *consumed.get(kind, [])]) for kind in KINDS]


rewrite(
    "element-for-index",
    *_forms(("i", "range(len(s))"), ("x", "s")),
    *_forms(("i", "range(a, len(s))"), ("x", "s[a:]"), at_least(0, "a")),
    *_forms(("i", "range(len(s) - 1, -1, -1)"), ("x", "s[::-1]")),
    needs=[of_kind("str list", "s"), plain("s"), looking_up("s[i]", "i", only=True)],
    made={
        "x": fresh("x"),
        **{new: replacing(old, ("s[i]", "x")) for old, new in zip(PIECES, "pqr", strict=True)},
    },
    because="the elements come in the order of their indices",
    fires=("xs: list[int]; k: int >= 0", "return sum(xs[i] * xs[i] for i in range(k, len(xs)))"),
    keeps=(
        "xs: list[int]; k: int",
        "return [xs[i] for i in range(k, len(xs))] + [i + xs[i] for i in range(len(xs))]",
    ),
)
rewrite(
    "entry-for-key",
    *_forms(("k", "d"), ("k, x", "d.items()")),
    *_forms(("k, x", "d.items()"), ("k, x", "d.items()")),
    needs=[of_kind("dict", "d"), plain("d"), looking_up("d[k]", "k", only=False)],
    made={
        "x": fresh("x"),
        **{new: replacing(old, ("d[k]", "x")) for old, new in zip(PIECES, "pqr", strict=True)},
    },
    because="an item is a key with the entry under it",
    fires=(
        "s: str",
        "d = {x: ord(x) for x in s}\nreturn [max([d[c] for c in d]), sum(d[c] for c in d if d[c] > 60)]",
    ),
    keeps=("s: str", "d = {x: ord(x) for x in s}\nreturn [d[c] + d.pop(c) for c in list(d)]"),
)
