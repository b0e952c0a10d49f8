"""Constant tables: what is only looked up stands where it is used, in one order."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from skyt.repair.rules.analysis.functions import READ, use_of
from skyt.repair.rules.analysis.syntax import int_value, number, substitute
from skyt.repair.rules.analysis.trees import children, text, walk
from skyt.repair.rules.analysis.values.types import is_int, is_str
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.names.assignments import simple_target
from skyt.repair.rules.patterns.conditions import Condition, Where, each, immutable, of_kind, plain
from skyt.repair.rules.patterns.flow import own
from skyt.repair.rules.patterns.making import Made, replacing
from skyt.repair.rules.patterns.pieces import first
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import Found
from skyt.repair.rules.registry import module

SEARCHED = frozenset({"[]", "[:]", "in", "len", ".get", ".index", ".count"})
VIEWS = frozenset({".keys", ".values", ".items"})
MAKERS = frozenset({"set", "frozenset", "list", "tuple"})
COPIES = (*(f"{maker}(t)" for maker in sorted(MAKERS)), "t.keys()", "t.values()")
DISPLAYS = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Call)
PLAIN = (int, str, float, type(None))


def contents(node: ast.expr) -> Collection[object] | None:
    """What a literal of constants holds, or a copy or view of one."""
    p = first(node, *COPIES) if isinstance(node, ast.Call) else None
    try:
        held = ast.literal_eval(p["t"] if p is not None else node)
    except (ValueError, TypeError):
        return None
    if p is not None and isinstance(node.func, ast.Attribute):  # type: ignore[attr-defined]
        if not isinstance(held, dict):
            return None
        held = [*held.values()] if node.func.attr == "values" else [*held]  # type: ignore[attr-defined]
    if not isinstance(held, Collection) or (p is None and isinstance(held, bytes)):
        return None
    return [*held] if p is not None else held


def constant_table(node: ast.expr) -> bool:
    held = contents(node) if isinstance(node, DISPLAYS) else None
    parts = [*held, *held.values()] if isinstance(held, dict) else held
    return parts is not None and all(_fixed(v) for v in parts)


def _fixed(value: object) -> bool:
    return isinstance(value, PLAIN) or (isinstance(value, tuple) and all(isinstance(v, PLAIN) for v in value))


def table(name: str) -> Condition:
    return each("a table of constants", (name,), lambda e, where: constant_table(e))


def looked_up(name: str, table: str, by: str) -> Condition:
    """A block neither changes the container under a name nor hands it on."""
    return Condition(
        f"`{by}` only looks things up in `{name}`",
        lambda found, where: _only_looked_up(found[by], found[name].id, found[table]),  # type: ignore
    )


def _only_looked_up(where: ast.AST | Sequence[ast.AST], name: str, table: ast.expr) -> bool:
    """Whether every use of a name reads its container in a way that neither changes it nor hands it on.

    The order of a set depends on how it was made, and a set of constants that a loop goes through is made in
    another way than one with a name: sets are only searched and counted.
    """
    unordered = isinstance(table, ast.Set) or first(table, "set(t)", "frozenset(t)") is not None
    known = SEARCHED if unordered else SEARCHED | MAKERS | {"for"}
    nodes = walk(where)
    parents = {id(c): p for p in nodes for c in children(p)}
    for n in nodes:
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load):
            use, parent = use_of(n, parents), parents.get(id(n))
            if use in VIEWS:
                made: ast.expr = parents[id(parent)]  # type: ignore[assignment]
                if use_of(made, parents) not in READ and not isinstance(parents.get(id(made)), ast.Assign):
                    return False
            elif use not in known or not isinstance(getattr(parent, "ctx", n.ctx), ast.Load):
                return False
    return True


rewrite(
    "inline-table",
    ("t = v\nrest", "inner"),
    needs=[table("v"), own("t"), looked_up("t", "v", by="rest")],
    made={"inner": replacing("rest", ("t", "v"))},
    because="a table that is only looked up is the same wherever it is written down",
    fires=("s: str", "t = {'a': 1}\nreturn s in t"),
    keeps=("s: str", "t = {'a': 1}\nt[s] = 2\nreturn len(t)"),
)


@module(
    needs="a constant or constant table at module level, assigned once, never changed and never handed on",
    sound="a constant is the same wherever it is written down",
    fires=("n: int", "K = 3\ndef f(n):\n return n + K"),
    keeps=("n: int", "K = []\ndef f(n):\n K.append(n)\n return len(K) * 0"),
)
def inline_module_constant(context: Context) -> bool:
    tree = context.tree
    for s in tree.body:
        name = simple_target(s)
        if name is None or not isinstance(s, ast.Assign) or name in context.facts.public:
            continue
        table = not isinstance(s.value, ast.Constant) and int_value(s.value) is None
        if table and not constant_table(s.value):
            continue
        binders = sum(
            (isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load))
            or (isinstance(n, ast.arg) and n.arg == name)
            or (isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == name)
            for n in walk(tree)
        )
        if binders != 1 or (table and not _only_looked_up(tree, name, s.value)):
            continue
        tree.body = [substitute(t, {name: s.value}) for t in tree.body if t is not s]
        context.record("inline-module-constant", text(s), text(s.value))
        return True
    return False


def _members(found: Found, where: Where) -> list[ast.expr] | None:
    """What is searched in a table `t` for `a`, in order: texts or integers, as `a` is."""
    held, t = contents(found["t"]), where.scope.type_of(found["a"])  # type: ignore[arg-type]
    if held is None or not (is_str(t) or is_int(t)) or (isinstance(held, str) and t != "char"):
        return None
    wanted = str if is_str(t) else int
    if not held or any(type(v) is not wanted for v in held):
        return None
    ordered = sorted(v for v in set(held) if isinstance(v, int | str))
    return [number(v) if isinstance(v, int) else ast.Constant(value=v) for v in ordered]


def _only(found: Found, where: Where) -> ast.expr | None:
    members = _members(found, where)
    return members[0] if members is not None and len(members) == 1 else None


def _tuple(found: Found, where: Where) -> ast.expr | None:
    members = _members(found, where)
    return ast.Tuple(elts=members, ctx=ast.Load()) if members is not None else None


rewrite(
    "membership",
    ("a in t", "a == x"),
    ("a in t", "a in u"),
    ("a not in t", "a != x"),
    ("a not in t", "a not in u"),
    made={"x": Made("the only element of the constant table `t`", _only), "u": Made("`t` in order", _tuple)},
    because="membership depends on the elements alone, not on their order, number or container",
    fires=("s: str", "return s in {'b', 'a'}"),
    keeps=("s: str", "return s in 'ba'"),
)


def _by_key(found: Found, where: Where) -> ast.expr | None:
    made = found["t"]
    held = contents(made) if isinstance(made, ast.Dict) and constant_table(made) else None
    if not isinstance(made, ast.Dict) or held is None or len(held) != len(made.keys):
        return None
    if {type(k) for k in held} not in ({int}, {str}):
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
    fires=("s: str", "return {'b': 1, 'a': 2}.get(s)"),
    keeps=("s: str", "return list({'b': 1, 'a': 2})"),
)
rewrite(
    "keys-are-the-dict",
    ("a in d.keys()", "a in d"),
    ("a not in d.keys()", "a not in d"),
    needs=[of_kind("dict", "d")],
    because="searching the keys of a dict is searching the dict",
    fires=("n: int", "d = {n: 1}\nreturn 3 in d.keys()"),
    keeps=("n: int", "d = {n: 1}\nreturn 3 in d.values()"),
)
rewrite(
    "expand-get",
    ("return d.get(k, x)", "if k in d: return d[k]\nreturn x"),
    ("return d.get(k)", "if k in d: return d[k]\nreturn None"),
    needs=[of_kind("dict", "d"), plain("d"), immutable("k")],
    because="`get` gives the value exactly when the key is there, and the default otherwise",
    fires=("n: int", "d = {n + 1: 1}\nreturn d.get(n, 0)"),
    keeps=("n: int; xs: list[int]", "d = {n: 1}\nreturn d.get(n, xs[n])"),
)
