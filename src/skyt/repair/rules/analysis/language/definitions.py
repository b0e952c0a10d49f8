"""What a program defines, and every other kind of node that is only partly in the language."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.vocabulary import BUILTINS, MODULE_MEMBERS
from skyt.repair.rules.analysis.flow.reach import free_names
from skyt.repair.rules.analysis.language.uses import Uses
from skyt.repair.rules.analysis.language.words import (
    ERRORS,
    FREE,
    NAMES,
    makes_text,
    minus,
    singleton,
    special,
)
from skyt.repair.rules.analysis.trees.syntax import read_names
from skyt.repair.rules.analysis.trees.trees import walk


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

    def _functiondef(self, n: ast.FunctionDef) -> str | None:
        a, parent = n.args, self._parent(n)
        if n.decorator_list or a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs:
            return f"a decorator or starred parameter of {n.name}"
        if not all(isinstance(d, ast.Constant) or minus(d) for d in a.defaults):
            return f"a default of {n.name} that is not a constant"
        if isinstance(parent, ast.ClassDef):
            bad = special(n.name) and n.name != "__init__" and not self._idle(n, parent)
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
        if special.name in {"__str__", "__repr__"} and not any(map(makes_text, outside)):
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
            if isinstance(op, ast.Is | ast.IsNot) and not any(map(singleton, sides[i : i + 2])):
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
