"""Binders: every name means one thing, so that chance equality of names is gone."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.scope import BUILTINS, MODULES
from skyt.repair.rules.analysis.syntax import local_functions, own_breaks, rename, stored_names
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, NESTED, clone, walk
from skyt.repair.rules.engine.context import Census, Context
from skyt.repair.rules.names.assignments import simple_target
from skyt.repair.rules.registry import Place, block, module

RESERVED = BUILTINS | MODULES


@module(
    phase=0,
    needs="a name of a builtin that a function or the module binds, with no `global` and no keyword of that "
    "name; or a variable of a comprehension that is also a name outside it",
    sound="a name means one thing within its scope, so it can be any name that is not taken",
    fires=("xs: list[int]", "sum = 0\nfor max in xs:\n sum = sum + max\nreturn [x for x in xs] + [sum]"),
    keeps=("xs: list[int]", "def f(xs):\n return g(xs, sum=2)\ndef g(xs, sum):\n return [sum, *xs]"),
)
def own_names(context: Context) -> bool:
    """`sum = 0` hides a builtin that rules may want to use: the local gets another name. So does the variable
    of a comprehension that is called like one outside it."""
    tree, facts = context.tree, context.facts
    count = len(context.trace)
    fixed = {k.arg for k in walk(tree) if isinstance(k, ast.keyword)} | set(facts.public)
    fixed |= {(a.asname or a.name).split(".")[0] for a in walk(tree) if isinstance(a, ast.alias)}
    fixed |= {n for c in tree.body if isinstance(c, ast.ClassDef) for s in c.body for n in stored_names(s)}
    plain = not any(isinstance(n, ast.Global | ast.Nonlocal) for n in walk(tree))
    if plain:
        top = [s for s in tree.body if not isinstance(s, ast.Import | ast.ImportFrom)]
        _renamed(tree, {n for s in top for n in stored_names(s)} & RESERVED - fixed, context)
    for owner, function in local_functions(tree):
        arguments = {a.arg for a in walk(function.args) if isinstance(a, ast.arg)}
        if plain:
            public = owner is not None or function.name in facts.public
            names = {n for s in function.body for n in stored_names(s)} | arguments
            kept = fixed | (arguments if public and not facts.positional else set())
            _renamed(function, names & RESERVED - kept, context)
        for n in walk(function):
            if isinstance(n, COMPREHENSIONS):
                inside = {id(k) for k in walk(n)}
                outside = {m.id for m in walk(function) if isinstance(m, ast.Name) and id(m) not in inside}
                own = {x for g in n.generators for x in stored_names(g.target)}
                clash = own & (outside | arguments | RESERVED)
                first = {k.id for k in walk(n.generators[0].iter) if isinstance(k, ast.Name)}
                if not clash & first:
                    _renamed(n, clash, context)
    return len(context.trace) > count


def _renamed(where: ast.AST, names: set[str], context: Context) -> None:
    """Give these names new ones within a module, a function or a comprehension."""
    if not names:
        return
    fresh = {name: context.name(name) for name in sorted(names)}
    if isinstance(where, ast.FunctionDef):
        rename(where.args, fresh)
        where.body = [rename(s, fresh) for s in where.body]
    else:
        rename(where, fresh)
    context.record("own-names", " ".join(fresh), " ".join(fresh.values()))


@block(
    ast.Assign,
    ast.For,
    needs="a value, or the variable of a loop, that is not read after its block or loop, under a name that "
    "is bound elsewhere too",
    sound="values that never meet others under their name can have any free name",
    fires=(
        "s: str; xs: list[int]",
        "t = 0\nfor x in xs:\n t = t + x\nfor x in xs:\n t = t - 2 * x\ns = s.lower()\nreturn s * t + s",
    ),
    keeps=(
        "s: str; xs: list[int]",
        "x = 0\nfor x in xs:\n t = x\nwhile len(s) > 3:\n s = s[1:]\nreturn s * x",
    ),
)
def own_variable(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`text = text.lower(); … text …` keeps the parameter and gives the new value its own name."""
    for i, s in enumerate(body):
        new = _own_loop(s, place) if isinstance(s, ast.For) else _own_value(body, i, place)
        if new is not None:
            return [*body[:i], *new, *([] if len(new) > 1 else body[i + 1 :])]
    return None


def _own_loop(s: ast.For, place: Place) -> list[ast.stmt] | None:
    """The loop with a variable of its own, if another part of the function has one of that name."""
    for name in sorted(stored_names(s.target)):
        used = _mentions(s, name) < _mentions(place.info.node, name) or name in place.info.arguments
        if not used or s.orelse or not place.private(name) or name in place.live_at(s):
            continue
        if any(name in stored_names(x) for x in s.body):
            continue
        new = rename(clone(s), {name: _fresh(name, place)})
        new.iter = s.iter  # evaluated before the loop binds its variable
        return [new]
    return None


def _mentions(where: ast.AST, name: str) -> int:
    return sum(isinstance(n, ast.Name) and n.id == name for n in walk(where))


def _fresh(name: str, place: Place) -> str:
    return place.context.name(name.rstrip("0123456789_") or "t")


def _own_value(body: list[ast.stmt], i: int, place: Place) -> list[ast.stmt] | None:
    """The rest of a block from an assignment on, with a name of its own for what is assigned."""
    name, rest = simple_target(body[i]), body[i + 1 :]
    if name is None or name in place.live_out or not place.private(name):
        return None
    if name not in place.info.arguments:
        stores = place.context.census(place.info.node).stores[name]
        if stores in (1, Census(body[i:]).stores[name]):
            return None
    if own_breaks(rest, (ast.Break, ast.Continue)) or any(isinstance(n, NESTED) for n in walk(body)):
        return None
    fresh, first = _fresh(name, place), clone(body[i])
    first.targets = [ast.Name(id=fresh, ctx=ast.Store())]  # type: ignore[attr-defined]
    return [first, *(rename(clone(x), {name: fresh}) for x in rest)]
