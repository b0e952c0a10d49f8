"""Names: every name means one thing, so that chance equality of names is gone; and what no caller can see is
called by the order in which it appears."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis import syntax
from skyt.repair.rules.analysis.language import NAMES
from skyt.repair.rules.analysis.scope import MODULES
from skyt.repair.rules.analysis.syntax import NAMING, local_functions, rename, stored_names
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, NESTED, clone, in_order, own_nodes, walk
from skyt.repair.rules.analysis.types import kind
from skyt.repair.rules.engine import Census, Context
from skyt.repair.rules.names.assignments import simple_target
from skyt.repair.rules.registry import Place, block, module

RESERVED = NAMES | MODULES


@module(
    phases="0",
    needs="a name of a builtin that is bound, with no `global` nor keyword of that name; or a variable of a "
    "comprehension that is also a name outside it",
    sound="a name means one thing within its scope, so it can be any name that is not taken",
    fires="xs: list[int]\nsum = 0\nfor max in xs:\n sum = sum + max\nreturn [x for x in xs] + [sum]",
    keeps="xs: list[int]\ndef f(xs):\n return g(xs, sum=2)\ndef g(xs, sum):\n return [sum, *xs]",
)
def own_names(context: Context) -> bool:
    """`sum = 0` hides a builtin that rules may want to use: the local gets another name. So does the variable
    of a comprehension that is called like one outside it."""
    tree, facts = context.tree, context.facts
    count = len(context.trace)
    fixed = _keywords(tree) | facts.public
    fixed |= {(a.asname or a.name).split(".")[0] for a in walk(tree) if isinstance(a, ast.alias)}
    fixed |= {n for c in tree.body if isinstance(c, ast.ClassDef) for s in c.body for n in stored_names(s)}
    plain = not any(isinstance(n, ast.Global | ast.Nonlocal) for n in walk(tree))
    if plain:
        top = [s for s in tree.body if not isinstance(s, ast.Import | ast.ImportFrom)]
        _renamed(tree, stored_names(top) & RESERVED - fixed, context)
    for owner, function in local_functions(tree):
        arguments = {a.arg for a in walk(function.args) if isinstance(a, ast.arg)}
        if plain:
            public = owner is not None or function.name in facts.public
            kept = fixed | (arguments if public and not facts.positional else set())
            _renamed(function, (stored_names(function.body) | arguments) & RESERVED - kept, context)
        for n in walk(function):
            if isinstance(n, COMPREHENSIONS):
                first, n.generators[0].iter = n.generators[0].iter, ast.Constant(value=None)
                inside = {id(k) for k in walk(n)}  # the first source is evaluated outside
                outside = {
                    m.id for m in walk([function, first]) if m.__class__ is ast.Name and id(m) not in inside
                }
                own = {x for g in n.generators for x in stored_names(g.target)}
                _renamed(n, own & (outside | arguments | RESERVED), context)
                n.generators[0].iter = first
    return len(context.trace) > count


def _keywords(tree: ast.Module) -> set[str]:
    """The keywords of calls: a parameter may be meant."""
    return {k.arg for k in walk(tree) if isinstance(k, ast.keyword) and k.arg}


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
    needs="a value, or a loop's variable, not read after its block or loop; its name is bound elsewhere too",
    sound="values that never meet others under their name can have any free name",
    fires="s: str\nt = 0\nfor x in s:\n t = t + 1\nfor x in s:\n t = t * 2\ns = s.lower()\nreturn s * t + s",
    keeps="s: str; xs: list[int]\nx = 0\nfor x in xs:\n t = x\nwhile len(s) > 3:\n s = s[1:]\nreturn s * x",
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
    late = syntax.read_names([n for n in walk(s.iter) if isinstance(n, ast.GeneratorExp)])  # in every round
    for name in sorted(stored_names(s.target) - place.live_at(s) - stored_names(s.body) - late):
        used = _mentions(s, name) < _mentions(place.info.node, name) or name in place.info.arguments
        if used and not s.orelse and place.private(name):
            new = rename(clone(s), {name: place.context.name(name)})
            new.iter = s.iter  # evaluated before the loop binds its variable
            return [new]
    return None


def _mentions(where: ast.AST, name: str) -> int:
    return sum(isinstance(n, ast.Name) and n.id == name for n in walk(where))


def _own_value(body: list[ast.stmt], i: int, place: Place) -> list[ast.stmt] | None:
    """The rest of a block from an assignment on, with a name of its own for what is assigned."""
    name, rest = simple_target(body[i]), body[i + 1 :]
    if name is None or name in place.live_at(body[-1]) or not place.private(name):
        return None
    if name not in place.info.arguments:
        stores = place.context.census(place.info.node).stores[name]
        if stores == 1 or stores == Census(body[i:]).stores[name]:
            return None
    if syntax.own_breaks(rest, (ast.Break, ast.Continue)) or any(isinstance(n, NESTED) for n in walk(body)):
        return None
    fresh, first = place.context.name(name), clone(body[i])
    first.targets = [ast.Name(id=fresh, ctx=ast.Store())]  # type: ignore[attr-defined]
    return [first, *(rename(clone(x), {name: fresh}) for x in rest)]


@module(
    phases="2",
    needs="public names; for parameters: calls by position",
    sound="a name that only the program itself uses can be any name that is not taken",
    fires="n: int\nm = n\nreturn m",
    keeps="n: int\ndef f(v0):\n return v0",
)
def rename_private(context: Context) -> bool:
    """Locals, parameters, private functions, classes and attributes are numbered in order of appearance."""
    tree, facts = context.tree, context.facts
    kept = {facts.name, "__name__"} | _keywords(tree)  # the methods of a class are attributes, not variables
    if not facts.positional:
        kept |= {a for i in context.program.functions.values() if i.public for a in i.arguments}
    private, named = _private_attributes(tree, context), {m.name for m in _methods(tree)} | facts.public
    taken = named.union(n.attr for n in walk(tree) if isinstance(n, ast.Attribute)).difference(private)
    fields = dict(zip(private, (a for i in range(10_000) if (a := f"a{i}") not in taken), strict=False))
    found = [*_numbered([tree], _globals(tree) - kept, "g").items()]
    for _, function in local_functions(tree):
        inside = [function.args, *function.body]
        found += _numbered(inside, syntax.bound_anywhere(inside) - kept, "v").items()
    for n in walk(tree):
        if isinstance(n, ast.Attribute):
            n.attr = fields.get(n.attr, n.attr)
    for method in _methods(tree):
        method.name = fields.get(method.name, method.name)
    found = [(old, new) for old, new in (*found, *fields.items()) if old != new]
    if found:
        context.record("rename-private", " ".join(old for old, _ in found), " ".join(new for _, new in found))
    return bool(found)


def _methods(tree: ast.Module) -> list[ast.FunctionDef]:
    return [function for owner, function in local_functions(tree) if owner is not None]


def _globals(tree: ast.Module) -> set[str]:
    """Functions, classes and variables of the module that no function hides."""
    names = {s.name for s in tree.body if isinstance(s, ast.FunctionDef | ast.ClassDef)}
    names |= {n for s in tree.body if isinstance(s, ast.Assign) for n in stored_names(s)}
    hidden = {n.arg for n in walk(tree) if isinstance(n, ast.arg)}
    return names.difference(hidden, *(stored_names(function.body) for _, function in local_functions(tree)))


def _numbered(where: list[ast.AST], names: set[str], letter: str) -> dict[str, str]:
    """Rename these names inside: v0, v1, … in order of appearance, without those that are taken."""
    seen = [getattr(n, NAMING[n.__class__]) for x in where for n in in_order(x) if n.__class__ in NAMING]
    taken = set(seen) - names
    numbers = iter(f"{letter}{i}" for i in range(10_000) if f"{letter}{i}" not in taken)
    renaming = {name: next(numbers) for name in dict.fromkeys(seen) if name in names}
    for x in where:
        rename(x, renaming)
    return renaming


def _private_attributes(tree: ast.Module, context: Context) -> list[str]:
    """Attributes that the program's own classes define and that mean nothing else, in order of appearance."""
    nodes = in_order(tree)
    defined = {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    defined |= {method.name for method in _methods(tree)}
    defined -= {a for a in defined if a.startswith("__") and a.endswith("__")} | context.facts.public
    defined -= {a for a in defined if not _of_objects(a, nodes, context)}
    seen = [n.attr if isinstance(n, ast.Attribute) else getattr(n, "name", "") for n in nodes]
    return [a for a in dict.fromkeys(seen) if a in defined]


def _of_objects(name: str, nodes: list[ast.AST], context: Context) -> bool:
    """Whether every use of an attribute is surely of an object of the program's classes."""
    infos, of = context.program.functions.values(), context.program.inference.of
    uses = [(n, info) for info in infos for n in own_nodes(info.node) if isinstance(n, ast.Attribute)]
    own = {id(n) for n, info in uses if kind(of(n.value, info.env)).startswith("object:")}
    return all(id(n) in own for n in nodes if isinstance(n, ast.Attribute) and n.attr == name)
