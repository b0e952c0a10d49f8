"""Effects: what an expression or statement reads, writes and may raise, so that rules know what may move
past what.

Every kind of node has an entry in a table; one without an entry does everything. The heap is divided by
roots: `stack.append(x)` writes the object that `stack` names. A root that its function owns (made there,
never handed out) can only be reached by that name; all other roots may be the same object. Attributes are
divided by their names: `a.x` and `b.y` are never the same place, `a.x` and `b.x` may be.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any

from skyt.repair.rules.analysis.effects.commuting import ATTRIBUTES, Effects, conflict, disturbs
from skyt.repair.rules.analysis.effects.raising import (
    ITERABLE,
    binop_raises,
    call_raises,
    hashable,
    shows_safely,
)
from skyt.repair.rules.analysis.effects.vocabulary import (
    MAKERS,
    MODULE_MEMBERS,
    MUTATORS,
    PURE_BUILTINS,
    PURE_METHODS,
    UNKNOWN,
)
from skyt.repair.rules.analysis.trees.syntax import int_value
from skyt.repair.rules.analysis.trees.trees import children, walk
from skyt.repair.rules.analysis.values.types import (
    IMMUTABLE,
    SIZED,
    Type,
    comparable,
    element,
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
Entry = Callable[[Any, "Scope", Effects], None]


def mutates_receiver(node: ast.Call) -> ast.expr | None:
    """The object a method call changes in place, if the method's name says that it does."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        return node.func.value
    return None


def pure_call(node: ast.Call, pure: Container[str], own: Container[str] = ()) -> bool:
    """Whether a call has no effect but its result (it may raise, it may read its arguments). `own` are the
    names of the program's functions, and of its methods with a dot."""
    function = node.func
    if isinstance(function, ast.Name):
        known = function.id in pure or function.id in PURE_BUILTINS
        return known and _pure_callbacks(node, pure, own)
    if isinstance(function, ast.Attribute) and _pure_callbacks(node, pure, own):
        owner = function.value
        if isinstance(owner, ast.Name) and owner.id in MODULE_MEMBERS:
            return f"{owner.id}.{function.attr}" in MAKERS or owner.id != "collections"
        return function.attr in PURE_METHODS and "." + function.attr not in own
    return False


def _pure_callbacks(node: ast.Call, pure: Container[str], own: Container[str]) -> bool:
    """Whether what a call is given to call has no effects."""
    for a in (*node.args, *(k.value for k in node.keywords)):
        if isinstance(a, ast.Lambda):
            calls = [n for n in walk(a.body) if isinstance(n, ast.Call)]
            if not all(mutates_receiver(n) is None and pure_call(n, pure, own) for n in calls):
                return False
        if isinstance(a, ast.Name) and a.id in own and a.id not in pure:
            return False
    return True


def effects(node: ast.AST | Sequence[ast.AST], scope: Scope) -> Effects:
    """The effects of an expression, a statement or a list of them, insides included."""
    found = Effects()
    for item in [node] if isinstance(node, ast.AST) else node:
        _add(item, scope, found)
    if not found.pure and scope.known:  # what held before may not hold any more within
        later = scope.without(found)
        if later is not scope:
            return effects(node, later)
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
    entry = ENTRIES.get(node.__class__)
    if entry is None:
        _everything(node, scope, found)
        return
    entry(node, scope, found)


def _parts(node: ast.AST, scope: Scope, found: Effects) -> None:
    for child in children(node):
        _add(child, scope, found)


def _nothing(node: ast.AST, scope: Scope, found: Effects) -> None:
    pass


def _everything(node: ast.AST, scope: Scope, found: Effects) -> None:
    names = {n.id for n in walk(node) if isinstance(n, ast.Name)}
    found.reads |= names
    found.writes |= names
    found.heap_reads |= names | {UNKNOWN, ATTRIBUTES}
    found.heap_writes |= names | {UNKNOWN, ATTRIBUTES}
    found.fails()
    found.other = found.jumps = True


def _read(node: ast.expr, scope: Scope, found: Effects) -> None:
    """Looking into a value: its own parts, and those of its elements where they can change."""
    t = scope.type_of(node)
    if t in IMMUTABLE:
        return
    found.heap_reads.add(root(node))
    if not (isinstance(t, tuple) and all(_flat(x) for x in t[1:])):
        found.heap_reads |= {UNKNOWN, ATTRIBUTES}


def _glance(node: ast.expr, scope: Scope, found: Effects) -> None:
    """Looking at a value's own parts, and not into them."""
    if scope.type_of(node) not in IMMUTABLE:
        found.heap_reads.add(root(node))


