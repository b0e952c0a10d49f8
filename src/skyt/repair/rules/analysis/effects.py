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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skyt.repair.rules.analysis.raising import (
    ITERABLE,
    ORDERED,
    binop_raises,
    call_raises,
    hashable,
    shows_safely,
)
from skyt.repair.rules.analysis.syntax import int_value, loaded
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, OPERATORS, children, walk
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
from skyt.repair.rules.analysis.vocabulary import (
    MAKERS,
    MODULE_MEMBERS,
    MUTATORS,
    PURE_BUILTINS,
    PURE_METHODS,
    SHALLOW,
    UNKNOWN,
)

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.scope import Scope

ATTRIBUTES = ".*"  # a heap root: any attribute of any object


@dataclass
class Effects:
    """Names read and written, heap roots read and written, and whether it may raise or do anything else."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    heap_reads: set[str] = field(default_factory=set)
    heap_writes: set[str] = field(default_factory=set)
    errors: set[str] = field(default_factory=set)  # kinds of exception it may raise; UNKNOWN for any kind
    jumps: bool = False  # may not run on to what follows: return, break, an endless loop
    other: bool = False  # calls something unknown

    def fails(self, condition: bool = True, kind: str = UNKNOWN) -> None:
        if condition:
            self.errors.add(kind)

    def include(self, other: Effects) -> None:
        """These effects and those."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) | value)

    @property
    def raises(self) -> bool:
        return bool(self.errors)

    @property
    def pure(self) -> bool:
        return not (self.writes or self.heap_writes or self.other or self.jumps)

    @property
    def total(self) -> bool:
        """Pure and never raising: may be evaluated any number of times, or not at all."""
        return self.pure and not self.raises


def conflict(first: Effects, second: Effects, scope: Scope) -> bool:
    """Whether swapping two adjacent computations could be seen."""
    if first.jumps or second.jumps:
        return True
    if first.other or second.other:
        return not (first.total and not first.heap_reads) and not (second.total and not second.heap_reads)
    if first.writes & (second.reads | second.writes) or second.writes & first.reads:
        return True
    if _meet(first.heap_writes, second.heap_reads | second.heap_writes, scope):
        return True
    if _meet(second.heap_writes, first.heap_reads, scope):
        return True
    if (
        first.raises
        and second.raises
        and (first.errors != second.errors or len(first.errors) > 1 or UNKNOWN in first.errors)
    ):
        return True
    return (first.raises and _outlives(second, scope)) or (second.raises and _outlives(first, scope))


def disturbs(changed: Effects, seen: Effects, scope: Scope) -> bool:
    """Whether running the first may change the value of the second."""
    if changed.writes & seen.reads or _meet(changed.heap_writes, seen.heap_reads, scope):
        return True
    return changed.other and any(r not in scope.owned for r in seen.heap_reads)


def _outlives(e: Effects, scope: Scope) -> bool:
    """Whether an effect can still be seen after an exception has left the function."""
    return e.other or any(root not in scope.owned for root in e.heap_writes)


def _meet(writes: set[str], touched: set[str], scope: Scope) -> bool:
    owned = scope.owned
    for w in writes:
        for t in touched:
            if w == t or (ATTRIBUTES in (w, t) and w[0] == t[0] == "."):
                return True
            if w[0] != "." and t[0] != "." and w not in owned and t not in owned:
                return True
    return False


Entry = Callable[[Any, "Scope", Effects], None]
ENTRIES: dict[type, Entry] = {}  # by kind of node, what it does beside its parts; filled in `nodes.py`
ALONE: set[type] = set()  # kinds whose entry knows what to do with the parts


def effects(node: ast.AST | Sequence[ast.AST], scope: Scope) -> Effects:
    """The effects of an expression, a statement or a list of them, insides included."""
    found = Effects()
    for item in [node] if isinstance(node, ast.AST) else node:
        add(item, scope, found)
    if not found.pure and scope.known:  # what held before may not hold any more within
        later = scope.without(found)
        if later is not scope:
            return effects(node, later)
    return found


