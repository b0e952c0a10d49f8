"""Definitions: what has no behaviour goes (annotations, demo code, what nothing uses); nested functions move
out, small or once-called ones are put where they are called, and methods stand in one order."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from importlib import import_module
from itertools import takewhile

from skyt.repair.rules.analysis import syntax, trees
from skyt.repair.rules.analysis.program import FunctionInfo
from skyt.repair.rules.analysis.reach import Reach, free_names
from skyt.repair.rules.analysis.scope import MODULES, Scope
from skyt.repair.rules.analysis.trees import clone, exchanged, text, walk
from skyt.repair.rules.engine import Context
from skyt.repair.rules.names.assignments import before, simple_target
from skyt.repair.rules.registry import Place, block, module

FREE_MODULES = MODULES | trees.words("typing __future__ sys os dataclasses abc unittest doctest time")
IMPORTS = (ast.Import, ast.ImportFrom)


@module(
    phases="01",
    needs="statements that neither define nor change what the entry point needs; methods that nothing names, "
    "or in this language runs; for annotations in a class: neither decorators nor bases, which may read them",
    sound="such statements cannot change a result; output, `__main__` and annotations are not observed",
    fires="n: int\nclass Box:\n def __init__(self, x: int):\n  self.x = x\n def unused(self):\n  return 0\n"
    "def f(n: int) -> int:\n return Box(n).x\nif __name__ == '__main__':\n print(f(1))",
    keeps="n: int\nclass Box:\n def __init__(self, x):\n  self.x = x\n def all(self):\n"
    "  return self.x + LIMIT\nLIMIT = 3\ndef g(n):\n return Box(n)\ndef f(n):\n return g(n).all()",
)
def drop_unused(context: Context) -> bool:
    """Annotations go, and what a call of the entry point does not reach: demo code, imports, definitions."""
    tree, facts = context.tree, context.facts
    dropped = [] if context.rounds else _drop_annotations(tree)  # no rule annotates anything
    if len(tree.body) > 1 and any(getattr(s, "name", "") == facts.name for s in tree.body):
        reach = Reach(tree, facts.name)
        known = ast.Import if context.rounds else ()  # an import that the rules do not know may fail
        kept = [s for s in reach.kept if not isinstance(s, known) or {a.name for a in s.names} & reach.needed]
        dropped += [s for s in tree.body if s not in kept]
        tree.body = kept
    if context.rounds:  # the program is in the language of the rules
        dropped += _drop_methods(tree, facts.public)
    if dropped:
        context.record("drop-unused", text(dropped), "")
    return bool(dropped)


def _drop_annotations(tree: ast.Module) -> list[ast.AST]:
    """Take out all annotations, and give them."""
    found: list[ast.AST | None] = []
    for node in walk(tree):
        if isinstance(node, ast.arg):
            found.append(node.annotation)
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            found.append(node.returns)
            node.returns = None
        elif isinstance(node, ast.ClassDef) and (node.decorator_list or node.bases or node.keywords):
            continue  # a dataclass or a named tuple makes its fields of them
        for body in syntax.blocks(node):
            if annotated := [s for s in body if isinstance(s, ast.AnnAssign)]:
                found += annotated
                kept = [s for s in body if s not in annotated or s.value is not None]
                body[:] = [_plain(s) for s in kept] or [ast.Pass()]
    return [annotation for annotation in found if annotation is not None]


def _plain(s: ast.stmt) -> ast.stmt:
    annotated = isinstance(s, ast.AnnAssign)
    return ast.Assign(targets=[s.target], value=s.value, lineno=0) if annotated else s  # type: ignore


def _drop_methods(tree: ast.Module, public: frozenset[str]) -> list[ast.AST]:
    """Take out the methods that nothing names; of the special ones only `__init__` is ever called."""
    dropped: list[ast.AST] = []
    for owner in (s for s in tree.body if isinstance(s, ast.ClassDef)):
        for m in [m for m in owner.body if isinstance(m, ast.FunctionDef) and m.name not in public]:
            others = walk([x for x in [*tree.body, *owner.body] if x is not owner and x is not m])
            named = any(isinstance(n, ast.Attribute) and n.attr == m.name for n in others)
            if not named and m.name != "__init__" and len(owner.body) > 1:
                owner.body.remove(m)
                dropped.append(m)
    return dropped


@module(
    phases="0",
    needs="the module is one of the standard library without effects on import",
    sound="importing such a module only binds a name, so where it stands does not matter",
    fires="n: int >= 0\nfrom math import isqrt\nreturn isqrt(n)",
    keeps="n: int >= 0\nimport json\nreturn json.dumps(n)",
)
def imports_on_top(context: Context) -> bool:
    """`import re` in a function, `from math import sqrt`, `import math as m`: all become imports on top."""
    tree = context.tree
    found = [s for s in walk(tree) if isinstance(s, IMPORTS)]
    nested = [s for s in found if s not in tree.body]
    functions = [s for s in tree.body if isinstance(s, ast.FunctionDef)]
    meaning = _imported(found)
    if meaning is None or not set(nested) <= {s for f in functions for s in _imported_first(f, tree)}:
        return False
    if not nested and all(isinstance(m, ast.Name) and m.id == name for name, m in meaning.items()):
        return False
    modules = syntax.read_names([*meaning.values()])
    bound = {syntax.binds(n) for n in walk(tree) if not isinstance(n, ast.alias)}
    missing = modules - meaning.keys()  # which the program does not import
    if syntax.read_names(tree) & missing or bound & {*modules, *meaning}:
        return False
    before = "\n".join(("    " if s in nested else "") + text(s) for s in found)
    syntax.substitute(tree, meaning)
    owners: list[ast.Module | ast.FunctionDef] = [tree, *functions]
    for owner in owners:
        owner.body = [s for s in owner.body if s not in found] or [ast.Pass()]
    used = syntax.read_names(tree)
    top: list[ast.stmt] = [ast.Import(names=[ast.alias(name=m)]) for m in sorted(modules & used)]
    tree.body = [*top, *tree.body]
    context.record("imports-on-top", before, text(top))
    return True


def _imported(found: Sequence[ast.Import | ast.ImportFrom]) -> dict[str, ast.expr] | None:
    """What every imported name means; None where a module is not known to be without effects."""
    meaning: dict[str, ast.expr] = {}
    for s, alias in ((x, alias) for x in found for alias in x.names):
        owner, name = (alias.name, "") if isinstance(s, ast.Import) else (s.module or "", alias.name)
        known = owner in FREE_MODULES and not getattr(s, "level", None)
        if not known or not hasattr(import_module(owner), name or "__name__"):
            return None
        if owner != "__future__":
            means = ast.parse(f"{owner}.{name}" if name else owner, mode="eval").body
            if text(meaning.setdefault(alias.asname or alias.name, means)) != text(means):
                return None
    return meaning


def _imported_first(function: ast.FunctionDef, tree: ast.Module) -> list[ast.stmt]:
    """What a function imports before it does anything else, if no other function uses the names."""
    first = [*takewhile(lambda s: isinstance(s, IMPORTS), function.body)]
    others = [x for x in tree.body if x is not function]
    return [] if syntax.stored_names(first) & syntax.read_names(others) else first


@block(
    ast.Expr,
    ast.Pass,
    ast.Assign,
    needs="for a store: a local that is not live afterwards; a value with effects, or that may raise, stays",
    sound="expressions without effects that cannot raise do nothing; a value that nobody reads is not needed",
    fires="n: int\nn + 1\nm = n + 1\nreturn n",
    keeps="n: int\n1 // n\nm = n + 1\nreturn m",
)
def drop_idle(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """Statements that do nothing go, and stores that nobody reads."""
    kept: list[ast.stmt] = []
    for i, s in enumerate(body):
        name = simple_target(s)
        if name is not None and place.private(name) and name not in place.live_at(s):
            s = ast.Expr(value=s.value)  # type: ignore[attr-defined]
        idle = isinstance(s, ast.Pass) and len(body) > 1
        if not idle and not (isinstance(s, ast.Expr) and place.before(i).effects(s.value).total):
            kept.append(s)
    return None if len(kept) == len(body) and all(map(operator.is_, kept, body)) else kept


MAX_INLINED = 400  # nodes that inlining may add to a program
NONE = ast.Constant(value=None)
Given = dict[str, ast.expr]  # the arguments of a call, by the names of the parameters


@module(
    needs="a private function that does not call itself, with plain parameters, called where its body fits",
    sound="parameters become fresh locals, assigned in order; returns become the caller's, or its value",
    fires="n: int\ndef f(n):\n return g(n, 1)\ndef g(a, b):\n if a < b:\n  return b\n return a",
    keeps="n: int\ndef f(n):\n return g(n, 1)\ndef g(a, b):\n if a < b or a < 1:\n  return b\n"
    " return g(a - 1, b)",
)
def inline_function(context: Context) -> bool:
    """`return helper(a)` becomes the helper's body; `x = helper(a)` too where it returns only at its end."""
    functions = list(context.program.functions.values())
    for info in (i for i in functions if _inlinable(i, context)):
        calls = [(owner, c) for owner in functions for c in _calls(owner.node, info)]
        handed_on = not info.public and len(_named(context.tree, info)) != len(calls)
        if handed_on or len(walk(info.node)) * (len(calls) - 1) > MAX_INLINED:
            continue
        if any(_inline_call(owner, call, info, context) for owner, call in calls):
            return True
    return False


