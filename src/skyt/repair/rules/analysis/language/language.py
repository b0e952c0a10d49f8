"""The language of the rules: the part of Python in which their idea of what runs when is true.

Everything else is refused, and a program that uses it keeps its text. So the analysis never meets a caught
exception, a generator that is held, a closure that changes, a decorator, reflection, an operator of a class
of the program, or a value that is called: it need not be right about them. Whoever wants a new construct in
has to enter it here, and to say in the tables of effects what it does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from skyt.repair.rules.analysis.effects.vocabulary import BUILTINS, MODULE_MEMBERS
from skyt.repair.rules.analysis.flow.reach import free_names
from skyt.repair.rules.analysis.language import uses
from skyt.repair.rules.analysis.language.uses import ERRORS, NAMES, NODES, Uses, immutable, singleton, special
from skyt.repair.rules.analysis.trees.syntax import read_names
from skyt.repair.rules.analysis.trees.trees import walk


def reflective(tree: ast.AST) -> str | None:
    """What in a program looks at the program itself, demo code included; None if nothing does."""
    for n in walk(tree):
        match n:
            case ast.Name(id=name) if name in uses.REFLECTION or (special(name) and name != "__name__"):
                return name
            case ast.Attribute(attr=name) if special(name):
                return f".{name}"
            case ast.Import() | ast.ImportFrom():
                names = {getattr(n, "module", None) or "", *(a.name for a in n.names)}
                if names & uses.REFLECTING_MODULES:
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
                free = uses.FREE - read_names(self.tree)
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
        if method.name in {"__str__", "__repr__"} and not any(map(uses.makes_text, outside)):
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
