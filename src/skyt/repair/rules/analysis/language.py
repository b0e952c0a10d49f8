"""The language of the rules: the part of Python in which their idea of what runs when is true.

Everything else is refused, and a program that uses it keeps its text. So the analysis never meets a caught
exception, a generator that is held, a closure that changes, a decorator, reflection, an own operator, or a
value that is called. A new construct has to be entered here, and in the tables of effects.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Sequence

from skyt.repair.rules.analysis import types
from skyt.repair.rules.analysis.reach import free_names
from skyt.repair.rules.analysis.syntax import binds, bound_anywhere, in_order, read_names, stored_names
from skyt.repair.rules.analysis.trees import OPERATORS, children, text, walk, words
from skyt.repair.rules.analysis.types import BUILTINS, LAZY, MODULE_MEMBERS, MUTATORS, PURE, called_name

NODES = (OPERATORS - {ast.MatMult}) | {
    getattr(ast, name)
    for name in words(
        "Module FunctionDef ClassDef Import alias arguments arg Return Delete Assign AugAssign For While If "
        "Raise Expr Pass Break Continue BoolOp BinOp UnaryOp Lambda IfExp Dict Set ListComp SetComp DictComp "
        "GeneratorExp comprehension Compare Call keyword FormattedValue JoinedStr Constant Attribute "
        "Subscript Slice Name List Tuple"
    )
}
NAMES = frozenset(dir(builtins))
ERRORS = frozenset(
    n for n in NAMES if isinstance(getattr(builtins, n), type) and issubclass(getattr(builtins, n), Exception)
) - words("StopIteration StopAsyncIteration RecursionError MemoryError SystemError")
REFLECTION = words(
    "globals locals vars eval exec compile getattr setattr hasattr delattr dir id __import__ memoryview "
    "super breakpoint open input help"
)
REFLECTING_MODULES = words("sys inspect builtins importlib gc ctypes types")
TYPES = words("int str float bool list dict set tuple frozenset")
FREE = words("typing dataclasses abc unittest doctest time random os")
# Special methods that only an operator, a builtin or a loop runs.
UNASKED = {f"__{name}__" for name in words("init str repr len contains iter eq ne lt le gt ge hash getitem")}
IDENTITY = (ast.Is, ast.IsNot)
OF_CLASSES = {("dict", "fromkeys"), ("str", "maketrans")}
KEYWORDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("sorted", ".sort"), words("key reverse")),
    **dict.fromkeys(("min", "max"), words("key default")),
    **dict.fromkeys((".popitem", ".move_to_end"), words("last")),
    "enumerate": words("start"),
    "print": words("end sep"),
    "re.sub": words("flags count"),
    "collections.deque": words("maxlen"),
}
CONTAINERS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.Lambda)
BUILT = (str, bytes, list, dict, set, int, float, re.Pattern, re.Match, range, Counter, deque, OrderedDict)
OF_BUILTINS = frozenset(name for t in BUILT for name in dir(t))
ANNOTATIONS = ("annotation", "returns")
COPIES = words("set frozenset list tuple dict sorted")
ATOMS = words("range enumerate zip ord chr len str int")  # nothing in what they give can change
LATER = ("collections.defaultdict", 0)  # calls it whenever a key is missing
CALLBACKS = {("re.sub", 1), ("map", 0), ("filter", 0), LATER}  # and their places


def special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def reflective(tree: Sequence[ast.AST]) -> str | None:
    """What in a program looks at the program itself, demo code included; None if nothing does."""
    for n in walk(tree):
        if binds(n) in {"__name__", "__class_getitem__"}:
            return f"another {binds(n)}"
        match n:
            case ast.Name(id=name) if name in REFLECTION or (special(name) and name != "__name__"):
                return name
            case ast.Attribute(attr=name) if special(name):
                return f".{name}"
            case ast.Import() | ast.ImportFrom():
                names = {getattr(n, "module", None) or "", *(a.name for a in n.names)}
                if names & REFLECTING_MODULES:
                    return f"import {max(names)}"
    return None


def before_cleaning(kept: Sequence[ast.stmt]) -> str | None:
    """What cleaning (annotations, imports, names of builtins) must not touch."""
    fields = {id(s) for c in kept if isinstance(c, ast.ClassDef) for s in c.body}
    names = {getattr(n, part, None) for n in walk(kept) for part in ("id", "arg", "asname")} if fields else ()
    if any(name and name.startswith("__") and not special(name) for name in names):
        return "a name that Python changes in a class"
    defined = [f for f in walk(kept) if isinstance(f, ast.FunctionDef)]
    inner = [f for f in defined if f not in kept and id(f) not in fields]
    noted = read_names([n for f in inner for n in (f.args, f.returns) if n is not None])
    if noted - TYPES or noted & bound_anywhere(kept):
        return "an annotation that a call evaluates"
    if unasked := [f.name for f in defined if special(f.name) and f.name not in UNASKED]:
        return unasked[0]
    for n in walk(kept):
        if any(isinstance(x, ast.Call) for part in ANNOTATIONS for x in walk(getattr(n, part, None) or [])):
            return "a call in an annotation"
        if isinstance(n, ast.AnnAssign):
            if n.value is None and id(n) not in fields:
                return "an annotation without a value"
        elif n.__class__ not in NODES and not isinstance(n, ast.ImportFrom):
            return n.__class__.__name__
    return None


def beyond(tree: ast.Module) -> str | None:
    """What in a program is outside the language; None if it is inside."""
    nodes = walk(tree)
    unknown = next((n.__class__.__name__ for n in nodes if n.__class__ not in NODES), None)
    return unknown or next(Checker(tree, nodes).reasons(), None)


def immutable(n: ast.expr) -> bool:
    """A constant, with a minus sign or not, or a tuple of them."""
    match n:
        case ast.Tuple(elts=elements):
            return all(map(immutable, elements))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()) | ast.Constant():
            return True
    return False


def flat(n: ast.expr) -> bool:
    """A container of what cannot change. Of anything else a function could change what is in it."""
    if isinstance(n, ast.Call) and called_name(n.func) in COPIES:
        return all(map(flat, n.args))
    inside = walk(n)
    made = {called_name(x.func) for x in inside if isinstance(x, ast.Call)}
    return made <= ATOMS and not any(isinstance(x, CONTAINERS) for x in inside[1:])


def _singleton(n: ast.expr) -> bool:
    return isinstance(n, ast.Constant) and (n.value is None or isinstance(n.value, bool))


def _stored(nodes: list[ast.AST]) -> set[str]:
    return {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}


def _shown(n: ast.AST) -> str:
    """The first line of something, for a reason."""
    return f"`{text(n).partition(chr(10))[0][:60]}`"


def _plain(a: ast.arguments) -> bool:
    return not (a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs)


class Checker:
    """Goes through a program, and says what in it is outside the language."""

    def __init__(self, tree: ast.Module, nodes: list[ast.AST]) -> None:
        self.tree, self.nodes = tree, nodes
        self.parents = {id(c): p for p in nodes for c in children(p)}
        defined = [n for n in nodes if isinstance(n, ast.FunctionDef)]
        self.methods = {n.name for n in defined if isinstance(self._parent(n), ast.ClassDef)}
        self.functions = {n.name for n in defined if not isinstance(self._parent(n), ast.ClassDef)}
        self.classes = {s.name for s in tree.body if isinstance(s, ast.ClassDef)}
        assigned = [(t, s.value) for s in tree.body if isinstance(s, ast.Assign) for t in s.targets]
        self.variables = {t.id: value for t, value in assigned if isinstance(t, ast.Name)}
        self.modules = {a.name for s in tree.body if isinstance(s, ast.Import) for a in s.names}
        self.fixed = BUILTINS | self.modules | {getattr(s, "name", "") for s in tree.body}
        attributes = [n for n in nodes if isinstance(n, ast.Attribute)]
        self.attributes = {n.attr for n in attributes if not isinstance(n.ctx, ast.Load)}

    def _parent(self, n: ast.AST | None) -> ast.AST | None:
        return self.parents.get(id(n))

    def reasons(self) -> Iterator[str]:
        """What in the program is outside."""
        yield from (_shown(s) for s in self.tree.body if not self._top(s))
        yield from self._misnamed()
        yield from (_shown(n) for n in self.nodes if not self._inside(n, self._parent(n)))

    def _top(self, s: ast.stmt) -> bool:
        match s:
            case ast.Import(names=names):
                free = MODULE_MEMBERS.keys() | (FREE - read_names(self.tree))
                return all(a.asname is None and a.name in free for a in names)
            case ast.ClassDef(bases=[], keywords=[], decorator_list=[], body=body):
                return all(isinstance(m, ast.FunctionDef | ast.Pass) for m in body)
            case ast.Assign(targets=[ast.Name()]):
                return True
        return isinstance(s, ast.FunctionDef | ast.Pass)

    def _misnamed(self) -> Iterator[str]:
        """Every name of the module means one thing, and no name hides a builtin, a module or a definition."""
        body = self.tree.body
        top = [name for s in body for name in stored_names(s)]
        nested = [n for n in self.nodes if isinstance(self._parent(n), ast.FunctionDef)]
        names = [*top, *(n.name for n in nested if isinstance(n, ast.FunctionDef))]
        if len(set(names)) != len(names):
            yield "a name that is defined twice"
        local = {n.arg for n in self.nodes if isinstance(n, ast.arg)}
        local |= _stored(walk([s for s in body if not isinstance(s, ast.Assign)]))
        known = local | _stored(self.nodes) | set(names)
        hidden = (local & set(names)) | ((known & (NAMES | set(MODULE_MEMBERS))) - self.modules)
        yield from (f"{name}, which has another meaning," for name in sorted(hidden))
        unknown = set[str]().union(*map(free_names, body)) - set(top) - BUILTINS - ERRORS - {"print"}
        yield from (f"{name}, which nobody defines," for name in sorted(unknown))

    def _inside(self, n: ast.AST, parent: ast.AST | None) -> bool:
        match n:
            case ast.Name(ctx=ast.Load()):
                return self._named(n, parent)
            case ast.Attribute():
                return self._attribute(n, parent)
            case ast.Call():
                return self._call(n, parent)
            case ast.FunctionDef(args=parameters):
                constant = not any(isinstance(d, ast.Tuple) or not immutable(d) for d in parameters.defaults)
                return constant and not n.decorator_list and _plain(parameters) and self._function(n, parent)
            case ast.Lambda(args=parameters, body=body):
                nested = any(isinstance(x, ast.Lambda | ast.GeneratorExp) for x in walk(body))
                hidden = _stored(walk(body)) & {x.arg for x in parameters.args}
                plain = _plain(parameters) and not parameters.defaults and not nested and not hidden
                return plain and self._called_there(n)
            case ast.GeneratorExp():
                return self._used_up(n) and in_order(n.generators)
            case ast.ClassDef() | ast.Import():
                return isinstance(parent, ast.Module)
            case ast.Constant(value=value):
                return type(value) in (int, str, bool, float, type(None))
            case ast.Delete(targets=targets):
                return all(isinstance(t, ast.Subscript) for t in targets)
            case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name), keywords=[]), cause=None):
                return name in ERRORS
            case ast.Dict(keys=keys):
                return None not in keys
            case ast.Compare(left=left, ops=ops, comparators=rights):
                sides = zip(ops, [left, *rights], rights, strict=False)
                return all(_singleton(a) or _singleton(b) for op, a, b in sides if isinstance(op, IDENTITY))
            case ast.For(target=target) | ast.comprehension(target=target):
                variables = all(isinstance(t, ast.Name | ast.Tuple | ast.List) for t in walk(target))
                return variables and not getattr(n, "is_async", 0)
            case ast.ListComp() | ast.SetComp() | ast.DictComp():
                return in_order(n.generators)
        return not isinstance(n, ast.Raise)

    def _function(self, n: ast.FunctionDef, parent: ast.AST | None) -> bool:
        if isinstance(parent, ast.ClassDef):
            runs = special(n.name) and n.name != "__init__" and not self._only_attributes(parent)
            return bool(n.args.args) and not runs
        if not isinstance(parent, ast.FunctionDef) or not isinstance(self._parent(parent), ast.Module):
            return isinstance(parent, ast.Module)
        # A nested function may read parameters that its outer function never assigns.
        siblings = {s.name for s in parent.body if isinstance(s, ast.FunctionDef)} - {n.name}
        read = free_names(n) - {x.arg for x in n.args.args}
        return not read & (_stored(walk(parent.body)) | siblings)

    def _only_attributes(self, owner: ast.ClassDef) -> bool:
        """Whether objects of a class are only used for their attributes: then no special method is run."""
        selves = {m.args.args[0].arg for m in owner.body if isinstance(m, ast.FunctionDef) and m.args.args}
        named = [n for n in self.nodes if isinstance(n, ast.Name) and n.id in selves | {owner.name}]
        return all(isinstance(self._parent(n), ast.Attribute) and n.id != owner.name for n in named)

    def _called_there(self, n: ast.expr) -> bool:
        """Whether a function is handed to something that calls it, at once or while it is used up here."""
        match parent := self._parent(n):
            case ast.keyword(arg="key"):
                call = self._parent(parent)
                name = called_name(call.func) if isinstance(call, ast.Call) else ""
                return "key" in KEYWORDS.get(name, ()) and name[1:] not in self.methods
            case ast.Call(func=function, args=args) if n in args and called_name(n) not in LAZY:
                called = (called_name(function), args.index(n))
                return called in CALLBACKS and (called != LATER or free_names(n) <= self.fixed)
        return False

    def _used_up(self, n: ast.expr) -> bool:
        """Whether an iterator is gone through where it is made, and nowhere else."""
        match parent := self._parent(n):
            case ast.For(iter=source) | ast.comprehension(iter=source):
                return source is n
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]):
                return left is not n
            case ast.Call(func=function, args=args) if n in args:
                name = called_name(function)
                passed_on = isinstance(function, ast.Name) and name in LAZY
                whole = n is args[0] and name[1:] not in self.methods
                return self._used_up(parent) if passed_on else name in types.CONSUMERS and whole
        return False

    def _call(self, n: ast.Call, parent: ast.AST | None) -> bool:
        name, args = called_name(n.func), n.args
        if any(isinstance(a, ast.Starred) for a in args) or any(k.arg is None for k in n.keywords):
            return False
        if name in self.functions or name in self.classes:
            return True
        own = name.startswith(".") and name[1:] in self.methods
        if own and (name[1:] in self.attributes or name[1:] not in OF_BUILTINS):
            return name[1:] not in self.attributes
        if name == "next" and not (len(args) == 2 and isinstance(args[0], ast.GeneratorExp)):
            return False
        if name == "isinstance" and not (len(args) == 2 and self._types(args[1])):
            return False
        view = name in {".keys", ".values", ".items"} and not args
        if (view or name in LAZY) and not self._used_up(n):
            return False
        if {k.arg for k in n.keywords} - KEYWORDS.get(name, frozenset()):
            return False
        known = name in PURE or name == "print" or (name.startswith(".") and name[1:] in MUTATORS)
        return known or (name in ERRORS and isinstance(parent, ast.Raise))

    def _types(self, n: ast.expr) -> bool:
        if isinstance(n, ast.Tuple):
            return bool(n.elts) and all(isinstance(e, ast.Name) and self._types(e) for e in n.elts)
        return isinstance(n, ast.Name) and n.id in TYPES | self.classes

    def _attribute(self, n: ast.Attribute, parent: ast.AST | None) -> bool:
        owner = n.value.id if isinstance(n.value, ast.Name) else ""
        called = isinstance(parent, ast.Call) and parent.func is n
        if owner in self.modules:
            known = n.attr in MODULE_MEMBERS[owner] and isinstance(n.ctx, ast.Load)
            return known and (called or owner == "string" or n.attr in {"pi", "inf"} or self._called_there(n))
        inside = called_name(n.value).partition(".")[0] in self.modules  # of what is no value
        renamed = n.attr.startswith("__") and len(self.classes) + len(self.functions) > 1  # by Python
        if inside or renamed or isinstance(n.ctx, ast.Del) or owner in self.functions:
            return False
        if called:
            return True
        if isinstance(parent, ast.keyword) and n.attr in {"get", "count", "index"} and self._called_there(n):
            return n.attr not in self.methods | self.attributes
        return n.attr in self.attributes and n.attr not in self.methods

    def _named(self, n: ast.Name, parent: ast.AST | None) -> bool:
        if n.id in self.modules:
            return isinstance(parent, ast.Attribute)
        if n.id in self.variables:
            value = self.variables[n.id]
            return immutable(value) or (self._only_read(n, parent) and flat(value))
        if isinstance(parent, ast.Call) and parent.func is n:
            return True
        if n.id in ERRORS:
            return isinstance(parent, ast.Raise)
        if isinstance(parent, ast.Attribute) and (n.id, parent.attr) in OF_CLASSES:
            return True
        if n.id in self.functions or n.id in BUILTINS or n.id == "print":
            called = n.id not in LAZY and self._called_there(n)  # those would give iterators
            return called or (n.id in TYPES and self._asks_type(n))
        return n.id not in self.classes or self._asks_type(n)

    def _asks_type(self, n: ast.Name) -> bool:
        parent = self._parent(n)
        parent = self._parent(parent) if isinstance(parent, ast.Tuple) else parent
        asks = isinstance(parent, ast.Call) and called_name(parent.func) == "isinstance"
        return asks and n is not parent.args[0]  # type: ignore[union-attr]

    def _only_read(self, n: ast.Name, parent: ast.AST | None) -> bool:
        """Whether a variable of the module is only looked at, so that no call leaves a trace for the next."""
        if isinstance(parent, ast.Subscript):
            return parent.value is n and isinstance(parent.ctx, ast.Load)
        return isinstance(parent, ast.Compare | ast.For | ast.comprehension)
