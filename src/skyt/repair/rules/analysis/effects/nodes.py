"""Effects of every kind of node but calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from skyt.repair.rules.analysis.effects.calls import call_itself, called
from skyt.repair.rules.analysis.effects.raising import ITERABLE, binop_raises, hashable, shows_safely
from skyt.repair.rules.analysis.effects.table import (
    ALONE,
    ENTRIES,
    Effects,
    Entry,
    add,
    effects,
    everything,
    glance,
    read,
    root,
    truth,
)
from skyt.repair.rules.analysis.effects.vocabulary import PURE_METHODS, UNKNOWN
from skyt.repair.rules.analysis.trees.bindings import loaded
from skyt.repair.rules.analysis.trees.syntax import int_value
from skyt.repair.rules.analysis.trees.trees import COMPREHENSIONS, OPERATORS, walk
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


def _nothing(node: ast.AST, scope: Scope, found: Effects) -> None:
    pass


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
    whole = is_int(scope.type_of(node.left)) and is_int(scope.type_of(node.right))
    divides = whole and isinstance(node.op, ast.FloorDiv | ast.Mod)
    found.fails(binop_raises(node, scope), "ZeroDivisionError" if divides else UNKNOWN)
    glance(node.left, scope, found)
    glance(node.right, scope, found)


def _augmented(node: ast.AugAssign, scope: Scope, found: Effects) -> None:
    found.fails()
    old = loaded(node.target)
    add(old, scope, found)
    if scope.type_of(old) not in IMMUTABLE:
        found.heap_writes.add(root(node.target))
    read(node.value, scope, found)


def _iteration(node: ast.For | ast.comprehension, scope: Scope, found: Effects) -> None:
    t = scope.type_of(node.iter)
    found.fails(kind(t) not in ITERABLE or not _unpacks(node.target, element(t)))
    glance(node.iter, scope, found)
    for condition in getattr(node, "ifs", ()):
        truth(condition, scope, found)


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
        add(g, scope, inner)
    results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    for result in results:
        add(result, scope, inner)
    if isinstance(node, ast.SetComp | ast.DictComp):
        inner.fails(not hashable(scope.type_of(results[0])))
    own = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
    inner.writes -= own
    inner.reads -= own
    found.include(inner)
    add(node.generators[0].iter, scope, found)


def _test(node: ast.If | ast.IfExp | ast.While, scope: Scope, found: Effects) -> None:
    truth(node.test, scope, found)
    if isinstance(node, ast.While):
        found.jumps = True


def _boolop(node: ast.BoolOp, scope: Scope, found: Effects) -> None:
    for value in node.values:
        truth(value, scope, found)


def _unary(node: ast.UnaryOp, scope: Scope, found: Effects) -> None:
    if isinstance(node.op, ast.Not):
        truth(node.operand, scope, found)
    else:
        found.fails(not is_number(scope.type_of(node.operand)) or isinstance(node.op, ast.Invert))


def _jump(node: ast.stmt, scope: Scope, found: Effects) -> None:
    found.jumps = True
    found.fails(isinstance(node, ast.Raise))


def _assign(node: ast.Assign, scope: Scope, found: Effects) -> None:
    found.fails(not all(_fits(target, node.value, scope) for target in node.targets))


def _fits(target: ast.expr, value: ast.expr, scope: Scope) -> bool:
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        pairs = zip(target.elts, value.elts, strict=False)
        return len(target.elts) == len(value.elts) and all(_fits(t, v, scope) for t, v in pairs)
    return _unpacks(target, scope.type_of(value))


def _formatted(node: ast.FormattedValue, scope: Scope, found: Effects) -> None:
    found.fails(node.format_spec is not None or not shows_safely(node.value, scope))
    read(node.value, scope, found)


def _keyed(node: ast.Set | ast.Dict, scope: Scope, found: Effects) -> None:
    keys = node.elts if isinstance(node, ast.Set) else node.keys
    found.fails(not all(k is not None and hashable(scope.type_of(k)) for k in keys))


def _attribute(node: ast.Attribute, scope: Scope, found: Effects) -> None:
    if scope.is_member(node):
        return
    add(node.value, scope, found)
    place, owner = "." + node.attr, kind(scope.type_of(node.value))
    if not isinstance(node.ctx, ast.Load):
        found.fails(not owner.startswith("object:"))
        found.heap_writes.add(place)
    elif not scope.has_method(owner, node.attr):
        found.fails(not scope.has_attribute(owner, node.attr))
        found.heap_reads |= {place, root(node.value)} if node.attr in PURE_METHODS else {place}


def _subscript(node: ast.Subscript, scope: Scope, found: Effects) -> None:
    t, load = scope.type_of(node.value), isinstance(node.ctx, ast.Load)
    owner, index = kind(t), scope.type_of(node.slice)
    if isinstance(node.slice, ast.Slice):
        sliced = owner in {"str", "char", "list", "tuple"}
        found.fails(not (load and sliced and _int_slice(node.slice, scope)))
    else:
        plain = owner in {"list", "deque", "str", "char", "tuple"} and is_int(index)
        lookup = owner == "dict" and hashable(index)
        error = "IndexError" if plain else "KeyError" if lookup else UNKNOWN
        stores = isinstance(node.ctx, ast.Store) and lookup
        found.fails(not (stores or scope.holds_key(node)), error)
    if not load or (scope.program.grows and (not owner or owner.startswith("object:"))):
        found.heap_writes.add(root(node.value))
    glance(node.value, scope, found)


def _int_slice(node: ast.Slice, scope: Scope) -> bool:
    step = node.step is None or int_value(node.step) not in (None, 0)
    return step and all(is_int(scope.type_of(p)) for p in (node.lower, node.upper) if p is not None)


def _compare(node: ast.Compare, scope: Scope, found: Effects) -> None:
    operands = [node.left, *node.comparators]
    types = [scope.type_of(o) for o in operands]
    for i, op in enumerate(node.ops):
        a, b = types[i], types[i + 1]
        if isinstance(op, ast.Is | ast.IsNot):
            continue
        inside = isinstance(op, ast.In | ast.NotIn)
        look = glance if inside and kind(b) in {"dict", "set"} else read
        look(operands[i], scope, found)
        look(operands[i + 1], scope, found)
        if isinstance(op, ast.Eq | ast.NotEq):
            found.fails(not (comparable(a, b) or a in IMMUTABLE or b in IMMUTABLE))
        elif inside:
            member = kind(b) in SIZED | {"iter"} and a in IMMUTABLE
            found.fails(not (member or (is_str(a) and is_str(b))))
        else:
            found.fails(not (ordered(a, b) or (is_number(a) and is_number(b))))


def _entries(entry: Entry, *kinds: type) -> None:
    ENTRIES.update(dict.fromkeys(kinds, entry))


_entries(_nothing, *OPERATORS, ast.Constant, ast.Pass)
_entries(_nothing, ast.List, ast.Tuple, ast.Slice, ast.Expr, ast.Delete, ast.keyword, ast.JoinedStr)
_entries(_iteration, ast.For, ast.comprehension)
_entries(_comprehension, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_entries(_test, ast.If, ast.IfExp, ast.While)
_entries(_jump, ast.Return, ast.Break, ast.Continue, ast.Raise)
_entries(_keyed, ast.Set, ast.Dict)
ENTRIES |= {ast.Name: _name, ast.FunctionDef: _function, ast.Lambda: _lambda, ast.Call: called}
ENTRIES |= {ast.BinOp: _binop, ast.BoolOp: _boolop, ast.UnaryOp: _unary, ast.Compare: _compare}
ENTRIES |= {ast.Attribute: _attribute, ast.Subscript: _subscript, ast.FormattedValue: _formatted}
ENTRIES |= {ast.Assign: _assign, ast.AugAssign: _augmented}
ALONE.update(
    OPERATORS, COMPREHENSIONS, (ast.Constant, ast.Name, ast.FunctionDef, ast.Lambda, ast.Call, ast.Attribute)
)


def operation(node: ast.expr, scope: Scope) -> Effects:
    """The effects of an operation, without those of its operands where these have none but to raise."""
    whole, found = scope.effects(node), Effects()
    if not whole.pure:
        return whole
    own: Entry = call_itself if isinstance(node, ast.Call) else ENTRIES.get(node.__class__, everything)
    own(node, scope, found)
    return found
