"""Constant tables: what is only looked up stands where it is used, in one order."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Any

from skyt.repair.rules.analysis.program import READ, use_of
from skyt.repair.rules.analysis.syntax import binds, count_reads, int_value, number, substitute
from skyt.repair.rules.analysis.trees import children, text, walk
from skyt.repair.rules.analysis.types import is_int, is_str
from skyt.repair.rules.engine import Context
from skyt.repair.rules.names.assignments import simple_target
from skyt.repair.rules.patterns.rewriting import Made, replacing, rewrite
from skyt.repair.rules.patterns.template import Found, first
from skyt.repair.rules.patterns.when import Condition, Where, each, immutable, of_kind, ordered, own, plain
from skyt.repair.rules.registry import module

SEARCHED = frozenset({"[]", "[:]", "in", "len", ".get", ".index", ".count"})
VIEWS = frozenset({".keys", ".values", ".items"})
COPIES = ("set(t)", "frozenset(t)", "list(t)", "tuple(t)", "t.keys()", "t.values()")
DISPLAYS = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Call)
PLAIN = (int, str, float, type(None))


def contents(node: ast.expr) -> Collection[object] | None:
    """What a literal of constants holds, or a copy or view of one."""
    p = first(node, *COPIES)
    try:
        held = ast.literal_eval(node if p is None else p["t"])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            held = getattr(held, node.func.attr)()
        return held if p is None and isinstance(held, Collection) else [*held]
    except (ValueError, TypeError, AttributeError):
        return None


def constant_table(node: ast.expr) -> bool:
    held = contents(node) if isinstance(node, DISPLAYS) else None
    parts = [*held, *held.values()] if isinstance(held, dict) else held
    return parts is not None and all(map(_fixed, parts))


def _fixed(value: object) -> bool:
    return isinstance(value, PLAIN) or (isinstance(value, tuple) and all(map(_fixed, value)))


def _only_looked_up(where: ast.AST | Sequence[ast.AST], name: str, table: ast.expr) -> bool:
    """Whether every use of a name reads its container in a way that neither changes it nor hands it on.

    The order of a set depends on how it was made, and a set of constants that a loop goes through is made in
    another way than one with a name: sets are only searched and counted.
    """
    unordered = isinstance(table, ast.Set) or first(table, "set(t)", "frozenset(t)") is not None
    known = SEARCHED if unordered else SEARCHED | READ
    nodes = walk(where)
    parents = {id(c): p for p in nodes for c in children(p)}

    def harmless(n: ast.Name) -> bool:
        use, parent = use_of(n, parents), parents.get(id(n))
        if use in VIEWS:
            view: Any = parents[id(parent)]
            return use_of(view, parents) in READ or isinstance(parents.get(id(view)), ast.Assign)
        return use in known and isinstance(getattr(parent, "ctx", n.ctx), ast.Load)

    reads = [n for n in nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    return all(map(harmless, reads))


rewrite(
    "inline-table",
    ("t = v\nrest", "inner"),
    needs=[
        each("a table of constants", ("v",), lambda e, where: constant_table(e)),
        own("t"),
        Condition(
            "`rest` only looks things up in `t`",
            lambda found, where: _only_looked_up(found["rest"], found["t"].id, found["v"]),  # type: ignore
        ),
    ],
    made={"inner": replacing("rest", ("t", "v"))},
    phases="01",
    because="a table that is only looked up is the same wherever it is written down",
    fires="s: str\nt = {'a': 1}\nreturn s in t",
    keeps="s: str\nt = {'a': 1}\nt[s] = 2\nreturn len(t)",
)


@module(
    needs="a constant or constant table at module level, assigned once, never changed and never handed on",
    sound="a constant is the same wherever it is written down",
    fires="n: int\nK = 3\ndef f(n):\n return n + K",
    keeps="n: int\nK = []\ndef f(n):\n K.append(n)\n return len(K) * 0",
)
def inline_module_constant(context: Context) -> bool:
    tree = context.tree
    for s in tree.body:
        name = simple_target(s)
        if name is None or not isinstance(s, ast.Assign) or name in context.facts.public:
            continue
        table = not isinstance(s.value, ast.Constant) and int_value(s.value) is None
        if table and not (constant_table(s.value) and _only_looked_up(tree, name, s.value)):
            continue
        sets = [n for n in walk(tree) if isinstance(n, ast.Set)]  # which Python orders by what it knows
        if sum(binds(n) == name for n in walk(tree)) == 1 and not count_reads(sets, name):
            tree.body = [substitute(t, {name: s.value}) for t in tree.body if t is not s]
            context.record("inline-module-constant", text(s), text(s.value))
            return True
    return False


def _members(found: Found, where: Where) -> ast.expr | None:
    """What is searched in a table `t` for `a`, in order: texts or integers, as `a` is."""
    held, t = contents(found["t"]), where.scope.type_of(found["a"])  # type: ignore[arg-type]
    if not held or not (is_str(t) or is_int(t)) or (isinstance(held, str) and t != "char"):
        return None
    if any(type(v) is not (str if is_str(t) else int) for v in held):
        return None
    elements = [number(v) if isinstance(v, int) else ast.Constant(value=v) for v in sorted({*held})]  # type: ignore
    return ast.Tuple(elts=elements, ctx=ast.Load())


rewrite(
    "membership",
    ("a in d.keys()", "a in d", [of_kind("dict", "d")]),
    ("a not in d.keys()", "a not in d", [of_kind("dict", "d")]),
    ("a in (x,)", "a == x", [ordered("a", "x")]),
    ("a not in (x,)", "a != x", [ordered("a", "x")]),
    ("a in t", "a in u"),
    ("a not in t", "a not in u"),
    made={"u": Made("the constant table `t` in order", _members)},
    because="membership depends on the elements alone, not on their order, number or container",
    fires="s: str\nd = {s: 1}\nreturn [s in {'b', 'a'}, s in ['a'], 'b' in d.keys()]",
    keeps="s: str\nd = {s: 1}\nreturn [s in 'ba', 1 in d.values()]",
)


def _by_key(found: Found, where: Where) -> ast.expr | None:
    made = found["t"]
    if not isinstance(made, ast.Dict) or not constant_table(made):
        return None
    held = [ast.literal_eval(k) for k in made.keys if k is not None]
    if {type(k) for k in held} not in ({int}, {str}) or len({*held}) != len(held):
        return None
    entries = sorted(zip(held, made.keys, made.values, strict=True), key=lambda entry: repr(entry[0]))
    return ast.Dict(keys=[k for _, k, _ in entries], values=[v for _, _, v in entries])


rewrite(
    "lookup-table",
    ("t[k]", "u[k]"),
    ("t.get(k)", "u.get(k)"),
    ("t.get(k, x)", "u.get(k, x)"),
    made={"u": Made("the constant dict `t`, by key", _by_key)},
    because="a lookup in a table does not depend on the order of its entries",
    fires="s: str\nreturn {'b': 1, 'a': 2}.get(s)",
    keeps="s: str\nreturn list({'b': 1, 'a': 2})",
)
rewrite(
    "expand-get",
    ("return d.get(k, x)", "if k in d: return d[k]\nreturn x"),
    ("return d.get(k)", "if k in d: return d[k]\nreturn None"),
    needs=[of_kind("dict", "d"), plain("d"), immutable("k")],
    because="`get` gives the value exactly when the key is there, and the default otherwise",
    fires="n: int\nd = {n + 1: 1}\nreturn d.get(n, 0)",
    keeps="n: int; xs: list[int]\nd = {n: 1}\nreturn d.get(n, xs[n])",
)