def _inlinable(info: FunctionInfo, context: Context) -> bool:
    node, nodes = info.node, walk(info.node)
    special = info.owner is not None and node.name.startswith("__")
    if info.public or node.name in context.facts.public:  # stays, but a call may show what it returns
        only = info.owner is not None and len(node.body) == 1 and isinstance(node.body[0], ast.Return)
        if not only or any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) for n in nodes):
            return False
    nested = any(isinstance(n, trees.NESTED) and n is not node for n in nodes)
    if special or nested or node.args.defaults or (info.owner is None and node not in context.tree.body):
        return False
    alone = sum(i.node.name == node.name for i in context.program.functions.values()) == 1
    return alone and not _calls(node, info)


def _named(where: ast.AST, info: FunctionInfo) -> list[ast.AST]:
    """What names a function, or any method that is named like it."""
    field = "id" if info.owner is None else "attr"
    return [n for n in walk(where) if getattr(n, field, None) == info.node.name]


def _calls(where: ast.FunctionDef, info: FunctionInfo) -> list[ast.Call]:
    named = _named(where, info)
    return [n for n in walk(where) if isinstance(n, ast.Call) and not n.keywords and n.func in named]


def _inline_call(owner: FunctionInfo, call: ast.Call, info: FunctionInfo, context: Context) -> bool:
    arguments = list(call.args)
    if isinstance(call.func, ast.Attribute):  # of `self`
        receiver = getattr(call.func.value, "id", "")
        if owner.owner is not info.owner or [receiver] != owner.arguments[:1] or receiver in owner.assigned:
            return False
        arguments = [call.func.value, *arguments]
    if len(arguments) != len(info.arguments) or free_names(info.node) & syntax.bound_in(owner.node):
        return False
    found, scope = _locate(owner.node.body, call), Scope(context.program, owner)
    if found is None:
        return False
    body, i = found
    given = dict(zip(info.arguments, arguments, strict=True))
    new = _expression(body[i], call, info, given, scope) or _fit(body[i], call, info, given, scope, context)
    if new is None:
        return False
    before = text(owner.node.body)
    body[i : i + 1] = new
    context.record("inline-function", before, text(owner.node.body))
    return True


