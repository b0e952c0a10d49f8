"""Binders: every comprehension and every loop gets variables of its own, so that chance equality of names is
gone."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import BUILTINS, MODULES
from skyt.repair.rules.analysis.trees.syntax import local_functions, rename, stored_names
from skyt.repair.rules.analysis.trees.trees import clone, walk
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.names.assignments import private
from skyt.repair.rules.registry import Place, module, statement

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@module(
    phase=0,
    needs="a name of a builtin that a function or the module binds; no `global`, no keyword of that name",
    sound="a name means one thing within its scope, so it can be any name that is not taken",
    fires=("xs: list[int]", "sum = 0\nfor max in xs:\n sum = sum + max * max\nreturn sum"),
    keeps=("xs: list[int]", "def f(xs):\n return g(xs, sum=2)\ndef g(xs, sum):\n return [sum, *xs]"),
)
def free_builtin_names(context: Context) -> bool:
    """`sum = 0; … sum += x` hides a builtin that rules may want to use: the local gets another name."""
    tree, facts = context.tree, context.facts
    fixed = {k.arg for k in walk(tree) if isinstance(k, ast.keyword)} | set(facts.public)
    fixed |= {(a.asname or a.name).split(".")[0] for a in walk(tree) if isinstance(a, ast.alias)}
    if any(isinstance(n, ast.Global | ast.Nonlocal) for n in walk(tree)):
        return False
    fixed |= {n for c in tree.body if isinstance(c, ast.ClassDef) for s in c.body for n in stored_names(s)}
    changed = False
    top = {n for s in tree.body if not isinstance(s, ast.Import | ast.ImportFrom) for n in stored_names(s)}
    scopes: list[tuple[ast.ClassDef | None, ast.FunctionDef | None]] = [(None, None), *local_functions(tree)]
    for owner, function in scopes:
        if function is None:
            names = top
        else:
            arguments = {a.arg for a in walk(function.args) if isinstance(a, ast.arg)}
            public = owner is not None or function.name in facts.public
            kept = arguments if public and not facts.positional else set()
            names = ({n for s in function.body for n in stored_names(s)} | arguments) - kept
        hidden = sorted((names & (BUILTINS | MODULES)) - fixed)
        if hidden:
            fresh = {name: context.name(name) for name in hidden}
            if function is None:
                rename(tree, fresh)
            else:
                for a in (a for a in walk(function.args) if isinstance(a, ast.arg)):
                    a.arg = fresh.get(a.arg, a.arg)
                function.body = [rename(s, fresh) for s in function.body]
            context.record("free-builtin-names", " ".join(hidden), " ".join(fresh.values()))
            changed = True
    return changed


@module(
    phase=0,
    needs="nothing",
    sound="the variables of a comprehension live only inside it",
    fires=("xs: list[int]", "x = 5\nreturn [x for x in xs] + [x]"),
    keeps=("xs: list[int]", "y = 5\nreturn [x for x in xs] + [y]"),
)
def own_comprehension_variables(context: Context) -> bool:
    changed = False
    for _, function in local_functions(context.tree):
        for n in walk(function):
            if not isinstance(n, COMPREHENSIONS):
                continue
            names = {x for g in n.generators for x in stored_names(g.target)}
            outside = {
                m.id for m in walk(function) if isinstance(m, ast.Name) and not any(m is k for k in walk(n))
            }
            arguments = {a.arg for a in walk(function.args) if isinstance(a, ast.arg)}
            clash = names & (outside | arguments | BUILTINS | MODULES)
            first = n.generators[0].iter
            if not clash or any(isinstance(k, ast.Name) and k.id in clash for k in walk(first)):
                continue
            rename(n, {x: context.name(x) for x in sorted(clash)})
            context.record("own-comprehension-variables", " ".join(sorted(clash)), "fresh names")
            changed = True
    return changed


@statement(
    ast.For,
    needs="a loop variable that is not read outside its loop",
    sound="a variable whose values never leave its loop can have any free name",
    fires=("xs: list[int]", "t = 0\nfor x in xs:\n t = t + x\nfor x in xs:\n t = t - 2 * x\nreturn t"),
    keeps=("xs: list[int]", "x = 0\nt = 0\nfor x in xs:\n t = t + x\nreturn t + x"),
)
def own_loop_variable(s: ast.stmt, place: Place, i: int) -> list[ast.stmt] | None:
    info = place.info
    if not isinstance(s, ast.For) or s.orelse:
        return None
    for name in sorted(stored_names(s.target)):
        inside = sum(isinstance(n, ast.Name) and n.id == name for n in walk(s))
        everywhere = sum(isinstance(n, ast.Name) and n.id == name for n in walk(info.node))
        if inside == everywhere and name not in info.arguments:
            continue
        if not private(name, place) or name in place.live_at(s):
            continue
        if any(name in stored_names(x) for x in s.body):
            continue
        new = rename(clone(s), {name: place.context.name(name.rstrip("0123456789_") or "i")})
        new.iter = s.iter  # evaluated before the loop binds its variable
        return [new]
    return None
