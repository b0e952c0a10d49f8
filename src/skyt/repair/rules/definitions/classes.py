"""Data classes, written out."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.trees.syntax import int_value, load
from skyt.repair.rules.analysis.trees.trees import children, clone, text, walk
from skyt.repair.rules.analysis.values.infer import dotted
from skyt.repair.rules.context import Context
from skyt.repair.rules.registry import module

FACTORIES: dict[str, ast.expr] = {
    "list": ast.List(elts=[], ctx=ast.Load()),
    "dict": ast.Dict(keys=[], values=[]),
    "set": ast.Call(func=load("set"), args=[], keywords=[]),
}
SPECIAL = ("ClassVar", "InitVar", "KW_ONLY")


@module(
    phase=0,
    needs="a `dataclass` without options or bases; fields without default, with constants, or with a factory "
    "for an argument that nobody passes; objects that are only used for their attributes",
    sound="the decorator makes an `__init__` that stores its arguments in the fields; comparing, showing and "
    "hashing, which it makes too, nobody does",
)
def expand_dataclass(context: Context) -> bool:
    """`@dataclass class P: x: int` is a class with `def __init__(self, x): self.x = x`."""
    changed = False
    imported = any(isinstance(s, ast.Import) and same_name(s, "dataclasses") for s in context.tree.body)
    for owner in context.tree.body:
        if not (isinstance(owner, ast.ClassDef) and imported and _plain(owner)):
            continue
        fields = [s for s in owner.body if isinstance(s, ast.AnnAssign)]
        passed = _passed(owner, context)
        init = _initialiser(fields, passed) if passed is not None else None
        if init is None or not _only_attributes(owner):
            continue
        before = text(fields)
        owner.body = [init, *(s for s in owner.body if isinstance(s, ast.FunctionDef))]
        owner.decorator_list = []
        context.record("expand-dataclass", before, text(init))
        changed = True
    return changed


def same_name(s: ast.Import, name: str) -> bool:
    return any(a.name == name and a.asname is None for a in s.names)


def _plain(owner: ast.ClassDef) -> bool:
    if owner.bases or owner.keywords or len(owner.decorator_list) != 1:
        return False
    decorator = owner.decorator_list[0]
    if isinstance(decorator, ast.Call) and not (decorator.args or decorator.keywords):
        decorator = decorator.func
    if dotted(decorator) != "dataclasses.dataclass":
        return False
    names = set[str]()
    for s in owner.body:
        if isinstance(s, ast.FunctionDef):
            special = s.name.startswith("__") or s.decorator_list
            if special or s.name in names or not s.args.args or s.args.posonlyargs:
                return False
            names.add(s.name)
        elif isinstance(s, ast.AnnAssign):
            if not isinstance(s.target, ast.Name) or not s.simple or s.target.id in names:
                return False
            if s.target.id.startswith("__") or s.target.id == "self":
                return False
            if any(word in text(s.annotation) for word in SPECIAL):
                return False
            names.add(s.target.id)
        elif not isinstance(s, ast.Pass):
            return False
    return any(isinstance(s, ast.AnnAssign) for s in owner.body)


def _passed(owner: ast.ClassDef, context: Context) -> int | None:
    """How many arguments objects are made with at most; None where that, or what becomes of them, is open."""
    facts = context.facts
    mentions = [n for n in walk(context.tree) if isinstance(n, ast.Name) and n.id == owner.name]
    if owner.name == facts.name:
        return len(facts.parameters) if not mentions and facts.positional else None
    parents = {id(c): p for p in walk(context.tree) for c in children(p)}
    most = 0
    for n in mentions:
        made = parents.get(id(n))
        if not isinstance(made, ast.Call) or made.func is not n or made.keywords:
            return None
        if any(isinstance(a, ast.Starred) for a in made.args) or not _kept_local(made, parents):
            return None
        most = max(most, len(made.args))
    return most


def _kept_local(made: ast.Call, parents: dict[int, ast.AST]) -> bool:
    """Whether an object is used at once for an attribute, or under a local name for nothing else."""
    outer = parents.get(id(made))
    if isinstance(outer, ast.Attribute):
        return True
    if not (
        isinstance(outer, ast.Assign) and len(outer.targets) == 1 and isinstance(outer.targets[0], ast.Name)
    ):
        return False
    here: ast.AST | None = outer
    while here is not None and not isinstance(here, ast.FunctionDef):
        here = parents.get(id(here))
    name = outer.targets[0].id
    return here is not None and all(
        isinstance(parents.get(id(n)), ast.Attribute)
        for n in walk(here)
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
    )


def _only_attributes(owner: ast.ClassDef) -> bool:
    """Whether every method uses its object for attributes alone."""
    for m in owner.body:
        if not isinstance(m, ast.FunctionDef):
            continue
        parents = {id(c): p for p in walk(m) for c in children(p)}
        name = m.args.args[0].arg
        mentions = [n for n in walk(m) if isinstance(n, ast.Name) and n.id == name]
        if not all(isinstance(parents.get(id(n)), ast.Attribute) for n in mentions):
            return False
        if any(isinstance(n, ast.Name) and n.id == "super" for n in walk(m)):
            return False
        if any(isinstance(n, ast.Attribute) and n.attr.startswith("__") for n in walk(m)):
            return False
    return True


def _initialiser(fields: list[ast.AnnAssign], passed: int) -> ast.FunctionDef | None:
    arguments, defaults = [ast.arg(arg="self")], list[ast.expr]()
    body: list[ast.stmt] = []
    open_ended = True  # whether the field is still one that callers can give
    for i, f in enumerate(fields):
        name = f.target.id  # type: ignore[union-attr]
        factory = _factory(f.value)
        default = _default(f.value)
        if factory is not None:
            if passed > i:
                return None
            open_ended = False
        elif f.value is not None and default is None:
            return None
        if default is None and factory is None and (defaults or not open_ended):
            return None
        value: ast.expr = load(name)
        if open_ended:
            arguments.append(ast.arg(arg=name))
            defaults += [default] if default is not None else []
        elif factory is not None or default is not None:
            value = clone(factory or default)  # type: ignore[assignment, type-var]
        target = ast.Attribute(value=load("self"), attr=name, ctx=ast.Store())
        body.append(ast.Assign(targets=[target], value=value, lineno=0))
    given = ast.arguments(
        posonlyargs=[],
        args=arguments,
        kwonlyargs=[],
        kw_defaults=[],
        defaults=defaults,
        vararg=None,
        kwarg=None,
    )
    return ast.FunctionDef(name="__init__", args=given, body=body, decorator_list=[], returns=None, lineno=0)


def _options(value: ast.expr | None) -> dict[str | None, ast.expr] | None:
    if isinstance(value, ast.Call) and dotted(value.func) == "dataclasses.field" and not value.args:
        return {k.arg: k.value for k in value.keywords}
    return None


def _factory(value: ast.expr | None) -> ast.expr | None:
    options = _options(value)
    if options is None or set(options) != {"default_factory"}:
        return None
    made = options["default_factory"]
    return FACTORIES.get(made.id) if isinstance(made, ast.Name) else None


def _default(value: ast.expr | None) -> ast.expr | None:
    options = _options(value)
    if options is not None:
        value = options.get("default") if set(options) == {"default"} else None
    if value is None:
        return None
    return value if isinstance(value, ast.Constant) or int_value(value) is not None else None