def _locate(body: list[ast.stmt], call: ast.Call) -> tuple[list[ast.stmt], int] | None:
    """The innermost block that has a call, and where."""
    for i, s in enumerate(body):
        if call in walk(s):
            inner = next((b for b in syntax.blocks(s) if call in walk(b)), None)
            if inner is None:
                return body, i
            return None if isinstance(s, trees.NESTED) else _locate(inner, call)
    return None


def _expression(
    s: ast.stmt, call: ast.Call, info: FunctionInfo, given: Given, scope: Scope
) -> list[ast.stmt] | None:
    """A statement with the value of a helper that is one `return` for its call, if arguments may move."""
    only = info.node.body[0]
    if not isinstance(only, ast.Return) or only.value is None:
        return None
    if any(isinstance(n, (ast.Lambda, *trees.COMPREHENSIONS)) for n in walk(only.value)):
        return None
    for name, argument in given.items():
        if not isinstance(argument, ast.Constant | ast.Name):
            seen = scope.effects(argument)
            if not seen.total or seen.heap_reads or syntax.count_reads(only, name) > 1:
                return None
    new = exchanged(s, call, syntax.substitute(clone(only.value), given))
    return [new] if syntax.keeps_sets([s, only], new) else None


def _fit(
    s: ast.stmt, call: ast.Call, info: FunctionInfo, given: Given, scope: Scope, context: Context
) -> list[ast.stmt] | None:
    """A statement after the body of a helper, with what that returns in the place of its call."""
    fresh = {n: context.name(n) for n in sorted(syntax.bound_in(info.node))}
    body = [syntax.rename(clone(x), fresh) for x in info.node.body]
    start = [syntax.assign(fresh[name], clone(argument)) for name, argument in given.items()]
    if isinstance(s, ast.Return) and s.value is call:
        return [*start, *body, *([] if syntax.returns(body) else [ast.Return(value=NONE)])]
    earlier, result = before(s, call), context.name("r")
    inner = _assigning(body, result)
    seen = scope.effects(earlier or [])  # before or after the helper is the same for what reads only locals
    if earlier is None or not inner or not seen.total or seen.heap_reads:
        return None
    return [*start, *inner, exchanged(s, call, syntax.load(result))]


