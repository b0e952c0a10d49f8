"""Helper functions: nested ones move out, small or once-called ones are put where they are called."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from skyt.repair.rules.analysis.program import FunctionInfo
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import (
    assign,
    bound_in,
    count_reads,
    keeps_sets,
    load,
    read_names,
    rename,
    returns,
    substitute,
)
from skyt.repair.rules.analysis.trees import (
    COMPREHENSIONS,
    NESTED,
    clone,
    exchanged,
    text,
    walk,
    walk_shallow,
)
from skyt.repair.rules.analysis.values.types import SIZED, is_str, kind
from skyt.repair.rules.engine.context import Context
from skyt.repair.rules.names.inline import find_use, head_of
from skyt.repair.rules.registry import module

MAX_INLINED = 400  # nodes that inlining may add to a program


@module(
    needs="a private function that does not call itself, with plain parameters, called in a place where "
    "its body fits",
    sound="parameters become locals with fresh names, assigned in order; returns become the caller's "
    "returns or its value",
    fires=("n: int", "def f(n):\n return g(n, 1)\ndef g(a, b):\n if a < b:\n  return b\n return a"),
    keeps=(
        "n: int",
        "def f(n):\n return g(n, 1)\ndef g(a, b):\n if a < b or a < 1:\n  return b\n return g(a - 1, b)",
    ),
)
def inline_function(context: Context) -> bool:
    """`return helper(a, b)` becomes the helper's body; `x = helper(a)` too where the helper returns only at
    its end."""
    program = context.program
    for info in list(program.functions.values()):
        if not _inlinable(info, context):
            continue
        calls = [(owner, c) for owner in program.functions.values() for c in _calls(owner.node, info)]
        if not calls or (not info.public and _mentions(context.tree, info) != len(calls)):
            continue
        grown = sum(1 for _ in walk(info.node)) * (len(calls) - 1)
        if grown > MAX_INLINED:
            continue
        for owner, call in calls:
            if owner.node is info.node:
                continue
            if _inline_call(owner, call, info, context):
                return True
    return False


def _inlinable(info: FunctionInfo, context: Context) -> bool:
    node = info.node
    if node.args.defaults:
        return False
    if info.public or node.name in context.facts.public:  # stays, but a call may show what it returns
        only = info.owner is not None and len(node.body) == 1 and isinstance(node.body[0], ast.Return)
        calls = any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) for n in walk(node))
        if not only or calls or node.name.startswith("__"):
            return False
    elif info.owner is not None and node.name.startswith("__"):
        return False
    if info.owner is None and node not in context.tree.body:
        return False
    if any(isinstance(n, NESTED) and n is not node for n in walk(node)):
        return False
    same_name = [i for i in context.program.functions.values() if i.node.name == node.name]
    return len(same_name) == 1 and not any(True for _ in _calls(node, info))


def _calls(where: ast.FunctionDef, info: FunctionInfo) -> Iterator[ast.Call]:
    for n in walk(where):
        if isinstance(n, ast.Call) and not n.keywords:
            if info.owner is None:
                if isinstance(n.func, ast.Name) and n.func.id == info.node.name:
                    yield n
            elif isinstance(n.func, ast.Attribute) and n.func.attr == info.node.name:
                yield n


def _mentions(tree: ast.Module, info: FunctionInfo) -> int:
    """How often the helper is named at all (a mention that is not a call forbids inlining)."""
    if info.owner is None:
        return count_reads(tree, info.node.name)
    return sum(isinstance(n, ast.Attribute) and n.attr == info.node.name for n in walk(tree))


def _inline_call(owner: FunctionInfo, call: ast.Call, info: FunctionInfo, context: Context) -> bool:
    arguments = list(call.args)
    if info.owner is not None and isinstance(call.func, ast.Attribute):
        receiver = call.func.value
        if not isinstance(receiver, ast.Name):
            return False
        if owner.owner is not info.owner:
            return False
        if not owner.arguments or receiver.id != owner.arguments[0] or receiver.id in owner.assigned:
            return False
        arguments = [receiver, *arguments]
    if len(arguments) != len(info.arguments):
        return False
    free = read_names(info.node) - bound_in(info.node)
    if free & bound_in(owner.node):
        return False
    found = _locate(owner.node, "body", call)
    if found is None:
        return False
    holder, name, index = found
    body: list[ast.stmt] = getattr(holder, name)
    statement = body[index]
    scope = Scope(context.program, owner)
    new = _expression_body(statement, call, info, arguments, scope)
    if new is None:
        prologue, inner = _instantiate(info, arguments, context)
        new = _fit(statement, call, inner, prologue, scope, context, owner)
    if new is None:
        return False
    before = text(owner.node.body)
    setattr(holder, name, [*body[:index], *new, *body[index + 1 :]])
    context.record("inline-function", before, text(owner.node.body))
    return True


def _expression_body(
    statement: ast.stmt, call: ast.Call, info: FunctionInfo, arguments: list[ast.expr], scope: Scope
) -> list[ast.stmt] | None:
    """A helper that is one `return expression` is replaced as an expression, if its arguments may be moved
    there."""
    body = info.node.body
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        return None
    value = body[0].value
    if any(isinstance(n, (ast.Lambda, *COMPREHENSIONS)) for n in walk(value)):
        return None
    quiet = Scope(scope.program, info).effects(value).pure
    for name, argument in zip(info.arguments, arguments, strict=True):
        if isinstance(argument, ast.Constant | ast.Name):
            continue
        seen = scope.effects(argument)
        if not seen.total or count_reads(value, name) > 1 or (seen.heap_reads and not quiet):
            return None
    replacement = substitute(clone(value), dict(zip(info.arguments, arguments, strict=True)))
    new = exchanged(statement, call, replacement)
    return [new] if keeps_sets([statement, body[0]], new) else None


def _locate(holder: ast.AST, name: str, call: ast.Call) -> tuple[ast.AST, str, int] | None:
    """The statement list and index of the innermost statement that holds a call."""
    body: list[ast.stmt] = getattr(holder, name)
    for i, s in enumerate(body):
        if not any(n is call for n in walk(s)):
            continue
        for field in ("body", "orelse"):
            inner = getattr(s, field, None)
            if isinstance(inner, list) and any(n is call for x in inner for n in walk(x)):
                return None if isinstance(s, NESTED) else _locate(s, field, call)
        return holder, name, i
    return None


def _instantiate(
    info: FunctionInfo, arguments: list[ast.expr], context: Context
) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """(assignments of the parameters, the body), all with names that occur nowhere else."""
    names = bound_in(info.node)
    fresh = {n: context.name(n.rstrip("0123456789_") or "t") for n in sorted(names)}
    body = [rename(clone(s), fresh) for s in info.node.body]
    prologue: list[ast.stmt] = [
        assign(fresh[p], clone(a)) for p, a in zip(info.arguments, arguments, strict=True)
    ]
    return prologue, body


def _fit(
    statement: ast.stmt,
    call: ast.Call,
    body: list[ast.stmt],
    prologue: list[ast.stmt],
    scope: Scope,
    context: Context,
    owner: FunctionInfo,
) -> list[ast.stmt] | None:
    if isinstance(statement, ast.Return) and statement.value is call:
        ending: list[ast.stmt] = [] if returns(body) else [ast.Return(value=ast.Constant(value=None))]
        return [*prologue, *body, *ending]
    alone = isinstance(statement, ast.Expr) and statement.value is call
    if alone and statement is owner.node.body[-1] and not any(r.value for r in _returns(body)):
        return [*prologue, *body]
    if alone:
        return _for_effect(body, prologue)
    placed = _with_name(statement, call, scope, context)
    inner = None if placed is None else _assigning(body, placed[0])
    return None if placed is None or inner is None else [*prologue, *inner, placed[1]]


def _for_effect(body: list[ast.stmt], prologue: list[ast.stmt]) -> list[ast.stmt] | None:
    """The body of a helper whose result nobody uses, if it returns only at its end."""
    exits, last = _returns(body), body[-1]
    if exits and exits != [last]:
        return None
    if not isinstance(last, ast.Return):
        return [*prologue, *body]
    kept = last.value is not None and not isinstance(last.value, ast.Constant | ast.Name)
    return [*prologue, *body[:-1], *([ast.Expr(value=last.value)] if kept and last.value else [])]


def _with_name(
    statement: ast.stmt, call: ast.Call, scope: Scope, context: Context
) -> tuple[str, ast.stmt] | None:
    """(name, the statement with the name for the call) if the call can be made before the statement."""
    if head_of(statement) is None:
        return None
    name = context.name("r")
    new = exchanged(statement, call, load(name))
    placed = head_of(new)
    before: list[ast.expr] = []
    if placed is None or find_use(placed, name, before) != "once":
        return None
    if not all(_unaffected(b, scope) for b in before):
        return None
    return name, new


def _unaffected(node: ast.expr, scope: Scope) -> bool:
    """Whether evaluating this before or after the helper is the same: it reads locals or finds a method."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        t = scope.type_of(node.value)
        if is_str(t) or kind(t) in SIZED:
            return True
    seen = scope.effects(node)
    return seen.total and not seen.heap_reads


def _assigning(body: list[ast.stmt], name: str) -> list[ast.stmt] | None:
    """The block with `name = value` for `return value`; None if a return stands inside a loop or the like."""
    for i, s in enumerate(body):
        if isinstance(s, ast.Return):
            return [*body[:i], assign(name, s.value or ast.Constant(value=None))]
        if not _returns([s]):
            continue
        if not isinstance(s, ast.If):
            return None
        rest = body[i + 1 :]
        if returns(s.body):
            then, other = _assigning(s.body, name), _assigning([*s.orelse, *rest], name)
        elif s.orelse and returns(s.orelse):
            then, other = _assigning([*s.body, *rest], name), _assigning(s.orelse, name)
        else:
            return None
        if then is None or other is None:
            return None
        return [*body[:i], ast.If(test=s.test, body=then, orelse=other)]
    return [*body, assign(name, ast.Constant(value=None))]


def _returns(body: Sequence[ast.stmt]) -> list[ast.Return]:
    return [n for n in walk_shallow(body) if isinstance(n, ast.Return)]
