"""Effects: what an expression or statement reads, writes and may raise, so that rules know what may move.

A kind of node that is not listed does everything. The heap is divided by roots: `stack.append(x)` writes the
object that `stack` names. A root that its function owns (made there, never handed out) can only be reached by
that name; all others may be one object. So may `a.x` and `b.x`, but never `a.x` and `b.y`.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skyt.repair.rules.analysis.raising import ANYTHING, UNKNOWN, fits_target, lookup, may_raise
from skyt.repair.rules.analysis.syntax import loaded, read_names, stored_names
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, OPERATORS, children, walk
from skyt.repair.rules.analysis.types import IMMUTABLE, MUTATORS, PURE, SIZED, called_name, element, kind

if TYPE_CHECKING:
    from skyt.repair.rules.analysis.scope import Scope

ATTRIBUTES = ".*"  # a heap root: any attribute of any object
LEAVES = OPERATORS | {ast.Constant, ast.Pass}
BUILT_IN: dict[str, type] = {"char": str, **{t.__name__: t for t in (list, dict, set, tuple, str, deque)}}
PLAIN = (ast.Attribute, ast.List, ast.Tuple, ast.Slice, ast.Expr, ast.Delete, ast.keyword, ast.JoinedStr)


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

    def fails(self, condition: bool = True) -> None:
        if condition:
            self.errors.add(UNKNOWN)

    def include(self, other: Effects) -> None:
        """These effects and those."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) | value)

    def look(self, scope: Scope, *nodes: ast.expr, deep: bool = False) -> None:
        """Looking at the own parts of values; `deep`: also into their elements, where these can change."""
        for node in nodes:
            t = scope.type_of(node)
            if t not in IMMUTABLE:
                self.heap_reads.add(root(node))
                self.heap_writes |= {root(node)} if scope.program.uses_up(t) else set()
                if deep and not (isinstance(t, tuple) and all(x in IMMUTABLE for x in t[1:])):
                    self.heap_reads |= {UNKNOWN, ATTRIBUTES}

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
        return not any(e.total and not e.heap_reads for e in (first, second))
    for one, two in ((first, second), (second, first)):
        if one.writes & (two.reads | two.writes):
            return True
        if _meet(one.heap_writes, two.heap_reads | two.heap_writes, scope):
            return True
        if one.raises and not two.heap_writes <= scope.owned:  # which can be seen after an exception
            return True
    both = first.errors | second.errors
    return first.raises and second.raises and (len(both) > 1 or UNKNOWN in both)


def disturbs(changed: Effects, seen: Effects, scope: Scope) -> bool:
    """Whether running the first may change the value of the second."""
    if changed.writes & seen.reads or _meet(changed.heap_writes, seen.heap_reads, scope):
        return True
    return changed.other and not seen.heap_reads <= scope.owned


def _meet(writes: set[str], touched: set[str], scope: Scope) -> bool:
    owned = scope.owned
    for w in writes:
        for t in touched:
            if w == t or (ATTRIBUTES in (w, t) and w[0] == t[0] == "."):
                return True
            if w[0] != "." and t[0] != "." and w not in owned and t not in owned:
                return True
    return False


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


def operation(node: ast.expr, scope: Scope) -> Effects:
    """The effects of an operation, without those of its operands where these have none but to raise."""
    whole, found = scope.effects(node), Effects()
    if not whole.pure:
        return whole
    _add_itself(node, scope, found)
    return found


def root(node: ast.expr) -> str:
    """The name under which the heap object of this expression is reached; UNKNOWN if it is no plain name."""
    return node.id if isinstance(node, ast.Name) else UNKNOWN


def _add(node: ast.AST, scope: Scope, found: Effects) -> None:
    if node.__class__ is ast.Name:
        (found.reads if node.ctx.__class__ is ast.Load else found.writes).add(node.id)
    elif node.__class__ not in LEAVES:
        for part in _parts(node):
            _add(part, scope, found)
        _add_itself(node, scope, found)


def _parts(node: ast.AST) -> list[ast.AST]:
    """What runs before a node."""
    match node:
        case ast.Call(func=ast.Attribute() as function):
            return [*_parts(function), *arguments(node)]
        case ast.Call():
            return [*arguments(node)]
        case ast.Attribute(value=owner):
            return [owner] if called_name(node)[0] == "." else []
        case ast.FunctionDef() | ast.Lambda():
            return []
    return [node.generators[0].iter] if isinstance(node, COMPREHENSIONS) else children(node)


def arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(k.value for k in node.keywords)]