def test_effects(node: ast.expr, scope: Scope) -> Effects:
    """The effects of asking whether an expression is true: a container is read to see whether it is empty."""
    found = effects(node, scope)
    glance(node, scope, found)
    return found


def root(node: ast.expr) -> str:
    """The name under which the heap object of this expression is reached; UNKNOWN if it is not a plain
    name.
    """
    return node.id if isinstance(node, ast.Name) else UNKNOWN


def add(node: ast.AST, scope: Scope, found: Effects) -> None:
    kind = node.__class__
    if kind not in ALONE:
        for child in children(node):
            add(child, scope, found)
    ENTRIES.get(kind, everything)(node, scope, found)


def everything(node: ast.AST, scope: Scope, found: Effects) -> None:
    names = {n.id for n in walk(node) if isinstance(n, ast.Name)}
    found.reads |= names
    found.writes |= names
    found.heap_reads |= names | {UNKNOWN, ATTRIBUTES}
    found.heap_writes |= names | {UNKNOWN, ATTRIBUTES}
    found.fails()
    found.other = found.jumps = True


def read(node: ast.expr, scope: Scope, found: Effects) -> None:
    """Looking into a value: its own parts, and those of its elements where they can change."""
    t = scope.type_of(node)
    if t in IMMUTABLE:
        return
    found.heap_reads.add(root(node))
    if not (isinstance(t, tuple) and all(map(_flat, t[1:]))):
        found.heap_reads |= {UNKNOWN, ATTRIBUTES}


def glance(node: ast.expr, scope: Scope, found: Effects) -> None:
    """Looking at a value's own parts, and not into them."""
    if scope.type_of(node) not in IMMUTABLE:
        found.heap_reads.add(root(node))


def _flat(t: Any) -> bool:
    return t is None or t in IMMUTABLE or (kind(t) in {"pair", "tuple"} and all(map(_flat, t[1:])))


def truth(node: ast.expr, scope: Scope, found: Effects) -> None:
    """Asking a container whether it is empty reads it."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        glance(node, scope, found)


LARGEST = 2**62  # no container has as many elements


def mutates_receiver(node: ast.Call) -> ast.expr | None:
    """The object a method call changes in place, if the method's name says that it does."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        return node.func.value
    return None


def pure_call(node: ast.Call, pure: Container[str], own: Container[str] = ()) -> bool:
    """Whether a call has no effect but its result (it may raise, it may read its arguments). `own` are the
    names of the program's functions, and of its methods with a dot."""
    match node.func:
        case ast.Name(id=name):
            known = name in pure or name in PURE_BUILTINS
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in MODULE_MEMBERS:
            known = module != "collections" or f"{module}.{name}" in MAKERS
        case ast.Attribute(attr=name):
            known = name in PURE_METHODS and "." + name not in own
        case _:
            known = False
    return known and pure_callbacks(node, pure, own)


def pure_callbacks(node: ast.Call, pure: Container[str], own: Container[str]) -> bool:
    """Whether what a call is given to call has no effects."""
    for a in _arguments(node):
        if isinstance(a, ast.Lambda):
            calls = [n for n in walk(a.body) if isinstance(n, ast.Call)]
            if not all(mutates_receiver(n) is None and pure_call(n, pure, own) for n in calls):
                return False
        if isinstance(a, ast.Name) and a.id in own and a.id not in pure:
            return False
    return True


def called(node: ast.Call, scope: Scope, found: Effects) -> None:
    function = node.func
    if isinstance(function, ast.Attribute) and not scope.is_member(function):
        add(function.value, scope, found)
    for a in _arguments(node):
        add(a, scope, found)
    call_itself(node, scope, found)


def _arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(k.value for k in node.keywords)]


