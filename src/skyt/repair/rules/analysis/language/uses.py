"""How a program uses names, attributes, calls, functions as values, and iterators."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.vocabulary import (
    BUILTINS,
    CONSUMERS,
    CONSUMING_METHODS,
    LAZY,
    METHODS,
    MODULE_MEMBERS,
    VIEWS,
)
from skyt.repair.rules.analysis.language.words import (
    ERRORS,
    KEYED,
    KEYWORDS,
    READERS,
    TYPES,
    called_name,
    immutable,
)
from skyt.repair.rules.analysis.trees.trees import children


class Uses:
    """Says for a node what in its use is outside the language; None if nothing is."""

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

    def _parent(self, n: ast.AST) -> ast.AST | None:
        return self.parents.get(id(n))

    def _called_there(self, n: ast.expr) -> bool:
        """Whether a function is handed to something that calls it, at once or while it is used up here."""
        parent = self._parent(n)
        if isinstance(parent, ast.keyword):
            call = self._parent(parent)
            return parent.arg == "key" and isinstance(call, ast.Call) and called_name(call.func) in KEYED
        if not isinstance(parent, ast.Call) or parent.func is n:
            return False
        if called_name(parent.func) == "re.sub":
            return len(parent.args) > 1 and parent.args[1] is n
        if not parent.args or parent.args[0] is not n:
            return False
        return called_name(parent.func) in {"map", "filter", "collections.defaultdict"}

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
        name = called_name(parent.func)
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
        name = called_name(n.func)
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
        return (
            isinstance(parent, ast.Call)
            and called_name(parent.func) == "isinstance"
            and n is not parent.args[0]
        )

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
            read = called_name(parent.func) in READERS
        else:
            read = False
        simple = any(
            isinstance(s, ast.Assign) and s.targets[0].id == n.id and immutable(s.value)  # type: ignore[attr-defined]
            for s in self.tree.body
        )
        return None if read or simple else f"{n.id}, a variable of the module that is handed on"
