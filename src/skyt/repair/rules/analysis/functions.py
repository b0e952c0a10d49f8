"""What is known of one function, and which containers it made itself, so that nobody else can reach them
while it runs."""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping

from skyt.repair.rules.analysis.syntax import BINDING, assignments_of
from skyt.repair.rules.analysis.trees import NESTED, children, in_order, own_nodes, walk, words
from skyt.repair.rules.analysis.types import Type, kind
from skyt.repair.rules.analysis.vocabulary import OWNERS
from skyt.repair.rules.facts import Facts

DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp)
PASSING = (ast.Return, ast.Compare, ast.UnaryOp, ast.BinOp, ast.FormattedValue)
HARMLESS = OWNERS | {"[]", "[:]", "for", "test"}
READ = words("for in test len sorted list tuple set max min sum any all bool")  # uses that keep nothing of it


class FunctionInfo:
    """One function of the program with the types of its variables."""

    def __init__(self, node: ast.FunctionDef, owner: ast.ClassDef | None, facts: Facts) -> None:
        self.node, self.owner = node, owner
        entry = (owner or node).name == facts.name and (owner is not None) == (facts.kind == "class")
        parameters = facts.of(node.name) if entry else ()
        self.public = entry and (bool(parameters) or node.name in facts.public)
        self.arguments = [x.arg for x in node.args.args]
        self.value_arguments = self.arguments[1:] if owner is not None else self.arguments  # without `self`
        self.given = dict(zip(self.value_arguments, parameters, strict=False))
        self.nodes = in_order(node)
        nested = [n for n in self.nodes if n.__class__ in NESTED and n is not node]
        self.captured = frozenset(n.id for n in walk(nested) if isinstance(n, ast.Name))
        self.binding = [n for n in own_nodes(node) if n.__class__ in BINDING]  # what tells of types, in order
        self.assigned: dict[str, list[ast.expr | None]] = {}
        for name, value in assignments_of(node, self.nodes):
            self.assigned.setdefault(name, []).append(value)
        self.env: dict[str, Type] = {}
        self.made: frozenset[str] = frozenset()  # names of containers that are all made here
        self.owned: frozenset[str] = frozenset()  # of these, those that nobody else can reach
        self.nonnegative: set[str] | None = None  # found out when it is asked for


def made_names(info: FunctionInfo, own: Container[str]) -> frozenset[str]:
    """Local variables whose every value is a container made here. `own` has the methods of the program, with
    a dot."""
    return frozenset(
        name
        for name, values in info.assigned.items()
        if name not in info.arguments and name not in info.captured
        if all(v is not None and makes_container(v, info.env.get(name), own) for v in values)
    )


def owned_names(info: FunctionInfo, own: Container[str]) -> frozenset[str]:
    """Of these, those that nobody else can reach while the function runs."""
    made = made_names(info, own)
    parents = {id(c): p for p in info.nodes if made for c in children(p)}
    uses = [n for n in info.nodes if isinstance(n, ast.Name) and n.ctx.__class__ is ast.Load and n.id in made]
    return made.difference(n.id for n in uses if not _harmless_use(n, parents))


def makes_container(value: ast.expr, t: Type, own: Container[str]) -> bool:
    """Whether evaluating this makes a new container that nothing else names. `t` is its type, `own` has the
    methods of the program, with a dot."""
    match value:
        case ast.Call(func=ast.Name(id=name)):
            return name in {"list", "dict", "set", "sorted"}
        case ast.Call(func=ast.Attribute(value=ast.Name(id="collections"))):
            return True
        case ast.Call(func=ast.Attribute(attr="split" | "splitlines" | "copy" as name)):
            return kind(t) == "list" and "." + name not in own
        case ast.Subscript(slice=ast.Slice()):
            return kind(t) == "list"
        case ast.BinOp(left=left, op=op):
            plain = isinstance(op, ast.Add | ast.Mult) and kind(t) == "list"
            return plain or isinstance(left, ast.List | ast.ListComp)
    return isinstance(value, DISPLAYS)


def _harmless_use(node: ast.Name, parents: Mapping[int, ast.AST]) -> bool:
    use, parent = use_of(node, parents), parents.get(id(node))
    if use in HARMLESS or use.startswith(".") or isinstance(parent, PASSING):
        return True
    match parent:
        case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join")):
            return True
    return False


def use_of(node: ast.expr, parents: Mapping[int, ast.AST]) -> str:
    """What is done with a container: an entry or a slice is asked for (`[]`, `[:]`), a method is called
    (`.append`), a loop goes through it (`for`), it is searched (`in`), only its truth counts (`test`), or a
    builtin is given it alone (`len`). Empty for anything else."""
    match parent := parents.get(id(node)):
        case ast.Subscript(value=whole, slice=index) if whole is node:
            return "[:]" if isinstance(index, ast.Slice) else "[]"
        case ast.Attribute(attr=name):
            outer = parents.get(id(parent))
            return "." + name if isinstance(outer, ast.Call) and outer.func is parent else ""
        case ast.For(iter=whole) | ast.comprehension(iter=whole):
            return "for" if whole is node else ""
        case ast.Compare(left=left, ops=ops):
            return "in" if left is not node and all(isinstance(op, ast.In | ast.NotIn) for op in ops) else ""
        case ast.Call(func=ast.Name(id=name), args=[whole]) if whole is node:
            return name
    return "test" if boolean_place(node, parents) else ""


def boolean_place(node: ast.AST, parents: Mapping[int, ast.AST]) -> bool:
    """Whether only the truth of an expression counts."""
    match parent := parents.get(id(node)):
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return test is node
        case ast.BoolOp():
            return boolean_place(parent, parents)
        case ast.UnaryOp(op=ast.Not()):
            return True
    return False
