"""What is known of one function, and which containers it made itself, so that nobody else can reach them
while it runs."""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from skyt.repair.rules.analysis.trees import children, walk, words
from skyt.repair.rules.analysis.types import Type, kind
from skyt.repair.rules.analysis.vocabulary import OWNERS
from skyt.repair.rules.facts import Parameter

DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp)
PASSING = (ast.Return, ast.Compare, ast.UnaryOp, ast.BinOp, ast.FormattedValue)
HARMLESS = OWNERS | {"[]", "[:]", "for", "test"}
READ = words("for in test len sorted list tuple set max min sum any all bool")  # uses that keep nothing of it


@dataclass
class FunctionInfo:
    """One function of the program with the types of its variables."""

    node: ast.FunctionDef
    owner: ast.ClassDef | None
    public: bool
    env: dict[str, Type] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()
    assigned: dict[str, list[ast.expr | None]] = field(default_factory=dict)
    binding: list[ast.AST] = field(default_factory=list)  # nodes that say something about types, in order
    made: frozenset[str] = frozenset()  # names of containers that are all made here
    owned: frozenset[str] = frozenset()  # of these, those that nobody else can reach
    captured: frozenset[str] = frozenset()
    nonnegative: set[str] | None = None  # found out when it is asked for

    def __post_init__(self) -> None:
        self.arguments = [x.arg for x in self.node.args.args]
        self.value_arguments = self.arguments[1:] if self.owner is not None else self.arguments  # not `self`
        self.given = dict(zip(self.value_arguments, self.parameters, strict=False))


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
    nodes = walk(info.node) if made else []
    parents = {id(c): p for p in nodes for c in children(p)}
    uses = [n for n in nodes if isinstance(n, ast.Name) and n.ctx.__class__ is ast.Load and n.id in made]
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
