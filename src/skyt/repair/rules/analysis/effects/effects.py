"""Effects: what an expression or statement reads, writes and may raise, so that rules know what may move
past what.

The heap is divided by roots: `stack.append(x)` writes the object that `stack` names. A root that its
function owns (made there, never handed out) can only be reached by that name; all other roots may be the
same object. Attributes are divided by their names: `a.x` and `b.y` are never the same place, `a.x` and `b.x`
may be.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any

from skyt.repair.rules.analysis.effects.commuting import Effects, conflict, disturbs
from skyt.repair.rules.analysis.effects.hidden import ATTRIBUTES, EAGER, EAGER_METHODS, hands_over
from skyt.repair.rules.analysis.effects.raising import binop_raises, call_raises
from skyt.repair.rules.analysis.effects.vocabulary import (
    MAKERS,
    MUTATORS,
    PURE_BUILTINS,
    PURE_METHODS,
    PURE_MODULES,
    UNKNOWN,
)
from skyt.repair.rules.analysis.trees.syntax import int_value
from skyt.repair.rules.analysis.trees.trees import NESTED, children, walk
from skyt.repair.rules.analysis.values.types import (
    IMMUTABLE,
    SIZED,
    comparable,
    is_int,
    is_number,
    is_str,
    kind,
    ordered,
)

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.scope import Scope


__all__ = [
    "Effects",
    "conflict",
    "disturbs",
    "effects",
    "mutates_receiver",
    "pure_call",
    "root",
    "test_effects",
]


def mutates_receiver(node: ast.Call) -> ast.expr | None:
    """The object a method call changes in place, if the method's name says that it does."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        return node.func.value
    return None


def pure_call(node: ast.Call, pure: Container[str]) -> bool:
    """Whether a call has no effect but its result (it may raise, it may read its arguments)."""
    function = node.func
    if isinstance(function, ast.Name):
        if function.id in pure:
            return True
        # Builtins that call back run what they are given: only names known to be pure may be given.
        return function.id in PURE_BUILTINS and _pure_callbacks(node, pure)
    if isinstance(function, ast.Attribute):
        owner = function.value
        if isinstance(owner, ast.Name) and owner.id in PURE_MODULES:
            return _pure_callbacks(node, pure)
        if isinstance(owner, ast.Name) and f"{owner.id}.{function.attr}" in MAKERS:
            return True
        return function.attr in PURE_METHODS
    return False


def _pure_callbacks(node: ast.Call, pure: Container[str]) -> bool:
    """Whether what a call is given to call has no effects: lambdas, the function of map, filter and reduce, a
    key."""
    handed = [*node.args, *(k.value for k in node.keywords)]
    if not all(_pure_lambda(a, pure) for a in handed if isinstance(a, ast.Lambda)):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    called = [k.value for k in node.keywords if k.arg == "key"]
    called += node.args[:1] if name in {"map", "filter", "reduce"} else []
    return all(not isinstance(a, ast.Name) or a.id in pure or a.id in PURE_BUILTINS for a in called)


def _pure_lambda(node: ast.Lambda, pure: Container[str]) -> bool:
    return all(
        not isinstance(n, ast.Call) or (mutates_receiver(n) is None and pure_call(n, pure))
        for n in walk(node.body)
    )


def effects(node: ast.AST | Sequence[ast.AST], scope: Scope) -> Effects:
    """The effects of an expression, a statement or a list of them, insides included."""
    found = Effects()
    for item in [node] if isinstance(node, ast.AST) else node:
        _add(item, scope, found)
    return found


def test_effects(node: ast.expr, scope: Scope) -> Effects:
    """The effects of asking whether an expression is true: a container is read to see whether it is empty."""
    found = effects(node, scope)
    if scope.type_of(node) not in IMMUTABLE:
        found.heap_reads.add(root(node))
    return found


def root(node: ast.expr) -> str:
    """The name under which the heap object of this expression is reached; UNKNOWN if it is not a plain
    name.
    """
    return node.id if isinstance(node, ast.Name) else UNKNOWN


def _add(node: ast.AST, scope: Scope, found: Effects) -> None:
    kind_of_node = node.__class__
    if kind_of_node is ast.Constant or kind_of_node in SILENT:
        return
    if isinstance(node, ast.Name):
        (found.reads if node.ctx.__class__ is ast.Load else found.writes).add(node.id)
        return
    if kind_of_node in NESTED:
        found.reads |= {n.id for n in walk(node) if isinstance(n, ast.Name)}
        found.other = found.other or kind_of_node is not ast.Lambda
        return
    for child in children(node):
        _add(child, scope, found)
    special = SPECIAL.get(kind_of_node)
    if special is not None:
        special(node, scope, found)


def _look_inside(node: ast.expr, scope: Scope, found: Effects) -> None:
    """An operator or builtin that may run a special method of a class of the program on this operand."""
    hidden = scope.program.hidden
    if not hidden.specials:
        return
    t = scope.type_of(node)
    plain = t in IMMUTABLE or (isinstance(t, tuple) and all(x in IMMUTABLE for x in t[1:]))
    if not plain:
        found.heap_reads.add(ATTRIBUTES)
        found.other = found.other or hidden.changing


