"""Attempts: a lookup that is tried, and the condition under which it succeeds."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import call, compare, int_value, load
from skyt.repair.rules.analysis.trees.trees import clone, same, walk
from skyt.repair.rules.analysis.values.types import IMMUTABLE, is_int, is_str, kind
from skyt.repair.rules.control.branches import replaced
from skyt.repair.rules.names.inline import find_use, head_of
from skyt.repair.rules.registry import Place, block

CATCHES = {
    "IndexError": {"IndexError", "LookupError", "Exception"},
    "KeyError": {"KeyError", "LookupError", "Exception"},
}
HERE = "the place of a lookup"  # no name of a program has a space in it


@block(
    ast.Try,
    needs="one statement with one lookup (`xs.pop()`, `xs[-1]`, `xs[i]` with i not negative, `d[k]`), in a "
    "list, str, deque or dict; all else in it cannot raise; one handler for the error of the lookup",
    sound="the lookup raises that error exactly where the condition does not hold, before anything has "
    "happened",
)
def try_to_condition(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`try: return xs.pop()` `except IndexError: return 0` is `if xs: return xs.pop()` `else: return 0`."""
    for i, s in enumerate(body):
        if not (isinstance(s, ast.Try) and len(s.body) == 1 and len(s.handlers) == 1):
            continue
        handler, tried, scope = s.handlers[0], s.body[0], place.before(i)
        if s.orelse or s.finalbody or not isinstance(tried, ast.Return | ast.Assign | ast.Expr):
            continue
        if any(isinstance(n, ast.Raise) and n.exc is None for n in walk(handler.body)):
            continue
        if handler.name and any(isinstance(n, ast.Name) and n.id == handler.name for n in walk(s)):
            continue
        for lookup in walk(tried):
            found = _condition(lookup, scope)
            if found is None or not _caught(handler.type, found[1], scope):
                continue
            if _only_risk(tried, lookup, found[0], scope):
                rest = [x for x in handler.body if not isinstance(x, ast.Pass)]
                return replaced(body, i, ast.If(test=found[0], body=[tried], orelse=rest))
    return None


def _caught(handler: ast.expr | None, error: str, scope: Scope) -> bool:
    if isinstance(handler, ast.Tuple):
        return any(_caught(e, error, scope) for e in handler.elts)
    return handler is None or scope.builtin(handler) in CATCHES[error]


def _named(node: ast.expr) -> bool:
    named = node.value if isinstance(node, ast.Attribute) else node
    return isinstance(named, ast.Name)


def _condition(node: ast.AST, scope: Scope) -> tuple[ast.expr, str] | None:
    """(condition under which a lookup succeeds, error where it does not)."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and _named(node.value):
        t = scope.type_of(node.value)
        if kind(t) == "dict":
            return _has_key(node.slice, node.value, scope)
        if not (is_str(t) or kind(t) in {"list", "deque"}):
            return None
        if int_value(node.slice) in (0, -1):
            return clone(node.value), "IndexError"
        low = scope.interval(node.slice)[0] if is_int(scope.type_of(node.slice)) else None
        if low is None or low < 0 or not scope.effects(node.slice).total:
            return None
        length = call("len", clone(node.value))
        return compare(clone(node.slice), ast.Lt, length), "IndexError"
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords):
        return None
    owner, name = node.func.value, node.func.attr
    k = kind(scope.type_of(owner))
    if not _named(owner):
        return None
    if k == "dict" and name == "pop" and len(node.args) == 1:
        return _has_key(node.args[0], owner, scope)
    first = len(node.args) == 1 and int_value(node.args[0]) == 0
    at_end = name == "pop" and (not node.args or (first and k == "list"))
    if k in {"list", "deque"} and (at_end or (k == "deque" and name == "popleft" and not node.args)):
        return clone(owner), "IndexError"
    return None


def _has_key(key: ast.expr, owner: ast.expr, scope: Scope) -> tuple[ast.expr, str] | None:
    if not scope.effects(key).total or scope.type_of(key) not in IMMUTABLE:
        return None
    return compare(clone(key), ast.In, clone(owner)), "KeyError"


def _only_risk(tried: ast.stmt, lookup: ast.AST, test: ast.expr, scope: Scope) -> bool:
    """Whether the lookup comes first of all that has effects, for sure, and nothing else can raise."""
    stored = tried.targets if isinstance(tried, ast.Assign) else []
    if lookup is tried.value and all(isinstance(t, ast.Name) for t in stored):  # type: ignore[attr-defined]
        return True
    if isinstance(lookup, ast.Call) and isinstance(lookup.func, ast.Attribute):
        owner = lookup.func.value  # which this lookup changes: nothing else may ask it
        if sum(same(n, owner) for n in walk(tried)) != 1:
            return False
    if scope.with_known([test]).effects(tried).raises:
        return False
    marked = _Marked(lookup).visit(clone(tried))
    head = head_of(marked)  # type: ignore[arg-type]
    before: list[ast.expr] = []
    if head is None or sum(isinstance(n, ast.Name) and n.id == HERE for n in walk(marked)) != 1:
        return False
    return find_use(head, HERE, before) == "once" and all(scope.effects(b).total for b in before)


class _Marked(ast.NodeTransformer):
    """Puts a name in the place of a lookup."""

    def __init__(self, lookup: ast.AST) -> None:
        self.lookup = lookup

    def visit(self, node: ast.AST) -> ast.AST:
        if same(node, self.lookup) and not isinstance(getattr(node, "ctx", None), ast.Store):
            return load(HERE)
        return self.generic_visit(node)
