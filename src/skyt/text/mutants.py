"""Mutants: programs that differ from a given one in one small place, to test judges and rules with.

The usual operators of mutation testing on Python's AST: comparison and arithmetic operators, constants,
negated conditions, deleted, repeated and exchanged statements, exchanged names, shortened boolean
expressions.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator

from skyt.text.parsing import parse

COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
Change = Callable[[], None]


def mutants(code: str, n: int, seed: int) -> list[str]:
    """Up to `n` different mutants of a program, none equal to it; the same for the same seed."""
    rng = random.Random(f"mutants:{seed}:{code}")
    try:
        original = ast.unparse(parse(code))
    except (SyntaxError, ValueError, RecursionError):
        return []
    texts: dict[str, None] = {}
    for _ in range(12 * n):
        if len(texts) >= n:
            break
        tree = parse(code)
        changes = list(_changes(tree, rng))
        if not changes:
            break
        rng.choice(changes)()
        try:
            text = ast.unparse(ast.fix_missing_locations(tree))
            parse(text)
        except (SyntaxError, ValueError):
            continue
        if text != original:
            texts.setdefault(text)
    return list(texts)


def _changes(tree: ast.Module, rng: random.Random) -> Iterator[Change]:
    names = sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)})
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield from _comparison(node, rng)
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ARITHMETIC):
            yield _set(node, "op", rng.choice(ARITHMETIC)())
        elif isinstance(node, ast.Constant):
            yield from _constant(node, rng)
        elif isinstance(node, ast.BoolOp):
            yield _set(node, "op", ast.And() if isinstance(node.op, ast.Or) else ast.Or())
            if len(node.values) > 2:
                yield _set(node, "values", node.values[:-1])
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            yield _set(node, "test", ast.UnaryOp(op=ast.Not(), operand=node.test))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and names:
            yield _set(node, "id", rng.choice(names))
        elif isinstance(node, ast.Slice):
            yield _set(node, rng.choice(["lower", "upper"]), None)
        yield from _statements(node, rng)


def _set(node: ast.AST, name: str, value: object) -> Change:
    return lambda: setattr(node, name, value)


def _comparison(node: ast.Compare, rng: random.Random) -> Iterator[Change]:
    if isinstance(node.ops[0], COMPARISONS):
        yield _set(node, "ops", [rng.choice(COMPARISONS)(), *node.ops[1:]])
    elif isinstance(node.ops[0], ast.In | ast.NotIn):
        yield _set(node, "ops", [ast.NotIn() if isinstance(node.ops[0], ast.In) else ast.In(), *node.ops[1:]])


def _constant(node: ast.Constant, rng: random.Random) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield _set(node, "value", not value)
    elif isinstance(value, int):
        yield _set(node, "value", value + rng.choice([-1, 1, 2]))
    elif isinstance(value, str) and value:
        yield _set(node, "value", value[:-1] if rng.random() < 0.5 else value + rng.choice(" -ax"))


def _statements(node: ast.AST, rng: random.Random) -> Iterator[Change]:
    for name in ("body", "orelse"):
        body = getattr(node, name, None)
        if not isinstance(body, list) or not body or isinstance(node, ast.Module | ast.ClassDef):
            continue
        at = rng.randrange(len(body))
        rest = [*body[:at], *body[at + 1 :]]
        yield _set(node, name, rest or ([ast.Pass()] if name == "body" else []))
        yield _set(node, name, [*body[: at + 1], *body[at:]])
        if at:
            yield _set(node, name, [*body[: at - 1], body[at], body[at - 1], *body[at + 1 :]])
