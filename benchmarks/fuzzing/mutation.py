"""Real programs changed at random: small faults, other control flow around statements, parts of other
programs."""

from __future__ import annotations

import ast
import builtins
import copy
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from benchmarks.fuzzing.expressions import PLAIN
from benchmarks.fuzzing.subjects import Subject
from benchmarks.fuzzing.vocabulary import EFFECTS, EXCEPTIONS

from skyt.text.mutants import mutants
from skyt.text.parsing import parse, why_not_compiled

HELPERS = (
    "def observe(v, seen=[]):\n    seen.append(v)\n    return v\n",
    "def observe(v):\n    return v\n",
    "def observe(v):\n    if v == 2:\n        raise ValueError('two')\n    return v\n",
)
Body = list[ast.stmt]
Node = TypeVar("Node", bound=ast.AST)


def mutate(subject: Subject, donors: Sequence[Subject], rng: random.Random) -> Subject | None:
    """The subject after one to four changes; None where they lead to nothing that compiles."""
    code = subject.code
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        changed = _changed(code, donors, rng)
        if changed is not None and not why_not_compiled(changed):
            code = changed
    return None if code == subject.code else replace(subject, code=code)


def _changed(code: str, donors: Sequence[Subject], rng: random.Random) -> str | None:
    if rng.random() < 0.4:
        made = mutants(code, 1, rng.randrange(1 << 30))
        return made[0] if made else None
    change = rng.choice(PLAIN_CHANGES if rng.random() < PLAIN else CHANGES)
    try:
        tree = parse(code)
        if not change(tree, donors, rng):
            return None
        return ast.unparse(ast.fix_missing_locations(tree))
    except (SyntaxError, ValueError, RecursionError):
        return None


def _bodies(tree: ast.AST) -> list[Body]:
    """Lists of statements inside functions."""
    found = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                for name in ("body", "orelse", "finalbody"):
                    body = getattr(node, name, None)
                    if isinstance(body, list) and body and not isinstance(node, ast.ClassDef):
                        found.append(body)
    return found


def _expressions(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.expr]]:
    """Every expression that is read, with its place: parent, field, index."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments | ast.JoinedStr | ast.FormattedValue | ast.pattern | ast.Starred):
            continue
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and isinstance(getattr(value, "ctx", ast.Load()), ast.Load):
                yield node, name, None, value
            elif isinstance(value, list):
                for i, item in enumerate(value):
                    if isinstance(item, ast.expr) and isinstance(getattr(item, "ctx", ast.Load()), ast.Load):
                        yield node, name, i, item


def _put(place: tuple[ast.AST, str, int | None, ast.expr], new: ast.expr) -> None:
    parent, name, index, _ = place
    if index is None:
        setattr(parent, name, new)
    else:
        getattr(parent, name)[index] = new


def _statements(text: str) -> Body:
    return parse(text).body


def _wrap_in_try(tree: ast.AST, donors: Sequence[Subject], rng: random.Random) -> bool:
    body = rng.choice(_bodies(tree) or [[]])
    if not body:
        return False
    start = rng.randrange(len(body))
    stop = rng.randint(start + 1, len(body))
    after = rng.choice(["pass", "return 20", "return None", "raise"])
    if any(isinstance(n, ast.For | ast.While) for n in ast.walk(tree)) and rng.random() < 0.3:
        after = rng.choice(["continue", "break"])
    handler = f"except {rng.choice(EXCEPTIONS)}:\n    {after}\n" if rng.random() < 0.8 else ""
    final = f"finally:\n    {_effect(tree, rng)}\n" if not handler or rng.random() < 0.2 else ""
    (made,) = _statements(f"try:\n    pass\n{handler}{final}")
    made.body = body[start:stop]  # type: ignore[attr-defined]
    body[start:stop] = [made]
    return True


def _effect(tree: ast.AST, rng: random.Random) -> str:
    """A statement that changes something the function holds."""
    names = sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - {"observe"}) or ["_"]
    return rng.choice(EFFECTS).replace("<x>", rng.choice(names)).replace("<y>", rng.choice(names))


def _insert_effect(tree: ast.AST, donors: Sequence[Subject], rng: random.Random) -> bool:
    body = rng.choice(_bodies(tree) or [[]])
    at = rng.randrange(len(body) + 1)
    body[at:at] = _statements(_effect(tree, rng))
    return True


def _jump(tree: ast.AST, donors: Sequence[Subject], rng: random.Random) -> bool:
    """Another way out: `break`, `continue` and `return` exchanged, or put behind a condition."""
    jumps = [
        (b, i)
        for b in _bodies(tree)
        for i, s in enumerate(b)
        if isinstance(s, ast.Break | ast.Continue | ast.Return)
    ]
    if not jumps:
        return False
    body, at = rng.choice(jumps)
    body[at] = rng.choice([ast.Break(), ast.Continue(), ast.Return(value=ast.Constant(value=7)), ast.Pass()])
    return True


def _observe(tree: ast.AST, donors: Sequence[Subject], rng: random.Random) -> bool:
    """A call with a trace around an expression: it shows order and number of evaluations."""
    assert isinstance(tree, ast.Module)
    places = [
        p for p in _expressions(tree) if not isinstance(p[3], ast.GeneratorExp | ast.Lambda | ast.Slice)
    ]
    if not places:
        return False
    if not any(isinstance(s, ast.FunctionDef) and s.name == "observe" for s in tree.body):
        tree.body[:0] = _statements(rng.choice(HELPERS))
    for place in rng.sample(places, min(len(places), rng.choice((1, 2, 3)))):
        _put(
            place,
            ast.Call(
                func=ast.Name(id="observe", ctx=ast.Load()), args=[copy.deepcopy(place[3])], keywords=[]
            ),
        )
    return True


def _splice_expression(tree: ast.AST, donors: Sequence[Subject], rng: random.Random) -> bool:
    """An expression of another program, or of another place, with the names that are known here."""
    source = tree if rng.random() < 0.4 else parse(rng.choice(donors).code)
    places, given = list(_expressions(tree)), [p[3] for p in _expressions(source)]
    given = [e for e in given if not isinstance(e, ast.Slice | ast.Name | ast.Yield | ast.YieldFrom)]
    if not places or not given:
        return False
    _put(rng.choice(places), _renamed(copy.deepcopy(rng.choice(given)), tree, rng))
    return True


def _splice_statements(tree: ast.AST, donors: Sequence[Subject], rng: random.Random) -> bool:
    source, body = parse(rng.choice(donors).code), rng.choice(_bodies(tree) or [[]])
    given = rng.choice(_bodies(source) or [[]])
    if not given or not body:
        return False
    start = rng.randrange(len(given))
    made = [_renamed(copy.deepcopy(s), tree, rng) for s in given[start : start + rng.randint(1, 3)]]
    at = rng.randrange(len(body) + 1)
    body[at : at + rng.randrange(2)] = made
    return True


def _renamed(node: Node, tree: ast.AST, rng: random.Random) -> Node:
    """Names of the donor become names of the host, each the same everywhere; builtins stay."""
    known = sorted(
        {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        | {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    )
    known = [n for n in known if not hasattr(builtins, n)]
    if not known:
        return node
    new: dict[str, str] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and not hasattr(builtins, inner.id) and inner.id not in known:
            inner.id = new.setdefault(inner.id, rng.choice(known))
    return node


def _alias(tree: ast.AST, donors: Sequence[Subject], rng: random.Random) -> bool:
    """A second name for a parameter, used in some of its places."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.args.args]
    if not functions:
        return False
    function = rng.choice(functions)
    old, new = rng.choice(function.args.args).arg, f"also_{rng.randrange(10)}"
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == old and rng.random() < 0.5:
            node.id = new
    function.body[:0] = _statements(f"{new} = {old}")
    return True