def _use_up(node: ast.expr, scope: Scope, found: Effects) -> None:
    """Going through something that may be an iterator uses it up."""
    _look_inside(node, scope, found)
    if scope.program.hidden.iterators and kind(scope.type_of(node)) not in {*SIZED, "str", "char"}:
        found.fails()
        found.other = True


def _add_arithmetic(node: ast.BinOp, scope: Scope, found: Effects) -> None:
    _look_inside(node.left, scope, found)
    _look_inside(node.right, scope, found)
    whole = is_int(scope.type_of(node.left)) and is_int(scope.type_of(node.right))
    divides = whole and isinstance(node.op, ast.FloorDiv | ast.Mod)
    found.fails(binop_raises(node, scope), "ZeroDivisionError" if divides else UNKNOWN)
    if kind(scope.type_of(node)) in {"list", "tuple", "set"}:
        found.heap_reads |= {root(node.left), root(node.right)}


def _add_augmented(node: ast.AugAssign, scope: Scope, found: Effects) -> None:
    found.fails()
    if isinstance(node.target, ast.Name):
        found.reads.add(node.target.id)
        if scope.type_of(_loaded(node.target)) not in IMMUTABLE:
            found.heap_writes.add(node.target.id)


def _add_iteration(node: ast.For | ast.comprehension, scope: Scope, found: Effects) -> None:
    t = scope.type_of(node.iter)
    _use_up(node.iter, scope, found)
    found.fails(kind(t) not in ITERABLE)
    if t not in IMMUTABLE:
        found.heap_reads.add(root(node.iter))
    for condition in getattr(node, "ifs", ()):
        if scope.type_of(condition) not in IMMUTABLE:
            found.heap_reads.add(root(condition))


def _add_comprehension(node: Any, scope: Scope, found: Effects) -> None:
    own = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
    found.writes -= own
    found.reads -= own


def _add_loop(node: ast.While, scope: Scope, found: Effects) -> None:
    _add_truth(node, scope, found)
    found.jumps = True


def _add_jump(node: ast.stmt, scope: Scope, found: Effects) -> None:
    found.jumps = True
    found.fails(isinstance(node, ast.Raise | ast.Assert))


def _add_unknown(node: ast.AST, scope: Scope, found: Effects) -> None:
    found.other = True
    if isinstance(node, ast.stmt):
        found.jumps = True
    else:
        found.fails()


def _add_unpacking(node: ast.Assign, scope: Scope, found: Effects) -> None:
    if any(isinstance(t, ast.Tuple | ast.List) for t in node.targets):
        parts = node.value.elts if isinstance(node.value, ast.Tuple | ast.List) else []
        found.fails(len(parts) == 0)


def _add_text(node: ast.JoinedStr, scope: Scope, found: Effects) -> None:
    values = (v.value for v in node.values if isinstance(v, ast.FormattedValue))
    found.fails(any(scope.type_of(v) not in IMMUTABLE for v in values))


def _loaded(node: ast.Name) -> ast.Name:
    return ast.Name(id=node.id, ctx=ast.Load())


def _add_truth(node: ast.AST, scope: Scope, found: Effects) -> None:
    """Asking a container whether it is empty reads it; asking an object of unknown type could do anything."""
    if isinstance(node, ast.BoolOp):
        operands: list[ast.expr] = node.values
    elif isinstance(node, ast.UnaryOp):
        operands = [node.operand]
        if not isinstance(node.op, ast.Not) and not is_number(scope.type_of(node.operand)):
            found.fails()
    else:
        operands = [node.test]  # type: ignore[attr-defined]
    for operand in operands:
        _look_inside(operand, scope, found)
        if isinstance(operand, ast.Name | ast.Attribute) and scope.type_of(operand) not in IMMUTABLE:
            found.heap_reads.add(root(operand))


def _add_access(node: ast.Attribute | ast.Subscript, scope: Scope, found: Effects) -> None:
    owner = scope.type_of(node.value)
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and scope.is_module(node.value.id):
            found.reads.discard(node.value.id)
            return
        if not kind(owner).startswith("object:") and not is_str(owner) and kind(owner) not in SIZED:
            found.fails()
    elif not isinstance(node.slice, ast.Slice):
        stores = isinstance(node.ctx, ast.Store) and kind(owner) == "dict" and scope.immutable(node.slice)
        plain = kind(owner) in {"list", "deque", "str", "char", "tuple"} and is_int(scope.type_of(node.slice))
        lookup = kind(owner) == "dict" and scope.immutable(node.slice)
        error = "IndexError" if plain else "KeyError" if lookup else UNKNOWN
        found.fails(not (stores or scope.holds_key(node)), error)
    elif not (is_str(owner) or kind(owner) in {"list", "tuple"}) or not _int_slice(node.slice, scope):
        found.fails()
    place = "." + node.attr if isinstance(node, ast.Attribute) else root(node.value)
    if isinstance(node, ast.Subscript) and (not kind(owner) or kind(owner).startswith("object:")):
        _look_inside(node.value, scope, found)
        if scope.program.hidden.grows:
            found.heap_writes.add(place)
    if isinstance(node.ctx, ast.Load):
        if owner not in IMMUTABLE:
            found.heap_reads.add(place)
    else:
        found.heap_writes.add(place)


