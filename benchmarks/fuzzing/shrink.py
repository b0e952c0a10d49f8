"""A program that shows a difference, made as short as it can be while it still shows one."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

from skyt.text.parsing import parse, why_not_compiled

Keeps = Callable[[str], bool]
MAX_TRIES = 400


def shrink(code: str, keeps: Keeps, tries: int = MAX_TRIES) -> str:
    """The shortest program found for which `keeps` still holds, by single removals, the largest first."""
    best = ast.unparse(parse(code))
    if not keeps(best):
        return code
    seen = {best}
    again = True
    while again and tries > 0:
        again = False
        for smaller in sorted(set(_smaller(best)), key=len):
            if tries <= 0:
                break
            if smaller in seen or len(smaller) >= len(best) or why_not_compiled(smaller):
                continue
            seen.add(smaller)
            tries -= 1
            if keeps(smaller):
                best, again = smaller, True
                break
    return best


def _smaller(code: str) -> Iterator[str]:
    """The program with one thing left out: a statement, what surrounds statements, part of an expression."""
    for number in range(sum(1 for _ in _edits(parse(code)))):
        tree = copy.deepcopy(parse(code))
        for at, edit in enumerate(_edits(tree)):
            if at == number:
                edit()
                break
        try:
            yield ast.unparse(ast.fix_missing_locations(tree))
        except (ValueError, AttributeError, RecursionError):
            continue


def _edits(tree: ast.Module) -> Iterator[Callable[[], None]]:
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield from _of_body(node, name, value)
            elif (isinstance(value, list) and len(value) > 1 and isinstance(value[0], ast.expr)) or (
                isinstance(value, list) and value and isinstance(value[0], ast.excepthandler | ast.match_case)
            ):
                yield from (_drop(value, i) for i in range(len(value)))
            elif isinstance(value, ast.expr):
                yield from _of_expression(node, name, value)
            if isinstance(value, list):
                for i, item in enumerate(value):
                    if isinstance(item, ast.expr):
                        yield from _of_item(value, i, item)


def _of_body(node: ast.AST, name: str, body: list[ast.stmt]) -> Iterator[Callable[[], None]]:
    for i, statement in enumerate(body):
        yield _drop(body, i, spare=name == "body")
        for inner in ("body", "orelse", "finalbody"):
            inside = getattr(statement, inner, None)
            if (
                isinstance(inside, list)
                and inside
                and not isinstance(statement, ast.FunctionDef | ast.ClassDef)
            ):
                yield _replace(body, i, inside)
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                yield _replace(body, i, handler.body)


def _of_expression(node: ast.AST, name: str, value: ast.expr) -> Iterator[Callable[[], None]]:
    for other in _simpler(value):
        yield lambda other=other: setattr(node, name, other)  # type: ignore[misc]


def _of_item(items: list[ast.expr], at: int, value: ast.expr) -> Iterator[Callable[[], None]]:
    for other in _simpler(value):
        yield lambda other=other: items.__setitem__(at, other)  # type: ignore[misc]


def _simpler(value: ast.expr) -> Iterator[ast.expr]:
    """The parts of an expression, and small constants."""
    if isinstance(value, ast.Constant | ast.Name):
        return
    for child in ast.iter_child_nodes(value):
        if isinstance(child, ast.expr) and not isinstance(child, ast.Slice):
            yield child
    yield ast.Constant(value=1)
    yield ast.List(elts=[], ctx=ast.Load())


def _drop(items: list[ast.AST] | list[ast.stmt], at: int, spare: bool = False) -> Callable[[], None]:
    def edit() -> None:
        del items[at]
        if spare and not items:
            items.append(ast.Pass())

    return edit


def _replace(body: list[ast.stmt], at: int, inside: list[ast.stmt]) -> Callable[[], None]:
    def edit() -> None:
        body[at : at + 1] = inside

    return edit