def _nest(tree: ast.AST, donors: Sequence[Subject], rng: random.Random) -> bool:
    """The body of a function moved into a function inside it, or made a generator's."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    if not functions:
        return False
    function = rng.choice(functions)
    text = rng.choice(
        ["def inner():\n    pass\nreturn inner()", "inner = None\ndef inner():\n    pass\nreturn inner()"]
    )
    made = _statements(text)
    inner = next(s for s in made if isinstance(s, ast.FunctionDef))
    cut = rng.randrange(len(function.body))
    inner.body = function.body[cut:]
    function.body[cut:] = made
    return True


def _loop_style(tree: ast.AST, donors: Sequence[Subject], rng: random.Random) -> bool:
    """What a loop goes over as an iterator, a copy, its reverse, or half-consumed."""
    loops = [n for n in ast.walk(tree) if isinstance(n, ast.For | ast.comprehension)]
    if not loops:
        return False
    loop = rng.choice(loops)
    shape = rng.choice(
        ["iter(_)", "list(_)", "reversed(list(_))", "sorted(_)", "(v for v in _)", "map(lambda v: v, _)"]
    )
    made = parse(shape).body[0].value  # type: ignore[attr-defined]
    for node in ast.walk(made):
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.Name) and value.id == "_":
                setattr(node, name, loop.iter)
            elif isinstance(value, list):
                value[:] = [loop.iter if isinstance(v, ast.Name) and v.id == "_" else v for v in value]
    loop.iter = made
    return True


def _boolean(tree: ast.AST, donors: Sequence[Subject], rng: random.Random) -> bool:
    """A test, or anything, joined with another by `and` or `or`, or negated twice."""
    places = list(_expressions(tree))
    if not places:
        return False
    place, other = rng.choice(places), rng.choice(places)[3]
    old = copy.deepcopy(place[3])
    new: ast.expr = ast.BoolOp(op=rng.choice([ast.And(), ast.Or()]), values=[old, copy.deepcopy(other)])
    if rng.random() < 0.2:
        new = ast.UnaryOp(op=ast.Not(), operand=ast.UnaryOp(op=ast.Not(), operand=old))
    if rng.random() < 0.2:
        new = ast.IfExp(
            test=copy.deepcopy(other), body=old, orelse=ast.Constant(value=rng.choice([0, False, None]))
        )
    _put(place, new)
    return True


Change = Callable[[ast.AST, Sequence[Subject], random.Random], bool]
CHANGES: tuple[Change, ...] = (
    _wrap_in_try, _insert_effect, _insert_effect, _jump, _observe, _splice_expression, _splice_expression,
    _splice_statements, _splice_statements, _alias, _nest, _loop_style, _boolean,
)  # fmt: skip
PLAIN_CHANGES: tuple[Change, ...] = (
    _insert_effect, _insert_effect, _jump, _observe, _splice_expression, _splice_expression,
    _splice_statements,
    _alias, _loop_style, _boolean, _boolean,
)  # fmt: skip