def _assigning(body: list[ast.stmt], name: str) -> list[ast.stmt] | None:
    """The block with `name = value` for `return value`; None if a return stands inside a loop or the like."""
    for i, s in enumerate(body):
        if isinstance(s, ast.Return):
            return [*body[:i], syntax.assign(name, s.value or NONE)]
        if any(isinstance(n, ast.Return) for n in walk(s, trees.SHALLOW)):
            if not isinstance(s, ast.If) or not syntax.returns(s.body):
                return None
            then, other = _assigning(s.body, name), _assigning([*s.orelse, *body[i + 1 :]], name)
            return [*body[:i], ast.If(test=s.test, body=then, orelse=other)] if then and other else None
    return [*body, syntax.assign(name, NONE)]


@module(
    needs="a nested function that uses no variable of the function around it but parameters that nothing "
    "assigns; if it reads some, it is only called",
    sound="where such a function is defined does not matter; what it reads when called is passed to it then",
    fires="n: int\ndef g(k):\n if k > 3:\n  return g(k - 3) + n\n return k * n\nreturn g(n) + g(5)",
    keeps="n: int\nt = n\ndef g(k):\n return k * t\nt = 5\nreturn g(n)",
)
def lift_function(context: Context) -> bool:
    """A nested function takes what it reads of the outer one as parameters, and moves to the top."""
    for outer in [s for s in context.tree.body if isinstance(s, ast.FunctionDef)]:
        for inner in [s for s in outer.body if isinstance(s, ast.FunctionDef)]:
            others, free = [x for x in outer.body if x is not inner], free_names(inner)
            bound = syntax.bound_anywhere([*others, *trees.children(inner)])
            if inner.args.defaults or {inner.name, *free} & bound:
                continue
            wanted = [a.arg for a in outer.args.args if a.arg in free]
            named = [n for n in walk(outer) if isinstance(n, ast.Name) and n.id == inner.name]
            calls = [n for n in walk(outer) if isinstance(n, ast.Call) and n.func in named]
            plain = all(len(c.args) == len(inner.args.args) and not c.keywords for c in calls)
            if wanted and (not plain or len(calls) != len(named)):
                continue
            inner.args.args += [ast.arg(arg=p) for p in wanted]
            for c in calls:
                c.args += map(syntax.load, wanted)
            context.record("lift-function", f"def {outer.name}: … def {inner.name}", f"def {inner.name}")
            syntax.rename(outer, {inner.name: context.name(inner.name)})
            outer.body = others or [ast.Pass()]
            context.tree.body.append(inner)
            return True
    return False


@module(
    needs="a class that defines each of its methods once",
    sound="methods are looked up by name, and none is called while the class is made",
    fires="n: int\nclass Box:\n def low(self):\n  return self.x - 1\n def high(self):\n  return self.x + 1\n"
    " def __init__(self, x):\n  self.x = x\ndef f(n):\n b = Box(n)\n return [b.high(), b.low()]",
    keeps="n: int\nclass Box:\n def low(self):\n  return 0\n def low(self):\n  return self.x\n"
    " def __init__(self, x):\n  self.x = x\ndef f(n):\n b = Box(n)\n return b.low()",
)
def order_methods(context: Context) -> bool:
    """`__init__`, then the contract's methods in its order, then the others as they are first named."""
    tree, facts = context.tree, context.facts
    for owner in (s for s in tree.body if isinstance(s, ast.ClassDef)):
        methods = {m.name: m for m in owner.body if isinstance(m, ast.FunctionDef)}
        public = facts.methods if facts.name == owner.name else ()
        pending = ["__init__", *public, *(a for s in tree.body if s is not owner for a in _attributes(s))]
        order: list[str] = []
        while pending:
            name = pending.pop(0)
            if name in methods and name not in order:
                order.append(name)
                pending += _attributes(methods[name])
        order += [name for name in methods if name not in order]
        if order != list(methods) and len(methods) == len(owner.body):
            owner.body = [methods[name] for name in order]
            context.record("order-methods", " ".join(methods), " ".join(order))
            return True
    return False


def _attributes(node: ast.AST) -> list[str]:
    return [n.attr for n in trees.in_order(node) if isinstance(n, ast.Attribute)]