def _add_itself(node: ast.AST, scope: Scope, found: Effects) -> None:
    """What a node does beside its parts."""
    match node:
        case ast.Call(func=ast.Name() | ast.Attribute()):
            _add_call(node, scope, found)
        case ast.Attribute(value=owner, attr=attr, ctx=ctx) if called_name(node)[0] == ".":
            place, whose = "." + attr, kind(scope.type_of(owner))
            if not isinstance(ctx, ast.Load):
                found.fails(not whose.startswith("object:"))
                found.heap_writes.add(place)
            elif not hasattr(BUILT_IN.get(whose), attr):  # a method
                found.fails(not scope.has_attribute(whose, attr))
                found.heap_reads |= {place, root(owner)} if place in PURE else {place}
        case ast.Compare(left=left, ops=ops, comparators=rights):
            for op, a, b in zip(ops, [left, *rights], rights, strict=False):
                if not isinstance(op, ast.Is | ast.IsNot):
                    found.look(scope, a, b, deep=True)
                    found.errors |= may_raise(op.__class__.__name__, [a, b], scope)
        case ast.Subscript(value=owner, ctx=ctx):
            if not isinstance(ctx, ast.Load) or scope.program.inserts(scope.type_of(owner)):
                found.heap_writes.add(root(owner))
            found.look(scope, owner)
            found.errors |= lookup(node, scope)
        case ast.BinOp(left=left, op=op, right=right):
            if isinstance(op, ast.Mod) and scope.program.inserts(scope.type_of(right)):  # `'%(a)s' % d`
                found.heap_writes.add(root(right))
            found.look(scope, left, right)
            found.errors |= may_raise(op.__class__.__name__, [left, right], scope)
        case ast.UnaryOp(op=op, operand=operand) if not isinstance(op, ast.Not):
            found.errors |= may_raise(op.__class__.__name__, [operand], scope)
        case ast.BoolOp(values=tests):
            found.look(scope, *tests)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.UnaryOp(operand=test):
            found.look(scope, test)
            found.jumps |= isinstance(node, ast.While)
        case ast.For(target=target, iter=source) | ast.comprehension(target=target, iter=source):
            found.look(scope, source)
            found.errors |= may_raise("for", [source], scope)
            gone_through = {root(source), *read_names(source)}
            resized = found.other or _meet(found.heap_writes, gone_through, scope)
            found.fails(resized and kind(scope.type_of(source)) not in {"list", "tuple", "str", "char"})
            found.fails(not fits_target(target, element(scope.type_of(source))))
            found.look(scope, *getattr(node, "ifs", []))
        case ast.Assign(targets=targets, value=value):
            found.fails(not all(fits_target(target, scope.type_of(value)) for target in targets))
        case ast.AugAssign(target=target, value=value):
            _add(old := loaded(target), scope, found)
            if not scope.immutable(old):
                found.heap_writes.add(root(target))
            found.look(scope, value, deep=True)
            found.fails()
        case ast.Return() | ast.Break() | ast.Continue() | ast.Raise():
            found.jumps = True
            found.fails(isinstance(node, ast.Raise))
        case ast.FormattedValue(value=value, format_spec=spec):
            found.look(scope, value, deep=True)
            found.errors |= ANYTHING if spec else may_raise("repr", [value], scope)
        case ast.Set(elts=keys) | ast.Dict(keys=keys):
            found.fails(not all(k is not None and scope.immutable(k) for k in keys))
        case ast.Lambda(args=parameters, body=body):  # called here, or not at all
            _add_inner([body], {a.arg for a in parameters.args}, scope, found)
            found.fails()
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            _add_inner(children(node), stored_names([g.target for g in node.generators]), scope, found)
            found.fails(isinstance(node, ast.SetComp | ast.DictComp))
        case _ if not isinstance(node, PLAIN):  # which may do everything
            names = {UNKNOWN, ATTRIBUTES, *(n.id for n in walk(node) if isinstance(n, ast.Name))}
            found.include(Effects(names, names, names, names, {UNKNOWN}, jumps=True, other=True))


def _add_inner(nodes: Sequence[ast.AST], own: set[str], scope: Scope, found: Effects) -> None:
    """What runs where other variables have these names."""
    inner, scope = Effects(), scope.without(Effects(writes=own))
    for node in nodes:
        _add(node, scope, inner)
    inner.reads -= own
    inner.writes -= own
    found.include(inner)


def mutates_receiver(node: ast.Call) -> ast.expr | None:
    """The object a method call changes in place, if the method's name says that it does."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        return node.func.value
    return None


def pure_call(node: ast.Call, pure: Container[str], own: Container[str] = ()) -> bool:
    """Whether a call has no effect but its result (it may raise, it may read its arguments). `own` are the
    names of the program's functions, and of its methods with a dot."""
    name = called_name(node.func)
    return (name in pure or (name in PURE and name not in own)) and pure_callbacks(node, pure, own)


def pure_callbacks(node: ast.Call, pure: Container[str], own: Container[str]) -> bool:
    """Whether what a call is given to call has no effects."""
    given = arguments(node)
    inside = [n for a in given if isinstance(a, ast.Lambda) for n in walk(a.body) if isinstance(n, ast.Call)]
    if any(isinstance(a, ast.Name) and a.id in own and a.id not in pure for a in given):
        return False
    return all(pure_call(n, pure, own) for n in inside)


def _add_call(node: ast.Call, scope: Scope, found: Effects) -> None:
    """What a call does once its arguments are there."""
    name, own = called_name(node.func), scope.program.by_name
    owner = [node.func.value] if isinstance(node.func, ast.Attribute) and name[0] == "." else []
    raised = ANYTHING if node.keywords or name in own else may_raise(name, [*owner, *node.args], scope)
    if (receiver := mutates_receiver(node)) is not None:
        found.heap_writes.add(root(receiver))
        found.heap_reads.add(root(receiver))
        known = kind(scope.type_of(receiver)) in SIZED and name not in own
        known = known and pure_callbacks(node, scope.pure, own)
        if name in {".extend", ".update", ".extendleft", ".remove"}:
            found.look(scope, *node.args, deep=True)
    else:
        own_method = any(kind(scope.type_of(o)).startswith("object:") for o in owner)
        known = pure_call(node, scope.pure, own) and not own_method
        found.look(scope, *owner)
        found.look(scope, *arguments(node), deep=True)
        if name in scope.pure:  # which may read what is captured, and what is not owned
            found.reads |= scope.captured
            found.heap_reads |= {UNKNOWN, ATTRIBUTES}
    found.other |= not known
    found.errors |= raised if known else ANYTHING