SHALLOW = frozenset(
    [
        *(
            "len",
            "list",
            "tuple",
            "set",
            "dict",
            "frozenset",
            "range",
            "enumerate",
            "zip",
            "reversed",
            "bool",
        ),
        *("isinstance", "keys", "values", "items", "get", "copy", "deque", "OrderedDict", "next"),
    ]
)


def _flat(t: Any) -> bool:
    return t is None or t in IMMUTABLE or (kind(t) in {"pair", "tuple"} and all(map(_flat, t[1:])))


def _name(node: ast.Name, scope: Scope, found: Effects) -> None:
    (found.reads if node.ctx.__class__ is ast.Load else found.writes).add(node.id)


def _function(node: ast.FunctionDef, scope: Scope, found: Effects) -> None:
    found.reads |= {n.id for n in walk(node) if isinstance(n, ast.Name)}
    found.writes.add(node.name)
    found.other = True


def _lambda(node: ast.Lambda, scope: Scope, found: Effects) -> None:
    """What it does when it is called, which in this language is here or not at all."""
    inner = effects(node.body, scope)
    inner.reads -= {a.arg for a in node.args.args}
    inner.fails()
    found.include(inner)


def _binop(node: ast.BinOp, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    whole = is_int(scope.type_of(node.left)) and is_int(scope.type_of(node.right))
    divides = whole and isinstance(node.op, ast.FloorDiv | ast.Mod)
    found.fails(binop_raises(node, scope), "ZeroDivisionError" if divides else UNKNOWN)
    for side in (node.left, node.right):
        if scope.type_of(side) not in IMMUTABLE:
            found.heap_reads.add(root(side))


def _augmented(node: ast.AugAssign, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    found.fails()
    old = loaded(node.target)
    _add(old, scope, found)
    if scope.type_of(old) not in IMMUTABLE:
        found.heap_writes.add(root(node.target))
    _read(node.value, scope, found)


def loaded(node: Any) -> Any:
    new = node.__class__(**{f: getattr(node, f) for f in node._fields if hasattr(node, f)})
    new.ctx = ast.Load()
    return new


def _iteration(node: ast.For | ast.comprehension, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    t = scope.type_of(node.iter)
    found.fails(kind(t) not in ITERABLE)
    found.fails(not _unpacks(node.target, element(t)))
    if t not in IMMUTABLE:
        found.heap_reads.add(root(node.iter))
    for condition in getattr(node, "ifs", ()):
        _truth(condition, scope, found)


def _unpacks(target: ast.expr, t: Type) -> bool:
    """Whether a value of this type surely fits the target."""
    if isinstance(target, ast.Tuple | ast.List):
        parts = t[1:] if kind(t) == "pair" and isinstance(t, tuple) else ()
        return len(parts) == len(target.elts) and all(map(_unpacks, target.elts, parts))  # type: ignore[arg-type]
    return isinstance(target, ast.Name | ast.Subscript | ast.Attribute)


def _comprehension(node: Any, scope: Scope, found: Effects) -> None:
    """The first source is evaluated outside, all else where the comprehension's variables hide others."""
    inner = Effects()
    for g in node.generators:
        _iteration(g, scope, inner)
    results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    for result in results:
        _add(result, scope, inner)
    if isinstance(node, ast.SetComp | ast.DictComp):
        inner.fails(not hashable(scope.type_of(results[0])))
    own = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
    inner.writes -= own
    inner.reads -= own
    found.include(inner)
    _add(node.generators[0].iter, scope, found)


def _while(node: ast.While, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    _truth(node.test, scope, found)
    found.jumps = True


def _test(node: ast.If | ast.IfExp, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    _truth(node.test, scope, found)


def _boolop(node: ast.BoolOp, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    for value in node.values:
        _truth(value, scope, found)


def _unary(node: ast.UnaryOp, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    if isinstance(node.op, ast.Not):
        _truth(node.operand, scope, found)
    else:
        found.fails(not is_number(scope.type_of(node.operand)) or isinstance(node.op, ast.Invert))


def _truth(node: ast.expr, scope: Scope, found: Effects) -> None:
    """Asking a container whether it is empty reads it."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and scope.type_of(node) not in IMMUTABLE:
        found.heap_reads.add(root(node))


def _jump(node: ast.stmt, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    found.jumps = True
    found.fails(isinstance(node, ast.Raise))


def _assign(node: ast.Assign, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    for target in node.targets:
        found.fails(not _fits(target, node.value, scope))


def _fits(target: ast.expr, value: ast.expr, scope: Scope) -> bool:
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        pairs = zip(target.elts, value.elts, strict=False)
        return len(target.elts) == len(value.elts) and all(_fits(t, v, scope) for t, v in pairs)
    return _unpacks(target, scope.type_of(value))


def _formatted(node: ast.FormattedValue, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    found.fails(node.format_spec is not None or not shows_safely(node.value, scope))
    _read(node.value, scope, found)


def _set(node: ast.Set, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    found.fails(not all(hashable(scope.type_of(e)) for e in node.elts))


def _dict(node: ast.Dict, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    found.fails(not all(k is not None and hashable(scope.type_of(k)) for k in node.keys))


def _attribute(node: ast.Attribute, scope: Scope, found: Effects) -> None:
    if isinstance(node.value, ast.Name) and scope.is_module(node.value.id):
        return
    _add(node.value, scope, found)
    place, owner = "." + node.attr, kind(scope.type_of(node.value))
    if isinstance(node.ctx, ast.Load):
        if scope.has_method(owner, node.attr):
            return
        found.fails(not scope.has_attribute(owner, node.attr))
        found.heap_reads |= {place, root(node.value)} if node.attr in PURE_METHODS else {place}
    else:
        found.fails(not owner.startswith("object:"))
        found.heap_writes.add(place)


def _subscript(node: ast.Subscript, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    t, load = scope.type_of(node.value), isinstance(node.ctx, ast.Load)
    owner, whole = kind(t), is_int(scope.type_of(node.slice))
    if isinstance(node.slice, ast.Slice):
        sliced = is_str(t) or owner in {"list", "tuple"}
        found.fails(not (load and sliced and _int_slice(node.slice, scope)))
    else:
        plain = owner in {"list", "deque", "str", "char", "tuple"} and whole
        lookup = owner == "dict" and hashable(scope.type_of(node.slice))
        error = "IndexError" if plain else "KeyError" if lookup else UNKNOWN
        stores = isinstance(node.ctx, ast.Store) and lookup
        found.fails(not (stores or scope.holds_key(node)), error)
    if not load or (scope.program.grows and (not owner or owner.startswith("object:"))):
        found.heap_writes.add(root(node.value))
    if t not in IMMUTABLE:
        found.heap_reads.add(root(node.value))


def _int_slice(node: ast.Slice, scope: Scope) -> bool:
    step = node.step is None or int_value(node.step) not in (None, 0)
    parts = [p for p in (node.lower, node.upper) if p is not None]
    return step and all(is_int(scope.type_of(p)) for p in parts)


def _call(node: ast.Call, scope: Scope, found: Effects) -> None:
    function = node.func
    arguments = [*node.args, *(k.value for k in node.keywords)]
    if isinstance(function, ast.Attribute):
        module = isinstance(function.value, ast.Name) and scope.is_module(function.value.id)
        if not module:
            _add(function.value, scope, found)
    elif not isinstance(function, ast.Name):
        _everything(node, scope, found)
        return
    for a in arguments:
        _add(a, scope, found)
    receiver = mutates_receiver(node)
    if receiver is not None:
        _change(node, receiver, scope, found)
    elif pure_call(node, scope.pure, scope.program.by_name) and _knows(node, scope):
        name = function.id if isinstance(function, ast.Name) else function.attr
        look = _glance if name in SHALLOW else _read
        for a in arguments:
            look(a, scope, found)
        if isinstance(function, ast.Name) and function.id in scope.pure:
            names, attributes = scope.program.outside.of(function.id)
            found.reads |= names
            found.heap_reads |= names | ({ATTRIBUTES} if attributes else set())
        if isinstance(function, ast.Attribute) and scope.type_of(function.value) not in IMMUTABLE:
            found.heap_reads.add(root(function.value))
        found.fails(call_raises(node, scope))
    else:
        found.fails()
        found.other = True


def _knows(node: ast.Call, scope: Scope) -> bool:
    """Whether a call means what its name says: a builtin that is not hidden, a method of a builtin type."""
    if isinstance(node.func, ast.Name):
        return node.func.id in scope.pure or bool(scope.builtin(node.func))
    owner = kind(scope.type_of(node.func.value))  # type: ignore[attr-defined]
    return not owner.startswith("object:")


def _change(node: ast.Call, receiver: ast.expr, scope: Scope, found: Effects) -> None:
    name, t = node.func.attr, scope.type_of(receiver)  # type: ignore[attr-defined]
    owner = kind(t)
    if owner not in SIZED or "." + name in scope.program.by_name:
        found.fails()
        found.other = True
        return
    if node.keywords and not pure_call(ast.Call(ast.Name("sorted"), [], node.keywords), scope.pure,
                                       scope.program.by_name):  # fmt: skip
        found.other = True
    found.heap_writes.add(root(receiver))
    found.heap_reads.add(root(receiver))
    for a in node.args:
        if name in {"extend", "update", "extendleft", "remove", "index"}:
            _read(a, scope, found)
    types = [scope.type_of(a) for a in node.args]
    fails, error = _change_raises(name, owner, t, types, node, scope)
    found.fails(fails, error)


def _change_raises(
    name: str, owner: str, t: Type, types: list[Type], node: ast.Call, scope: Scope
) -> tuple[bool, str]:
    """(whether a method that changes its object may raise, what)."""
    count = len(types)
    if node.keywords:
        return True, UNKNOWN
    if name == "append" and owner in {"list", "deque"}:
        return count != 1, UNKNOWN
    if name == "appendleft" and owner == "deque":
        return count != 1, UNKNOWN
    if name == "clear" and owner != "tuple":
        return count != 0, UNKNOWN
    if name == "extend" and owner in {"list", "deque"}:
        return not (count == 1 and kind(types[0]) in ITERABLE), UNKNOWN
    if name in {"add", "discard"} and owner == "set":
        return not (count == 1 and hashable(types[0])), UNKNOWN
    if name == "reverse" and owner in {"list", "deque"}:
        return count != 0, UNKNOWN
    if name == "insert" and owner == "list":
        return not (count == 2 and is_int(types[0])), UNKNOWN
    if name == "sort" and owner == "list":
        return not (count == 0 and element(t) in {"int", "str", "char"}), UNKNOWN
    if name in {"pop", "popleft"} and owner in {"list", "deque"} and count == 0:
        known = owner == "deque" or name == "pop"
        return not scope.nonempty(node.func.value), "IndexError" if known else UNKNOWN  # type: ignore[attr-defined]
    if name == "pop" and owner == "list" and count == 1 and is_int(types[0]):
        return True, "IndexError"
    if name == "pop" and owner == "dict" and count in (1, 2) and hashable(types[0]):
        return count == 1, "KeyError"
    if name == "setdefault" and owner == "dict":
        return not (count == 2 and hashable(types[0])), UNKNOWN
    return True, UNKNOWN


def _compare(node: ast.Compare, scope: Scope, found: Effects) -> None:
    _parts(node, scope, found)
    operands = [node.left, *node.comparators]
    types = [scope.type_of(o) for o in operands]
    for i, op in enumerate(node.ops):
        a, b = types[i], types[i + 1]
        if isinstance(op, ast.Is | ast.IsNot):
            continue
        keyed = isinstance(op, ast.In | ast.NotIn) and kind(b) in {"dict", "set"}
        (_glance if keyed else _read)(operands[i], scope, found)
        (_glance if keyed else _read)(operands[i + 1], scope, found)
        if isinstance(op, ast.Eq | ast.NotEq):
            found.fails(not (comparable(a, b) or a in IMMUTABLE or b in IMMUTABLE))
        elif isinstance(op, ast.In | ast.NotIn):
            inside = kind(b) in SIZED | {"iter"} and a in IMMUTABLE
            found.fails(not (inside or (is_str(a) and is_str(b))))
        else:
            found.fails(not (ordered(a, b) or (is_number(a) and is_number(b))))


SILENT = frozenset(
    cls
    for cls in vars(ast).values()
    if isinstance(cls, type) and issubclass(cls, ast.operator | ast.cmpop | ast.unaryop | ast.boolop)
)
ENTRIES: dict[type, Entry] = {
    **dict.fromkeys((*SILENT, ast.Constant, ast.Pass), _nothing),
    **dict.fromkeys(
        (ast.List, ast.Tuple, ast.Slice, ast.Expr, ast.Delete, ast.keyword, ast.JoinedStr), _parts
    ),
    **dict.fromkeys((ast.For, ast.comprehension), _iteration),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _comprehension),
    **dict.fromkeys((ast.If, ast.IfExp), _test),
    **dict.fromkeys((ast.Return, ast.Break, ast.Continue, ast.Raise), _jump),
    ast.Name: _name,
    ast.FunctionDef: _function,
    ast.Lambda: _lambda,
    ast.BinOp: _binop,
    ast.BoolOp: _boolop,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.Call: _call,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.FormattedValue: _formatted,
    ast.Assign: _assign,
    ast.AugAssign: _augmented,
    ast.While: _while,
}
