"""The language of the rules: the part of Python in which their idea of what runs when is true.

Everything else is refused, and a program that uses it keeps its text. So the analysis never meets a caught
exception, a generator that is held, a closure that changes, a decorator, reflection, an operator of a class
of the program, or a value that is called: it need not be right about them. Whoever wants a new construct in
has to enter it here, and to say in the tables of effects what it does.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from skyt.repair.rules.analysis.reach import free_names
from skyt.repair.rules.analysis.syntax import read_names
from skyt.repair.rules.analysis.trees import OPERATORS, children, walk, words
from skyt.repair.rules.analysis.vocabulary import (
    BUILTINS,
    CONSUMERS,
    LAZY,
    MODULE_MEMBERS,
    MUTATORS,
    PURE_METHODS,
    VIEWS,
    called_name,
)

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
CLASSES = ("collections.", "itertools.")  # all their members are classes
FREE = words("typing dataclasses abc unittest doctest time random os")
KEYED = words("sorted min max .sort")
READERS = words(
    "len sum min max sorted any all list tuple set str range enumerate zip reversed dict int abs ord chr "
    "float"
)
KEYWORDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("sorted", ".sort"), words("key reverse")),
    **dict.fromkeys(("min", "max"), words("key default")),
    **dict.fromkeys((".popitem", ".move_to_end"), words("last")),
    "enumerate": words("start"),
    "print": words("end sep"),
    "re.sub": words("flags count"),
    "collections.deque": words("maxlen"),
}


def special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def singleton(n: ast.expr) -> bool:
    return isinstance(n, ast.Constant) and (n.value is None or isinstance(n.value, bool))


def makes_text(n: ast.AST) -> bool:
    """Whether a node may turn an object into text."""
    match n:
        case ast.Name(id="str" | "repr" | "print" | "map") | ast.Attribute(attr="format" | "join"):
            return True
    return isinstance(n, ast.JoinedStr) or (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod))


def immutable(n: ast.expr) -> bool:
    """A constant, with a minus sign or not, or a tuple of them."""
    match n:
        case ast.Tuple(elts=elements):
            return all(map(immutable, elements))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()) | ast.Constant():
            return True
    return False


class Uses:
    """Says for a node what in its use is outside the language; None if nothing is."""

    def __init__(self, tree: ast.Module, nodes: list[ast.AST]) -> None:
        self.tree, self.nodes = tree, nodes
        self.parents = {id(c): p for p in nodes for c in children(p)}
        defined = [n for n in nodes if isinstance(n, ast.FunctionDef)]
        self.methods = {n.name for n in defined if isinstance(self._parent(n), ast.ClassDef)}
        self.functions = {n.name for n in defined if not isinstance(self._parent(n), ast.ClassDef)}
        self.classes = {s.name for s in tree.body if isinstance(s, ast.ClassDef)}
        self.variables = {t.id: s.value for s in tree.body if isinstance(s, ast.Assign) for t in s.targets
                          if isinstance(t, ast.Name)}  # fmt: skip
        self.modules = {a.name for s in tree.body if isinstance(s, ast.Import) for a in s.names}
        attributes = [n for n in nodes if isinstance(n, ast.Attribute)]
        self.attributes = {n.attr for n in attributes if not isinstance(n.ctx, ast.Load)}

    def _parent(self, n: ast.AST | None) -> ast.AST | None:
        return self.parents.get(id(n))

    def _called_there(self, n: ast.expr) -> bool:
        """Whether a function is handed to something that calls it, at once or while it is used up here."""
        parent = self._parent(n)
        if isinstance(parent, ast.keyword):
            call = self._parent(parent)
            return parent.arg == "key" and isinstance(call, ast.Call) and called_name(call.func) in KEYED
        if not isinstance(parent, ast.Call) or n not in parent.args:
            return False
        name, place = called_name(parent.func), parent.args.index(n)
        return (name, place) in {("re.sub", 1), ("map", 0), ("filter", 0), ("collections.defaultdict", 0)}

    def _generatorexp(self, n: ast.GeneratorExp) -> str | None:
        return None if self._used_up(n) else "a generator that is kept"

    def _used_up(self, n: ast.expr) -> bool:
        """Whether an iterator is gone through where it is made, and nowhere else."""
        match parent := self._parent(n):
            case ast.For(iter=source) | ast.comprehension(iter=source):
                return source is n
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]):
                return left is not n
            case ast.Call(func=function, args=args) if n in args:
                name = called_name(function)
                if isinstance(function, ast.Name) and name in LAZY:
                    return self._used_up(parent)
                return name in CONSUMERS
        return False

    def _call(self, n: ast.Call) -> str | None:
        name = called_name(n.func)
        if any(isinstance(a, ast.Starred) for a in n.args) or any(k.arg is None for k in n.keywords):
            return "* or ** in a call"
        match n.func:
            case ast.Name() if name in self.functions or name in self.classes:
                return None
            case ast.Name():
                raised = name in ERRORS and isinstance(self._parent(n), ast.Raise)
                if name == "next" and not (len(n.args) == 2 and isinstance(n.args[0], ast.GeneratorExp)):
                    return "next"
                if name == "isinstance" and not (len(n.args) == 2 and self._types(n.args[1])):
                    return "isinstance of an unknown class"
                known = name in BUILTINS or name == "print" or raised
            case ast.Attribute(value=ast.Name(id=module)) if module in self.modules:
                known = True
            case ast.Attribute(attr=attr) if attr in self.methods:
                return f"{attr}, a method and an attribute" if attr in self.attributes else None
            case ast.Attribute(attr=attr):
                if attr in VIEWS and not n.args and not self._used_up(n):
                    return f".{attr}() that is kept"
                known, name = attr in PURE_METHODS or attr in MUTATORS, "." + attr
            case _:
                return "a call of a value"
        if name in LAZY and not self._used_up(n):
            return f"{name} that is kept"
        if bad := {str(k.arg) for k in n.keywords} - KEYWORDS.get(name, frozenset()):
            return f"{name}(…, {sorted(bad)[0]}=…)"
        return None if known else f"a call of {name}"

    def _types(self, n: ast.expr) -> bool:
        if isinstance(n, ast.Tuple):
            return bool(n.elts) and all(isinstance(e, ast.Name) and self._types(e) for e in n.elts)
        return isinstance(n, ast.Name) and n.id in TYPES | self.classes

    def _attribute(self, n: ast.Attribute) -> str | None:
        parent, owner = self._parent(n), n.value.id if isinstance(n.value, ast.Name) else ""
        if owner in self.modules:
            known = n.attr in MODULE_MEMBERS[owner] and isinstance(n.ctx, ast.Load)
            return None if known else f"{owner}.{n.attr}"
        if isinstance(n.value, ast.Attribute) and called_name(n.value).startswith(CLASSES):
            return f".{n.attr} of a class"
        if n.attr.startswith("__") and len(self.classes) + len(self.functions) > 1:
            return f".{n.attr}, which Python renames"
        if isinstance(n.ctx, ast.Del) or owner in self.functions:
            return f".{n.attr}"
        if isinstance(parent, ast.Call) and parent.func is n:
            return None
        if isinstance(parent, ast.keyword) and n.attr in {"get", "count", "index"} and self._called_there(n):
            return None if n.attr not in self.methods | self.attributes else f".{n.attr}"
        if n.attr in self.methods or n.attr not in self.attributes:
            return f".{n.attr}, which is not an attribute of the program's own"
        return None

    def _name(self, n: ast.Name) -> str | None:
        match self._parent(n):
            case _ if not isinstance(n.ctx, ast.Load):
                return None
            case parent if n.id in self.modules:
                known = isinstance(parent, ast.Attribute)
            case parent if n.id in self.variables:
                if self._only_read(n, parent) or immutable(self.variables[n.id]):
                    return None
                return f"{n.id}, a variable of the module that is handed on"
            case ast.Call(func=function) if function is n:
                return None
            case parent if n.id in ERRORS:
                known = isinstance(parent, ast.Raise)
            case ast.Attribute(attr=attr) if f"{n.id}.{attr}" in {"dict.fromkeys", "str.maketrans"}:
                return None
            case _ if n.id in self.functions or n.id in BUILTINS or n.id == "print":
                known = self._called_there(n) or (n.id in TYPES and self._asks_type(n))
            case _:
                known = n.id not in self.classes or self._asks_type(n)
        return None if known else f"{n.id} as a value"

    def _asks_type(self, n: ast.Name) -> bool:
        parent = self._parent(n)
        parent = self._parent(parent) if isinstance(parent, ast.Tuple) else parent
        asks = isinstance(parent, ast.Call) and called_name(parent.func) == "isinstance"
        return asks and n is not parent.args[0]  # type: ignore[union-attr]

    def _only_read(self, n: ast.Name, parent: ast.AST | None) -> bool:
        """Whether a variable of the module is only looked at, so that no call leaves a trace for the next."""
        match parent:
            case ast.Subscript(value=value, ctx=ast.Load()):
                return value is n
            case ast.Attribute(attr=attr):
                outer = self._parent(parent)
                return isinstance(outer, ast.Call) and outer.func is parent and attr in PURE_METHODS
            case ast.Call(func=function):
                return called_name(function) in READERS
        return isinstance(parent, ast.Compare | ast.For | ast.comprehension | ast.BinOp | ast.UnaryOp)


def reflective(tree: ast.AST) -> str | None:
    """What in a program looks at the program itself, demo code included; None if nothing does."""
    for n in walk(tree):
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


def before_cleaning(kept: Iterable[ast.stmt]) -> str | None:
    """What cleaning (annotations, imports, names of builtins) must not touch."""
    kept = list(kept)
    fields = {id(s) for c in kept if isinstance(c, ast.ClassDef) for s in c.body}
    for n in walk(kept):
        if isinstance(n, ast.AnnAssign):
            if n.value is None and id(n) not in fields:
                return "an annotation without a value"
        elif n.__class__ not in NODES and not isinstance(n, ast.ImportFrom):
            return n.__class__.__name__
    return None


def beyond(tree: ast.Module) -> str | None:
    """What in a program is outside the language; None if it is inside."""
    nodes = walk(tree)
    for n in nodes:
        if n.__class__ not in NODES:
            return n.__class__.__name__
    return Checker(tree, nodes).run()


def _stored(nodes: list[ast.AST]) -> set[str]:
    return {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}


def _more_than_plain(a: ast.arguments) -> bool:
    return bool(a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs)


class Checker(Uses):
    """Goes through a program, and stops at the first thing outside the language."""

    def run(self) -> str | None:
        for s in self.tree.body:
            if (why := self._top(s)) is not None:
                return why
        if (why := self._bindings()) is not None:
            return why
        for n in self.nodes:
            check = getattr(self, "_" + n.__class__.__name__.lower(), None)
            if check is not None and (why := check(n)) is not None:
                return str(why)
        return None

    def _top(self, s: ast.stmt) -> str | None:
        match s:
            case ast.Import(names=names):
                free = FREE - read_names(self.tree)
                named = all(a.asname is None and (a.name in MODULE_MEMBERS or a.name in free) for a in names)
                return None if named else f"import {names[0].name}"
            case ast.Assign(targets=targets):
                plain = len(targets) == 1 and isinstance(targets[0], ast.Name)
                return None if plain else "an assignment to several names of the module"
            case ast.ClassDef(bases=[], keywords=[], decorator_list=[], body=body):
                plain = all(isinstance(m, ast.FunctionDef | ast.Pass) for m in body)
                return None if plain else "a class with more than methods"
            case ast.ClassDef(name=name):
                return f"class {name} with bases or decorators"
        return None if isinstance(s, ast.FunctionDef | ast.Pass) else "a statement of the module"

    def _bindings(self) -> str | None:
        """Every name of the module means one thing, and no name hides a builtin, a module or a definition."""
        top = [s.name for s in self.tree.body if isinstance(s, ast.FunctionDef | ast.ClassDef)]
        top += [
            *self.variables,
            *(a.name for s in self.tree.body if isinstance(s, ast.Import) for a in s.names),
        ]
        assigned = [s for s in self.tree.body if isinstance(s, ast.Assign)]
        inner = [n for n in self.nodes if isinstance(self._parent(n), ast.FunctionDef)]
        names = [*top, *(n.name for n in inner if isinstance(n, ast.FunctionDef))]
        if len(set(names)) != len(names) or len(assigned) != len(self.variables):
            return "a name that is defined twice"
        local = {n.arg for n in self.nodes if isinstance(n, ast.arg)}
        local |= _stored(walk([s for s in self.tree.body if s not in assigned]))
        known = local | _stored(self.nodes) | set(names)
        hidden = (local & set(names)) | (known & (NAMES | set(MODULE_MEMBERS)))
        if hidden - self.modules:
            return f"{min(hidden - self.modules)}, which has another meaning"
        if local & self.modules:
            return "a module's name as a variable"
        free = set[str]().union(*map(free_names, self.tree.body))
        unknown = free - set(top) - BUILTINS - ERRORS - {"print"}
        return f"{min(unknown)}, which nobody defines" if unknown else None

    def _functiondef(self, n: ast.FunctionDef) -> str | None:
        a, parent = n.args, self._parent(n)
        if n.decorator_list or _more_than_plain(a):
            return f"a decorator or starred parameter of {n.name}"
        if any(isinstance(d, ast.Tuple) or not immutable(d) for d in a.defaults):
            return f"a default of {n.name} that is not a constant"
        if isinstance(parent, ast.ClassDef):
            bad = special(n.name) and n.name != "__init__" and not self._idle(n, parent)
            return n.name if bad or not a.args else None
        if isinstance(parent, ast.Module):
            return None
        if not isinstance(parent, ast.FunctionDef) or not isinstance(self._parent(parent), ast.Module):
            return f"where {n.name} is defined"
        # A nested function may read parameters that its outer function never assigns.
        siblings = {s.name for s in parent.body if isinstance(s, ast.FunctionDef)} - {n.name}
        shared = (free_names(n) - {x.arg for x in a.args}) & (_stored(walk(parent.body)) | siblings)
        return f"a variable that {n.name} shares" if shared else None

    def _idle(self, method: ast.FunctionDef, owner: ast.ClassDef) -> bool:
        """Whether nothing in the program can run a special method: objects of its class are only used for
        their attributes and methods, or nothing is made into text."""
        inside = {id(n) for n in walk(method)}
        outside = [n for n in self.nodes if id(n) not in inside]
        if method.name in {"__str__", "__repr__"} and not any(map(makes_text, outside)):
            return True
        selves = {m.args.args[0].arg for m in owner.body if isinstance(m, ast.FunctionDef) and m.args.args}
        named = [n for n in outside if isinstance(n, ast.Name) and n.id in {*selves, owner.name}]
        return all(isinstance(self._parent(n), ast.Attribute) and n.id != owner.name for n in named)

    def _classdef(self, n: ast.ClassDef) -> str | None:
        return None if isinstance(self._parent(n), ast.Module) else f"where {n.name} is defined"

    def _import(self, n: ast.Import) -> str | None:
        return None if isinstance(self._parent(n), ast.Module) else "an import inside a function"

    def _arguments(self, n: ast.arguments) -> str | None:
        return "a parameter of two" if len({a.arg for a in n.args}) != len(n.args) else None

    def _constant(self, n: ast.Constant) -> str | None:
        known = n.value is None or type(n.value) in (int, str, bool, float)
        return None if known else f"a constant of type {type(n.value).__name__}"

    def _delete(self, n: ast.Delete) -> str | None:
        return None if all(isinstance(t, ast.Subscript) for t in n.targets) else "del of a name"

    def _raise(self, n: ast.Raise) -> str | None:
        match n:
            case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name), keywords=[]), cause=None):
                return None if name in ERRORS else "raise of a value"
        return "raise of a value" if n.exc and not n.cause else "raise without an exception of its own"

    def _dict(self, n: ast.Dict) -> str | None:
        return "** in a dict" if None in n.keys else None

    def _comprehension(self, n: ast.comprehension) -> str | None:
        return "an asynchronous comprehension" if n.is_async else None

    def _compare(self, n: ast.Compare) -> str | None:
        sides = [n.left, *n.comparators]
        for i, op in enumerate(n.ops):
            if isinstance(op, ast.Is | ast.IsNot) and not any(map(singleton, sides[i : i + 2])):
                return "`is` between values"
        return None

    def _lambda(self, n: ast.Lambda) -> str | None:
        if _more_than_plain(n.args) or n.args.defaults:
            return "a lambda with more than plain parameters"
        if not self._called_there(n):
            return "a lambda that is kept"
        inside = walk(n.body)
        nested = any(isinstance(x, ast.Lambda | ast.GeneratorExp) for x in inside)
        hidden = _stored(inside) & {x.arg for x in n.args.args}
        return "a lambda in a lambda" if nested or hidden else None
