"""Helpers on syntax trees that every rule uses: names, copies, substitution, negation, shapes of blocks."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from skyt.repair.rules.analysis.trees import CHILDREN, KINDS, NESTED, SHALLOW, T, clone, walk

LOOPS = (ast.For, ast.While)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BLOCKS = ("body", "orelse")
OF_ONE_LOOP = {kind: tuple(f for f in kind._fields if f in BLOCKS) for kind in KINDS}
OF_ONE_LOOP |= {**dict.fromkeys(LOOPS, ("orelse",)), **dict.fromkeys(NESTED, ())}
LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)

Operator = type[ast.cmpop]
FLIPPED: dict[Operator, Operator] = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
_LESS = ((ast.Lt, ast.GtE), (ast.Gt, ast.LtE))
_EXACT = ((ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot))
ORDER_OPPOSITE: dict[Operator, Operator] = {a: b for x, y in _LESS for a, b in ((x, y), (y, x))}
OPPOSITE: dict[Operator, Operator] = {a: b for x, y in _EXACT for a, b in ((x, y), (y, x))}


def load(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def store(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Store())


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign(targets=[store(name)], value=value, lineno=0)


def call(function: str | ast.expr, *args: ast.expr) -> ast.Call:
    target = load(function) if isinstance(function, str) else function
    return ast.Call(func=target, args=list(args), keywords=[])


def compare(left: ast.expr, op: type[ast.cmpop], right: ast.expr) -> ast.Compare:
    return ast.Compare(left=left, ops=[op()], comparators=[right])


def read_names(node: ast.AST | Sequence[ast.AST]) -> set[str]:
    """Names loaded anywhere inside (nested functions included)."""
    return {n.id for n in walk(node) if n.__class__ is ast.Name and n.ctx.__class__ is ast.Load}


def stored_names(node: ast.AST | Sequence[ast.AST]) -> set[str]:
    """Names bound anywhere inside, except in nested functions and comprehensions."""
    found: set[str] = set()
    for n in walk(node, SHALLOW):
        if n.__class__ is ast.Name:
            if n.ctx.__class__ is not ast.Load:
                found.add(n.id)
        elif n.__class__ is ast.alias:
            found.add((n.asname or n.name).split(".")[0])
        elif n.__class__ in DEFINITIONS:
            found.add(n.name)
    return found


def count_reads(node: ast.AST | Sequence[ast.AST], name: str) -> int:
    return sum(n.__class__ is ast.Name and n.id == name and n.ctx.__class__ is ast.Load for n in walk(node))


def mentions(node: ast.AST | Sequence[ast.AST], names: set[str] | frozenset[str]) -> bool:
    return any(isinstance(n, ast.Name) and n.id in names for n in walk(node))


def substitute(node: T, values: Mapping[str, ast.expr]) -> T:
    """Replace loads of names by expressions (copied at each place)."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in values:
        return clone(values[node.id])  # type: ignore[return-value]
    for name in CHILDREN[node.__class__]:
        part = getattr(node, name, None)
        if isinstance(part, list):
            part[:] = [substitute(x, values) if isinstance(x, ast.AST) else x for x in part]
        elif isinstance(part, ast.AST):
            setattr(node, name, substitute(part, values))
    return node


NAMING: dict[type, str] = {ast.Name: "id", ast.arg: "arg", ast.FunctionDef: "name", ast.ClassDef: "name"}


def rename(node: T, names: Mapping[str, str]) -> T:
    """Rename variables everywhere, parameters included; the methods of a class are attributes."""
    methods = set[int]()
    for n in walk(node):
        if n.__class__ is ast.ClassDef:
            methods.update(map(id, n.body))
        if n.__class__ in NAMING and id(n) not in methods:
            name = getattr(n, NAMING[n.__class__])
            setattr(n, NAMING[n.__class__], names.get(name, name))
    return node


def leaves(body: Sequence[ast.stmt], by: tuple[type, ...] = LEAVING) -> bool:
    """Whether control never runs past the end of this block: every path ends with a jump."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return bool(last.orelse) and leaves(last.body, by) and leaves(last.orelse, by)
    if isinstance(last, ast.While):
        return by is LEAVING and is_true(last.test) and not own_breaks(last.body)
    return isinstance(last, by)


def returns(body: Sequence[ast.stmt]) -> bool:
    """Whether every path through this block ends in return or raise."""
    return leaves(body, by=(ast.Return, ast.Raise))


def own_breaks(body: Sequence[ast.stmt], kinds: tuple[type, ...] = (ast.Break,)) -> list[ast.AST]:
    """The break (or continue) statements that belong to the loop with this body."""
    return [n for n in walk(body, OF_ONE_LOOP) if isinstance(n, kinds)]


def blocks(s: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statement lists directly inside a statement or module."""
    inner = [getattr(s, name, None) for name in BLOCKS]
    yield from (block for block in inner if isinstance(block, list) and block)


def is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and bool(node.value) is True


