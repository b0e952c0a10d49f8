"""Constant tables: what is only looked up stands where it is used, in one order."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import count_reads, int_value, substitute
from skyt.repair.rules.analysis.trees.trees import children, clone, text, walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.names.assignments import private, simple_target
from skyt.repair.rules.registry import Place, block, expression, module

READERS = frozenset({"get", "keys", "values", "items", "index", "count"})


MAKERS = frozenset({"set", "frozenset", "list", "tuple"})


def constant_table(node: ast.expr) -> bool:
    """A literal of constants, or a view or copy of one."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(isinstance(e, ast.Constant) or int_value(e) is not None or _flat(e) for e in node.elts)
    if isinstance(node, ast.Dict):
        return all(isinstance(k, ast.Constant) for k in node.keys) and all(
            isinstance(v, ast.Constant) or int_value(v) is not None for v in node.values
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS:
        return len(node.args) == 1 and not node.keywords and _table_or_text(node.args[0])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        return node.func.attr in {"keys", "values"} and isinstance(node.func.value, ast.Dict)
    return False


def _flat(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple) and all(isinstance(e, ast.Constant) for e in node.elts)


def _table_or_text(node: ast.expr) -> bool:
    return constant_table(node) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _only_looked_up(where: ast.AST, name: str) -> bool:
    """Whether every use of a name reads its container in a way that neither changes it nor hands it on."""
    nodes = walk(where)
    parents = {id(c): p for p in nodes for c in children(p)}
    for n in nodes:
        if not (isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)):
            continue
        parent = parents.get(id(n))
        if isinstance(parent, ast.Attribute):
            outer = parents.get(id(parent))
            fine = parent.attr in READERS and isinstance(outer, ast.Call) and outer.func is parent
            if fine and parent.attr in {"values", "keys", "items"}:
                fine = _view_is_read(outer, parents)
        elif isinstance(parent, ast.Subscript):
            fine = parent.value is n and isinstance(parent.ctx, ast.Load)
        elif isinstance(parent, ast.Compare):
            fine = parent.left is not n and all(isinstance(o, ast.In | ast.NotIn) for o in parent.ops)
        elif isinstance(parent, ast.For | ast.comprehension):
            fine = parent.iter is n
        elif isinstance(parent, ast.Call):
            fine = isinstance(parent.func, ast.Name) and parent.func.id in MAKERS | {"len"}
        else:
            fine = False
        if not fine:
            return False
    return True


def _view_is_read(node: ast.AST | None, parents: dict[int, ast.AST]) -> bool:
    """A view may be searched, iterated, copied, or named for one of these."""
    parent = parents.get(id(node))
    if isinstance(parent, ast.Compare):
        return parent.left is not node
    if isinstance(parent, ast.For | ast.comprehension):
        return True
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Name) and parent.func.id in MAKERS | {"len"}
    return isinstance(parent, ast.Assign)


@block(
    ast.Assign,
    needs="a constant table, assigned once, never changed and never handed on",
    sound="a table that is only looked up is the same wherever it is written down",
    fires=("s: str", "t = {'a': 1}\nreturn s in t"),
    keeps=("s: str", "t = {'a': 1}\nt[s] = 2\nreturn len(t)"),
)
def inline_table(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    info = place.info
    for i, s in enumerate(body):
        name = simple_target(s)
        if name is None or not private(name, place) or name in info.arguments:
            continue
        if not isinstance(s, ast.Assign) or not constant_table(s.value):
            continue
        census, rest = place.context.census(info.node), body[i + 1 :]
        uses = census.reads[name]
        if census.stores[name] != 1 or not uses or uses != count_reads(rest, name):
            continue
        if _only_looked_up(info.node, name):
            return [*body[:i], *(substitute(clone(t), {name: s.value}) for t in rest)]
    return None


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
        if not (
            isinstance(s.value, ast.Constant) or int_value(s.value) is not None or constant_table(s.value)
        ):
            continue
        binders = sum(
            (isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load))
            or (isinstance(n, ast.arg) and n.arg == name)
            or (isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == name)
            for n in walk(tree)
        )
        table = not isinstance(s.value, ast.Constant) and int_value(s.value) is None
        if binders != 1 or (table and not _only_looked_up(tree, name)):
            continue
        tree.body = [substitute(t, {name: s.value}) for t in tree.body if t is not s]
        context.record("inline-module-constant", text(s), text(s.value))
        return True
    return False


@expression(
    ast.Subscript,
    ast.Call,
    needs="constant keys, all different",
    sound="a lookup in a table does not depend on the order of its entries",
    fires=("s: str", "return {'b': 1, 'a': 2}.get(s)"),
    keeps=("s: str", "return list({'b': 1, 'a': 2})"),
)
def lookup_table(node: ast.Subscript | ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    if isinstance(node, ast.Subscript):
        table = node.value
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        table = node.func.value
    else:
        return None
    if not isinstance(table, ast.Dict) or not constant_table(table):
        return None
    keys = [k.value for k in table.keys if isinstance(k, ast.Constant)]
    if len(set(keys)) != len(keys) or {type(k) for k in keys} not in ({int}, {str}):
        return None
    order = sorted(range(len(keys)), key=lambda i: repr(keys[i]))
    if order == list(range(len(keys))):
        return None
    ordered = ast.Dict(keys=[table.keys[i] for i in order], values=[table.values[i] for i in order])
    new = clone(node)
    (new if isinstance(new, ast.Subscript) else new.func).value = ordered  # type: ignore[attr-defined]
    return new
