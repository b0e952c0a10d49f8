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

from skyt.repair.rules.analysis.effects.vocabulary import (
    BUILTINS,
    CONSUMERS,
    CONSUMING_METHODS,
    LAZY,
    METHODS,
    MODULE_MEMBERS,
    VIEWS,
)
from skyt.repair.rules.analysis.flow.reach import free_names
from skyt.repair.rules.analysis.trees.syntax import read_names
from skyt.repair.rules.analysis.trees.trees import children, walk

NODES = frozenset(
    [
        *(ast.Module, ast.FunctionDef, ast.ClassDef, ast.Import, ast.alias, ast.arguments, ast.arg),
        *(ast.Return, ast.Delete, ast.Assign, ast.AugAssign, ast.For, ast.While, ast.If, ast.Raise),
        *(ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Lambda),
        *(ast.IfExp, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
        *(ast.comprehension, ast.Compare, ast.Call, ast.keyword, ast.FormattedValue, ast.JoinedStr),
        *(ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Name, ast.List, ast.Tuple),
        *(ast.And, ast.Or, ast.Not, ast.USub, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
        *(ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift, ast.Invert, ast.UAdd),
        *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn),
    ]
)
NAMES = frozenset(dir(builtins))
ERRORS = frozenset(
    n for n in NAMES if isinstance(getattr(builtins, n), type) and issubclass(getattr(builtins, n), Exception)
) - {"StopIteration", "StopAsyncIteration", "RecursionError", "MemoryError", "SystemError"}
REFLECTION = frozenset(
    [
        *("globals", "locals", "vars", "eval", "exec", "compile", "getattr", "setattr", "hasattr", "delattr"),
        *("dir", "id", "__import__", "memoryview", "super", "breakpoint", "open", "input", "help"),
    ]
)


def reflective(tree: ast.AST) -> str | None:
    """What in a program looks at the program itself, demo code included; None if nothing does."""
    for n in walk(tree):
        if isinstance(n, ast.Name) and n.id in REFLECTION:
            return n.id
        if isinstance(n, ast.Name) and _special(n.id) and n.id != "__name__":
            return n.id
        if isinstance(n, ast.Attribute) and _special(n.attr):
            return f".{n.attr}"
        if isinstance(n, ast.Import | ast.ImportFrom):
            names = {getattr(n, "module", None) or "", *(a.name for a in n.names)}
            if names & {"sys", "inspect", "builtins", "importlib", "gc", "ctypes", "types"}:
                return f"import {sorted(names)[-1]}"
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
    return _Checker(tree, nodes).run()


def _special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


class _Checker:
    def __init__(self, tree: ast.Module, nodes: list[ast.AST]) -> None:
        self.tree, self.nodes = tree, nodes
        self.parents = {id(c): p for p in nodes for c in children(p)}
        self.functions = {
            s.name
            for s in nodes
            if isinstance(s, ast.FunctionDef) and not isinstance(self._parent(s), ast.ClassDef)
        }
        self.classes = {s.name for s in tree.body if isinstance(s, ast.ClassDef)}
        self.methods = {
            m.name
            for c in tree.body
            if isinstance(c, ast.ClassDef)
            for m in c.body
            if isinstance(m, ast.FunctionDef)
        }
        self.variables = {
            t.id for s in tree.body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)
        }
        self.modules = {a.name for s in tree.body if isinstance(s, ast.Import) for a in s.names}
        self.attributes = {
            n.attr for n in nodes if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load)
        }

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
        if isinstance(s, ast.Import):
            unused = {a.name for a in s.names} - read_names(self.tree)
            named = all(
                (a.name in MODULE_MEMBERS or a.name in unused & FREE) and a.asname is None for a in s.names
            )
            return None if named else f"import {s.names[0].name}"
        if isinstance(s, ast.Assign):
            plain = len(s.targets) == 1 and isinstance(s.targets[0], ast.Name)
            return None if plain else "an assignment to several names of the module"
        if isinstance(s, ast.ClassDef):
            if s.bases or s.keywords or s.decorator_list:
                return f"class {s.name} with bases or decorators"
            odd = [m for m in s.body if not isinstance(m, ast.FunctionDef | ast.Pass)]
            return "a class with more than methods" if odd else None
        return None if isinstance(s, ast.FunctionDef | ast.Pass) else "a statement of the module"

    def _bindings(self) -> str | None:
        """Every name of the module means one thing, and no name hides a builtin, a module or a definition."""
        top = [s.name for s in self.tree.body if isinstance(s, ast.FunctionDef | ast.ClassDef)]
        top += [s.targets[0].id for s in self.tree.body if isinstance(s, ast.Assign)]  # type: ignore[attr-defined]
        top += [a.name for s in self.tree.body if isinstance(s, ast.Import) for a in s.names]
        nested = [
            s.name
            for s in self.nodes
            if isinstance(s, ast.FunctionDef) and isinstance(self._parent(s), ast.FunctionDef)
        ]
        names = [*top, *nested]
        if len(set(names)) != len(names):
            return "a name that is defined twice"
        stored = {n.id for n in self.nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        local = {n.id for s in self.tree.body if not isinstance(s, ast.Assign) for n in walk(s)
                 if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}  # fmt: skip
        local |= {n.arg for n in self.nodes if isinstance(n, ast.arg)}
        if hidden := (local & set(names)) | ((local | stored | set(names)) & (NAMES | set(MODULE_MEMBERS))):
            if hidden := hidden - self.modules:
                return f"{sorted(hidden)[0]}, which has another meaning"
            if local & self.modules:
                return "a module's name as a variable"
        free = set().union(*(free_names(s) for s in self.tree.body)) if self.tree.body else set()
        unknown = free - set(top) - BUILTINS - ERRORS - {"print"}
        return f"{sorted(unknown)[0]}, which nobody defines" if unknown else None

    def _parent(self, n: ast.AST) -> ast.AST | None:
        return self.parents.get(id(n))

    def _functiondef(self, n: ast.FunctionDef) -> str | None:
        a, parent = n.args, self._parent(n)
        if n.decorator_list or a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs:
            return f"a decorator or starred parameter of {n.name}"
        if not all(isinstance(d, ast.Constant) or _minus(d) for d in a.defaults):
            return f"a default of {n.name} that is not a constant"
        if isinstance(parent, ast.ClassDef):
            bad = _special(n.name) and n.name != "__init__" and not self._idle(n, parent)
            return n.name if bad or not a.args else None
        if isinstance(parent, ast.Module):
            return None
        if not isinstance(parent, ast.FunctionDef) or not isinstance(self._parent(parent), ast.Module):
            return f"where {n.name} is defined"
        return self._closure(n, parent)

    def _idle(self, special: ast.FunctionDef, owner: ast.ClassDef) -> bool:
        """Whether nothing in the program can run a special method: objects of its class are only used for
        their attributes and methods, or nothing is made into text."""
        inside = {id(n) for n in walk(special)}
        outside = [n for n in self.nodes if id(n) not in inside]
        if special.name in {"__str__", "__repr__"} and not any(map(_makes_text, outside)):
            return True
        methods = [m for m in owner.body if isinstance(m, ast.FunctionDef)]
        selves = {m.args.args[0].arg for m in methods if m.args.args}
        uses = [n for n in outside if isinstance(n, ast.Name) and n.id in {*selves, owner.name}]
        return all(isinstance(self._parent(n), ast.Attribute) and n.id != owner.name for n in uses)

    def _closure(self, n: ast.FunctionDef, outer: ast.FunctionDef) -> str | None:
        """A nested function may read parameters that its outer function never assigns."""
        stored = {
            x.id for x in walk(outer.body) if isinstance(x, ast.Name) and not isinstance(x.ctx, ast.Load)
        }
        siblings = {s.name for s in outer.body if isinstance(s, ast.FunctionDef)}
        own = {x.arg for x in walk(n.args) if isinstance(x, ast.arg)}
        free = free_names(n) - own
        if free & (stored | (siblings - {n.name})):
            return f"a variable that {n.name} shares"
        return None

    def _classdef(self, n: ast.ClassDef) -> str | None:
        return None if isinstance(self._parent(n), ast.Module) else f"where {n.name} is defined"

    def _import(self, n: ast.Import) -> str | None:
        return None if isinstance(self._parent(n), ast.Module) else "an import inside a function"

    def _arguments(self, n: ast.arguments) -> str | None:
        names = [a.arg for a in n.args]
        return "a parameter of two" if len(set(names)) != len(names) else None

    def _constant(self, n: ast.Constant) -> str | None:
        known = n.value is None or type(n.value) in (int, str, bool, float)
        return None if known else f"a constant of type {type(n.value).__name__}"

    def _delete(self, n: ast.Delete) -> str | None:
        return None if all(isinstance(t, ast.Subscript) for t in n.targets) else "del of a name"

    def _raise(self, n: ast.Raise) -> str | None:
        if n.cause is not None or n.exc is None:
            return "raise without an exception of its own"
        made = n.exc.func if isinstance(n.exc, ast.Call) else n.exc
        plain = isinstance(made, ast.Name) and made.id in ERRORS
        return None if plain and not (isinstance(n.exc, ast.Call) and n.exc.keywords) else "raise of a value"

    def _dict(self, n: ast.Dict) -> str | None:
        return "** in a dict" if any(k is None for k in n.keys) else None

    def _comprehension(self, n: ast.comprehension) -> str | None:
        return "an asynchronous comprehension" if n.is_async else None

    def _compare(self, n: ast.Compare) -> str | None:
        sides = [n.left, *n.comparators]
        for i, op in enumerate(n.ops):
            if isinstance(op, ast.Is | ast.IsNot) and not any(map(_singleton, sides[i : i + 2])):
                return "`is` between values"
        return None

    def _lambda(self, n: ast.Lambda) -> str | None:
        a = n.args
        if a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs or a.defaults:
            return "a lambda with more than plain parameters"
        if not self._called_there(n):
            return "a lambda that is kept"
        own = {x.arg for x in a.args}
        inside = any(isinstance(x, ast.Lambda | ast.GeneratorExp) and x is not n for x in walk(n))
        hidden = any(
            isinstance(x, ast.Name) and not isinstance(x.ctx, ast.Load) and x.id in own for x in walk(n)
        )
        return "a lambda in a lambda" if inside or hidden else None

    def _called_there(self, n: ast.expr) -> bool:
        """Whether a function is handed to something that calls it, at once or while it is used up here."""
        parent = self._parent(n)
        if isinstance(parent, ast.keyword):
            call = self._parent(parent)
            return parent.arg == "key" and isinstance(call, ast.Call) and _name(call.func) in KEYED
        if not isinstance(parent, ast.Call) or parent.func is n:
            return False
        if _name(parent.func) == "re.sub":
            return len(parent.args) > 1 and parent.args[1] is n
        if not parent.args or parent.args[0] is not n:
            return False
        return _name(parent.func) in {"map", "filter", "collections.defaultdict"}

    def _generatorexp(self, n: ast.GeneratorExp) -> str | None:
        return None if self._used_up(n) else "a generator that is kept"

    def _used_up(self, n: ast.expr) -> bool:
        """Whether an iterator is gone through where it is made, and nowhere else."""
        parent = self._parent(n)
        if isinstance(parent, ast.For | ast.comprehension):
            return parent.iter is n
        if isinstance(parent, ast.Compare):
            return (
                len(parent.ops) == 1
                and isinstance(parent.ops[0], ast.In | ast.NotIn)
                and parent.left is not n
            )
        if not isinstance(parent, ast.Call) or parent.func is n or n not in parent.args:
            return False
        name = _name(parent.func)
        if isinstance(parent.func, ast.Name):
            if name in LAZY:
                return self._used_up(parent)
            return name in CONSUMERS
        return name in CONSUMERS or getattr(parent.func, "attr", "") in CONSUMING_METHODS

    def _call(self, n: ast.Call) -> str | None:
        if any(isinstance(a, ast.Starred) for a in n.args) or any(k.arg is None for k in n.keywords):
            return "* or ** in a call"
        if isinstance(n.func, ast.Name):
            name = n.func.id
            if name in self.functions or name in self.classes:
                return None
            if name in LAZY and not self._used_up(n):
                return f"{name} that is kept"
            if name == "next" and not (len(n.args) == 2 and isinstance(n.args[0], ast.GeneratorExp)):
                return "next"
            if name == "isinstance" and not (len(n.args) == 2 and self._types(n.args[1])):
                return "isinstance of an unknown class"
            bad = {k.arg for k in n.keywords} - KEYWORDS.get(name, frozenset())
            if bad:
                return f"{name}(…, {sorted(bad)[0]}=…)"  # type: ignore[type-var]
            known = (
                name in BUILTINS
                or name == "print"
                or (name in ERRORS and isinstance(self._parent(n), ast.Raise))
            )
            return None if known else f"a call of {name}"
        if not isinstance(n.func, ast.Attribute):
            return "a call of a value"
        name = _name(n.func)
        if isinstance(n.func.value, ast.Name) and n.func.value.id in self.modules:
            if name in LAZY and not self._used_up(n):
                return f"{name} that is kept"
            bad = {k.arg for k in n.keywords} - KEYWORDS.get(name, frozenset())
            return f"{name}(…, {sorted(bad)[0]}=…)" if bad else None  # type: ignore[type-var]
        attr = n.func.attr
        if attr in VIEWS and not n.args and not self._used_up(n) and attr not in self.methods:
            return f".{attr}() that is kept"
        if attr in self.methods:
            return None if attr not in self.attributes else f"{attr}, a method and an attribute"
        if attr not in METHODS:
            return f"a call of .{attr}"
        bad = {k.arg for k in n.keywords} - KEYWORDS.get("." + attr, frozenset())
        return f".{attr}(…, {sorted(bad)[0]}=…)" if bad else None  # type: ignore[type-var]

    def _types(self, n: ast.expr) -> bool:
        if isinstance(n, ast.Tuple):
            return bool(n.elts) and all(isinstance(e, ast.Name) and self._types(e) for e in n.elts)
        return isinstance(n, ast.Name) and n.id in TYPES | self.classes

    def _attribute(self, n: ast.Attribute) -> str | None:
        parent = self._parent(n)
        if isinstance(n.value, ast.Name) and n.value.id in self.modules:
            known = n.attr in MODULE_MEMBERS[n.value.id] and isinstance(n.ctx, ast.Load)
            return None if known else f"{n.value.id}.{n.attr}"
        if n.attr.startswith("__") and len(self.classes) + len(self.functions) > 1:
            return f".{n.attr}, which Python renames"
        if isinstance(n.ctx, ast.Del) or (isinstance(n.value, ast.Name) and n.value.id in self.functions):
            return f".{n.attr}"
        if isinstance(parent, ast.Call) and parent.func is n:
            return None
        if isinstance(parent, ast.keyword) and n.attr in {"get", "count", "index"} and self._called_there(n):
            return None if n.attr not in self.methods | self.attributes else f".{n.attr}"
        if n.attr in self.methods or n.attr not in self.attributes:
            return f".{n.attr}, which is not an attribute of the program's own"
        return None

    def _name(self, n: ast.Name) -> str | None:
        if not isinstance(n.ctx, ast.Load):
            return None
        parent = self._parent(n)
        if n.id in self.modules:
            return None if isinstance(parent, ast.Attribute) else f"{n.id} as a value"
        if n.id in self.variables:
            return self._constant_of_module(n, parent)
        if isinstance(parent, ast.Call) and parent.func is n:
            return None
        if n.id in self.functions or n.id in BUILTINS or n.id in ERRORS or n.id == "print":
            if n.id in ERRORS:
                return None if isinstance(parent, ast.Raise) else f"{n.id} as a value"
            if self._called_there(n):
                return None
            if isinstance(parent, ast.Attribute) and f"{n.id}.{parent.attr}" in {
                "dict.fromkeys",
                "str.maketrans",
            }:
                return None
            return None if n.id in TYPES and self._asks_type(n) else f"{n.id} as a value"
        if n.id in self.classes:
            return None if self._asks_type(n) else f"{n.id} as a value"
        return None

    def _asks_type(self, n: ast.Name) -> bool:
        parent = self._parent(n)
        parent = self._parent(parent) if isinstance(parent, ast.Tuple) else parent
        return isinstance(parent, ast.Call) and _name(parent.func) == "isinstance" and n is not parent.args[0]

    def _constant_of_module(self, n: ast.Name, parent: ast.AST | None) -> str | None:
        """A variable of the module is only looked at, so that no call leaves a trace for the next."""
        if isinstance(parent, ast.Subscript):
            read = parent.value is n and isinstance(parent.ctx, ast.Load)
        elif isinstance(parent, ast.Attribute):
            outer = self._parent(parent)
            read = (
                isinstance(outer, ast.Call) and outer.func is parent and METHODS.get(parent.attr) == "reads"
            )
        elif isinstance(parent, ast.Compare | ast.For | ast.comprehension | ast.BinOp | ast.UnaryOp):
            read = True
        elif isinstance(parent, ast.Call):
            read = _name(parent.func) in READERS
        else:
            read = False
        simple = any(
            isinstance(s, ast.Assign) and s.targets[0].id == n.id and _immutable(s.value)  # type: ignore[attr-defined]
            for s in self.tree.body
        )
        return None if read or simple else f"{n.id}, a variable of the module that is handed on"


TYPES = frozenset({"int", "str", "float", "bool", "list", "dict", "set", "tuple", "frozenset"})
FREE = frozenset({"typing", "dataclasses", "abc", "unittest", "doctest", "time", "random", "os"})
KEYED = frozenset({"sorted", "min", "max", ".sort"})
READERS = frozenset(
    {"len", "sum", "min", "max", "sorted", "any", "all", "list", "tuple", "set", "str", "range"}
) | {*("enumerate", "zip", "reversed", "dict", "int", "abs", "ord", "chr", "float")}
KEYWORDS: dict[str, frozenset[str | None]] = {
    "sorted": frozenset({"key", "reverse"}),
    ".sort": frozenset({"key", "reverse"}),
    "min": frozenset({"key", "default"}),
    "max": frozenset({"key", "default"}),
    "enumerate": frozenset({"start"}),
    "print": frozenset({"end", "sep"}),
    "re.sub": frozenset({"flags", "count"}),
    "collections.deque": frozenset({"maxlen"}),
    ".popitem": frozenset({"last"}),
    ".move_to_end": frozenset({"last"}),
}


def _name(function: ast.expr) -> str:
    """`len`, `math.gcd` or `.append`."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute):
        owner = function.value
        if isinstance(owner, ast.Name) and owner.id in MODULE_MEMBERS:
            return f"{owner.id}.{function.attr}"
        return "." + function.attr
    return ""


def _singleton(n: ast.expr) -> bool:
    return isinstance(n, ast.Constant) and (n.value is None or isinstance(n.value, bool))


def _makes_text(n: ast.AST) -> bool:
    """Whether a node may turn an object into text."""
    if isinstance(n, ast.Name):
        return n.id in {"str", "repr", "print", "map"}
    if isinstance(n, ast.Attribute):
        return n.attr in {"format", "join"}
    return isinstance(n, ast.JoinedStr) or (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod))


def _minus(n: ast.expr) -> bool:
    return isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub) and isinstance(n.operand, ast.Constant)


def _immutable(n: ast.expr) -> bool:
    if isinstance(n, ast.Tuple):
        return all(map(_immutable, n.elts))
    return isinstance(n, ast.Constant) or _minus(n)