def is_quantifier(node: ast.expr) -> bool:
    """`any(…)` or `all(…)` over a generator, possibly negated."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return is_quantifier(inner)
        case ast.Call(func=ast.Name(id="any" | "all"), args=[ast.GeneratorExp()]):
            return True
    return False


def int_value(node: ast.expr) -> int | None:
    """The value of an integer literal, a minus sign included; not of True and False."""
    match node:
        case ast.Constant(value=value) if type(value) is int:
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand) if (value := int_value(operand)) is not None:
            return -value
    return None


def number(value: int) -> ast.expr:
    if value < 0:
        return ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=-value))
    return ast.Constant(value=value)


def opposite(op: Operator) -> Operator | None:
    """The comparison that holds exactly where this one does not, between integers."""
    return OPPOSITE.get(op) or ORDER_OPPOSITE.get(op)


def negate(node: ast.expr) -> ast.expr:
    """`not node`, without a double negation; comparisons that are exact opposites are turned round."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return clone(inner)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in OPPOSITE:
            return compare(clone(left), OPPOSITE[type(op)], clone(right))
        case ast.Constant(value=bool(value)):
            return ast.Constant(value=not value)
    return ast.UnaryOp(op=ast.Not(), operand=clone(node))


def operands(node: ast.BoolOp) -> list[ast.expr]:
    """The operands of an `and` or `or`, with those of the same connective inside it."""
    op = node.op.__class__
    inner = [v.values if isinstance(v, ast.BoolOp) and v.op.__class__ is op else [v] for v in node.values]
    return [operand for values in inner for operand in values]


def conjuncts(node: ast.expr, holds: bool = True) -> list[ast.expr]:
    """The conditions that all hold when `node` holds, or when it does not."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return conjuncts(inner, not holds)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And if holds else ast.Or):
            return [c for value in values for c in conjuncts(value, holds)]
    return [node if holds else negate(node)]


def local_functions(tree: ast.Module) -> Iterator[tuple[ast.ClassDef | None, ast.FunctionDef]]:
    """Functions at the top of the module and methods of its classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield None, node
        elif isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.FunctionDef):
                    yield node, item


def keeps_sets(old: ast.AST | Sequence[ast.AST], new: ast.AST | Sequence[ast.AST]) -> bool:
    """Whether every set of constants is made in the way it was made before. The order of a set depends on it,
    and Python makes one that a loop goes through in another way than one that is a value."""
    made = _constant_sets(new)
    return not made or made <= _constant_sets(old)


def _constant_sets(where: ast.AST | Sequence[ast.AST]) -> Counter[tuple[bool, str]]:
    """(whether a loop goes through it, its text) for sets of constants."""
    nodes = walk(where)
    found = [n for n in nodes if isinstance(n, ast.Set) and len(n.elts) > 2 and not read_names(n)]
    looped = [n.iter for n in nodes if isinstance(n, ast.For | ast.comprehension)] if found else []
    return Counter((n in looped, ast.unparse(n)) for n in found)


def in_order(generators: Sequence[ast.comprehension], inside: bool = False) -> bool:
    """Whether no part of a comprehension reads a variable that it or a later part binds. The first source is
    evaluated outside, where its names may mean something else, unless it is `inside` too."""
    later: set[str] = set()
    for k, g in reversed([*enumerate(generators)]):
        ahead = read_names(g.ifs) & later
        later |= stored_names(g.target)
        if ahead or (read_names(g.iter) & later and (k or inside)):
            return False
    return True


BINDERS = frozenset({ast.Assign, ast.AugAssign, ast.For, ast.comprehension, ast.FunctionDef, ast.arg})
BINDING = BINDERS - {ast.arg} | {ast.Return, ast.Call, ast.Lambda}


def bound_anywhere(where: ast.AST | Sequence[ast.AST]) -> set[str]:
    """Every name that some scope inside binds, methods included."""
    return {*map(binds, walk(where))} - {""}


def binds(n: ast.AST) -> str:
    """The name that a node binds."""
    if n.__class__ is ast.Name and n.ctx.__class__ is ast.Load:
        return ""
    return n.name if isinstance(n, ast.alias) else getattr(n, NAMING.get(n.__class__, ""), "")


def bound_in(function: ast.FunctionDef) -> set[str]:
    """The parameters of a function, and every name that is bound in its body."""
    return bound_anywhere([function.args, *function.body])


def loaded(target: ast.expr) -> ast.expr:
    """A target as the expression that reads it."""
    node = clone(target)
    node.ctx = ast.Load()  # type: ignore[attr-defined]
    return node


def assignments_of(function: ast.FunctionDef, nodes: list[ast.AST]) -> Iterator[tuple[str, ast.expr | None]]:
    """(name, value) for every binding in a function with these nodes; None unless plainly assigned."""
    for node in nodes:
        if node.__class__ not in BINDERS:
            continue
        match node:
            case ast.Assign(targets=targets, value=value):
                alone = len(targets) == 1 or isinstance(value, ast.Constant)  # else one object with two names
                for target in targets:
                    yield from _targets(target, value if alone else None)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                yield name, ast.BinOp(left=loaded(target), op=op, right=value)
            case ast.For(target=target, iter=source) | ast.comprehension(target=target, iter=source):
                of_range = isinstance(source, ast.Call) and getattr(source.func, "id", "") == "range"
                yield from _targets(target, source if of_range and isinstance(target, ast.Name) else None)
            case ast.FunctionDef(name=name) if node is not function:
                yield name, None
            case ast.arg(arg=name) if node not in function.args.args:
                yield name, None


def _targets(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List):
        parts = value.elts if isinstance(value, ast.Tuple | ast.List) else [None] * len(target.elts)
        for item, part in zip(target.elts, parts, strict=False):
            yield from _targets(item, part)
