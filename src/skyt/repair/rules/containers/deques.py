"""Deques without a bound that are used as lists are lists."""

from __future__ import annotations

import ast
from typing import Any

from skyt.repair.rules.analysis.functions import READ
from skyt.repair.rules.analysis.holders import Holder, holders
from skyt.repair.rules.analysis.infer import dotted
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import call, number
from skyt.repair.rules.analysis.trees import text, walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.registry import module

# Methods of a deque, and with how many arguments a list does the same.
SHARED = {"append": 1, "pop": 0, "clear": 0, "extend": 1, "remove": 1, "reverse": 0, "count": 1, "popleft": 0}


@module(
    needs="a local or private attribute that is always a `deque` without `maxlen`, used only by methods that "
    "a list has too, at its ends, by index, for membership, length and truth",
    sound="a list does the same at its end, and with index 0 at its start; time is not observed",
    fires=(
        "xs: list[int]",
        "import collections\ndef f(xs):\n q = collections.deque([0])\n r = []\n for x in xs:\n"
        "  q.append(x)\n  if len(q) > 3:\n"
        "   r.append(q.popleft())\n return [r, list(q), q[-1]]",
    ),
    keeps=(
        "xs: list[int]",
        "import collections\ndef f(xs):\n q = collections.deque(maxlen=2)\n"
        " p = collections.deque(xs)\n for x in xs:\n  q.append(x)\n for x in p:\n  if x == 3:\n"
        "   p.append(x)\n return list(q) + list(p)",
    ),
)
def deque_to_list(context: Context) -> bool:
    """`d.popleft()` of a `deque` is `d.pop(0)` of a list."""
    for holder in holders(context, _makes):
        if not all(_allowed(u, holder, context) for u in holder.uses):
            continue
        if any(n in holder.uses for s in holder.made for n in walk(s.value)):
            continue
        before = text(holder.made)
        for s in holder.made:
            s.value = _list(s.value)
        for use in holder.uses:
            _change(use, holder)
        context.record("deque-to-list", before, text(holder.made))
        return True
    return False


def _makes(value: ast.expr, scope: Scope) -> bool:
    if not isinstance(value, ast.Call) or dotted(value.func) != "collections.deque":
        return False
    plain = len(value.args) <= 1 and not value.keywords
    return plain and scope.is_module("collections") and scope.builtin(ast.Name(id="list")) == "list"


def _list(value: ast.expr) -> ast.expr:
    given = value.args if isinstance(value, ast.Call) else []
    if not given:
        return ast.List(elts=[], ctx=ast.Load())
    return given[0] if isinstance(given[0], ast.List) else call("list", given[0])


def _allowed(use: ast.expr, holder: Holder, context: Context) -> bool:
    done = holder.use(use)
    if not done.startswith("."):  # of a deque that changes while a loop goes through it Python makes an error
        return done == "[]" or done in READ - {"for"}
    made: Any = holder.parent(holder.parent(use))  # type: ignore[arg-type]
    if made.keywords or len(made.args) != SHARED.get(done[1:], -1):
        return False
    return done != ".extend" or not any(n in holder.uses for n in walk(made.args[0]))


def _change(use: ast.expr, holder: Holder) -> None:
    if holder.use(use) == ".popleft":
        method: Any = holder.parent(use)
        method.attr, holder.parent(method).args = "pop", [number(0)]  # type: ignore[union-attr]