def _int_slice(node: ast.Slice, scope: Scope) -> bool:
    step = node.step is None or int_value(node.step) not in (None, 0)
    return step and all(p is None or is_int(scope.type_of(p)) for p in (node.lower, node.upper))


def _add_call(node: ast.Call, scope: Scope, found: Effects) -> None:
    function = node.func
    receiver = mutates_receiver(node)
    arguments = [*node.args, *(k.value for k in node.keywords)]
    shared = {root(a) for a in arguments if scope.type_of(a) not in IMMUTABLE}
    if isinstance(function, ast.Name):
        found.reads.discard(function.id)
    if receiver is not None:
        owner = kind(scope.type_of(receiver))
        if owner in SIZED:
            for a in arguments:
                (_use_up if function.attr in EAGER_METHODS else _look_inside)(a, scope, found)  # type: ignore[attr-defined]
            found.heap_writes.add(root(receiver))
            found.heap_reads |= {root(receiver)} | shared
            name = function.attr  # type: ignore[attr-defined]
            total = name in {"append", "add", "appendleft", "clear", "extend", "discard"}
            total = total or (name == "pop" and not node.args and scope.nonempty(receiver))
            popped = name == "pop" and owner in {"list", "deque"} and not node.args
            found.fails(not total, "IndexError" if popped else UNKNOWN)
        else:
            found.fails()
            found.other = True
        return
    if pure_call(node, scope.pure) and not hands_over(node, scope.program.by_name, scope.pure):
        found.heap_reads |= shared
        if isinstance(function, ast.Name) and function.id in scope.pure:
            names, attributes = scope.program.outside.of(function.id)
            found.reads |= names
            found.heap_reads |= names | ({ATTRIBUTES} if attributes else set())
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        for a in arguments:
            (_use_up if name in EAGER or name in EAGER_METHODS else _look_inside)(a, scope, found)
        if isinstance(function, ast.Attribute) and scope.type_of(function.value) not in IMMUTABLE:
            if kind(scope.type_of(function.value)).startswith("object:"):
                found.other = True
            found.heap_reads.add(root(function.value))
        found.fails(call_raises(node, scope))
        return
    found.fails()
    found.other = True


def _add_compare(node: ast.Compare, scope: Scope, found: Effects) -> None:
    operands = [node.left, *node.comparators]
    types = [scope.type_of(o) for o in operands]
    for operand, t in zip(operands, types, strict=True):
        if not all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            _look_inside(operand, scope, found)
        if t not in IMMUTABLE and not isinstance(operand, ast.Tuple):
            found.heap_reads.add(root(operand))
    for i, op in enumerate(node.ops):
        a, b = types[i], types[i + 1]
        if isinstance(op, ast.Is | ast.IsNot):
            continue
        if isinstance(op, ast.Eq | ast.NotEq):
            found.fails(not (comparable(a, b) or a in IMMUTABLE or b in IMMUTABLE))
        elif isinstance(op, ast.In | ast.NotIn):
            _use_up(operands[i + 1], scope, found)
            inside = kind(b) in SIZED and a in IMMUTABLE
            found.fails(not (inside or (is_str(a) and is_str(b))))
        else:
            found.fails(not (ordered(a, b) or (is_number(a) and is_number(b))))


ITERABLE = frozenset({"list", "str", "char", "iter", "tuple", "set", "dict", "deque"})
SILENT = frozenset(
    cls
    for cls in vars(ast).values()
    if isinstance(cls, type) and issubclass(cls, ast.operator | ast.cmpop | ast.unaryop | ast.boolop)
)
SPECIAL: dict[type, Callable[[Any, Scope, Effects], None]] = {
    **dict.fromkeys((ast.Attribute, ast.Subscript), _add_access),
    ast.Call: _add_call,
    ast.BinOp: _add_arithmetic,
    ast.Compare: _add_compare,
    ast.AugAssign: _add_augmented,
    **dict.fromkeys((ast.For, ast.comprehension), _add_iteration),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _add_comprehension),
    **dict.fromkeys((ast.UnaryOp, ast.BoolOp, ast.If, ast.IfExp), _add_truth),
    ast.While: _add_loop,
    **dict.fromkeys((ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Assert), _add_jump),
    **dict.fromkeys((ast.Try, ast.TryStar, ast.With, ast.Match, ast.Global, ast.Nonlocal), _add_unknown),
    **dict.fromkeys((ast.Import, ast.ImportFrom), _add_unknown),
    **dict.fromkeys((ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr, ast.Starred), _add_unknown),
    ast.Assign: _add_unpacking,
    ast.JoinedStr: _add_text,
}
