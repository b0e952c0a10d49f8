"""Webs: values that never meet get names of their own; values that change places do so at once."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.trees.syntax import (
    own_breaks,
    rename,
)
from skyt.repair.rules.analysis.trees.trees import NESTED, clone, walk
from skyt.repair.rules.names.assignments import private, simple_target
from skyt.repair.rules.registry import Place, block


@block(
    ast.Assign,
    needs="an assignment whose value is not read after its block, to a name that is bound elsewhere too",
    sound="the new value can live under a name of its own",
    fires=("s: str", "s = s.lower()\nreturn s + s"),
    keeps=("s: str", "while len(s) > 3:\n s = s[1:]\nreturn s"),
)
def split_parameter(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`text = text.lower(); … text …` keeps the parameter and gives the new value its own name."""
    info = place.info
    for i, s in enumerate(body):
        name = simple_target(s)
        if name is None or name in place.live_out or not private(name, place):
            continue
        stores = place.context.census(info.node).stores[name]
        if name not in info.arguments:
            if stores == 1:
                continue
            here = sum(
                isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
                for n in walk(body[i:])
            )
            if here == stores:
                continue
        rest = body[i + 1 :]
        if own_breaks(rest, (ast.Break, ast.Continue)) or any(isinstance(n, NESTED) for n in walk(body)):
            continue
        fresh = place.context.name(name.rstrip("0123456789_") or "t")
        first = clone(s)
        first.targets = [ast.Name(id=fresh, ctx=ast.Store())]  # type: ignore[attr-defined]
        return [*body[:i], first, *(rename(clone(x), {name: fresh}) for x in rest)]
    return None
