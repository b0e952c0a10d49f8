"""Entries of dicts: keys that can be asked for again, and what makes an entry where there is none."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import load
from skyt.repair.rules.analysis.trees.trees import same
from skyt.repair.rules.analysis.values.types import is_str, kind
from skyt.repair.rules.patterns.pieces import made, pieces, value
from skyt.repair.rules.patterns.template import Value

STARTS: dict[str, ast.expr] = {
    "int": ast.Constant(value=0),
    "list": ast.List(elts=[], ctx=ast.Load()),
    "dict": ast.Dict(keys=[], values=[]),
    "set": ast.Call(func=load("set"), args=[], keywords=[]),
}
COUNTED = frozenset({"list", "tuple", "set", "deque", "iter"})
STABLE = frozenset({"int", "bool", "str", "char"})
INSERT = "if k not in d: d[k] = v"


def stable_key(key: ast.expr, scope: Scope) -> bool:
    """Whether evaluating a key again, with nothing changed in between, gives the same key."""
    if isinstance(key, ast.Name | ast.Constant):
        return True
    if isinstance(key, ast.Tuple):
        return all(stable_key(e, scope) for e in key.elts)
    return scope.type_of(key) in STABLE and scope.effects(key).pure


def start_of_default(node: ast.expr, scope: Scope) -> ast.expr | None:
    """What `defaultdict(f)` puts under a missing key."""
    p = pieces("collections.defaultdict(f)", node)
    if p is None:
        return None
    q = pieces("lambda: x", p["f"])
    if q is None:
        return STARTS.get(scope.builtin(p["f"]))
    return next((s for s in STARTS.values() if same(s, q["x"])), None)


def countable(node: ast.expr, scope: Scope) -> bool:
    """A container that is not a dict: `Counter` counts its elements. A set that is written there would become
    what a loop goes through, which has another order."""
    t = scope.type_of(node)
    return is_str(t) or (kind(t) in COUNTED and not isinstance(node, ast.Set))


def counted(node: ast.expr, scope: Scope) -> ast.expr | None:
    """What `Counter(e)` counts: the elements of a container that is not a dict."""
    p = pieces("collections.Counter(e)", node)
    return p["e"] if p is not None and countable(p["e"], scope) else None


def get_entry(entry: ast.Subscript, start: ast.expr) -> ast.expr:
    return value("d.get(k, v)", d=entry.value, k=entry.slice, v=start)  # type: ignore[no-any-return]


def counting_loop(counts: Value, source: Value, item: str) -> list[ast.stmt]:
    """The statements that count elements in a new dict."""
    return made("d = {}\nfor c in e: d[c] = d.get(c, 0) + 1", c=item, e=source, d=counts)