def call_itself(node: ast.Call, scope: Scope, found: Effects) -> None:
    """What a call does once its arguments are there."""
    function, arguments, receiver = node.func, _arguments(node), mutates_receiver(node)
    if not isinstance(function, ast.Name | ast.Attribute):
        everything(node, scope, found)
        return
    if receiver is not None:
        _change(node, receiver, scope, found)
    elif pure_call(node, scope.pure, scope.program.by_name) and _knows(function, scope):
        name = function.id if isinstance(function, ast.Name) else function.attr
        look = glance if name in SHALLOW else read
        for a in arguments:
            look(a, scope, found)
        if isinstance(function, ast.Attribute):
            glance(function.value, scope, found)
        elif name in scope.pure:
            names, attributes = scope.program.outside.of(name)
            found.reads |= names
            found.heap_reads |= names | ({ATTRIBUTES} if attributes else set())
        found.fails(call_raises(node, scope))
    else:
        found.fails()
        found.other = True


def _knows(function: ast.Name | ast.Attribute, scope: Scope) -> bool:
    """Whether a call means what its name says: a builtin that is not hidden, a method of a builtin type."""
    if isinstance(function, ast.Name):
        return function.id in scope.pure or bool(scope.builtin(function))
    return not kind(scope.type_of(function.value)).startswith("object:")


def _change(node: ast.Call, receiver: ast.expr, scope: Scope, found: Effects) -> None:
    name, t = node.func.attr, scope.type_of(receiver)  # type: ignore[attr-defined]
    own = scope.program.by_name
    found.heap_writes.add(root(receiver))
    found.heap_reads.add(root(receiver))
    if kind(t) not in SIZED or "." + name in own:
        found.fails()
        found.other = True
        return
    if node.keywords and not pure_callbacks(node, scope.pure, own):
        found.other = True
    if name in {"extend", "update", "extendleft", "remove", "index"}:
        for a in node.args:
            read(a, scope, found)
    types = [scope.type_of(a) for a in node.args]
    fits, error = CHANGES.get((kind(t), name, len(types)), (None, ""))
    if fits is None or node.keywords or not fits(t, *types):
        found.fails()
    elif error and (types or not scope.nonempty(receiver)):
        found.fails(True, error)
    if name in {"insert", "pop"} and kind(t) == "list" and node.args:
        found.fails(not _fits_index(node.args[0], scope), "OverflowError")


def _fits_index(node: ast.expr, scope: Scope) -> bool:
    """Whether an index surely is small enough for a method: a larger one raises something else."""
    low, high = scope.interval(node)
    return low is not None and high is not None and low >= -LARGEST and high <= LARGEST


def _always(*types: Type) -> bool:
    return True


def _key(t: Type, key: Type, value: Type = None) -> bool:
    return hashable(key)


def _index(t: Type, index: Type, value: Type = None) -> bool:
    return is_int(index)


# By container, method and number of arguments: whether it bears these types (its own, its arguments'), and
# what it may raise then. What is not listed may raise anything.
CHANGES: dict[tuple[str, str, int], tuple[Callable[..., bool], str]] = {
    **{(owner, "clear", 0): (_always, "") for owner in ("list", "deque", "dict", "set")},
    **{(owner, "reverse", 0): (_always, "") for owner in ("list", "deque")},
    **{(owner, "append", 1): (_always, "") for owner in ("list", "deque")},
    **{(owner, "extend", 1): (lambda t, more: kind(more) in ITERABLE, "") for owner in ("list", "deque")},
    **{("set", name, 1): (_key, "") for name in ("add", "discard")},
    **{(owner, "pop", 0): (_always, "IndexError") for owner in ("list", "deque")},
    ("deque", "popleft", 0): (_always, "IndexError"),
    ("deque", "appendleft", 1): (_always, ""),
    ("list", "pop", 1): (_index, "IndexError"),
    ("list", "insert", 2): (_index, ""),
    ("list", "sort", 0): (lambda t: element(t) in ORDERED, ""),
    ("dict", "pop", 1): (_key, "KeyError"),
    ("dict", "pop", 2): (_key, ""),
    ("dict", "setdefault", 2): (_key, ""),
}


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
