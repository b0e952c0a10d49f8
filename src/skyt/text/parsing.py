"""Python text to trees, from any thread."""

from __future__ import annotations

import ast
import builtins
import os
import symtable
import threading
import warnings
from collections.abc import Iterable

MAX_PARSED_CHARS = 100_000  # of a program that somebody else wrote: a tree takes 400 times the text's memory

_one_at_a_time = threading.Lock()
os.register_at_fork(after_in_child=_one_at_a_time._at_fork_reinit)  # type: ignore[attr-defined]


def parse(code: str) -> ast.Module:
    """`ast.parse` for one thread at a time, without the warnings that the program's text would cause.

    CPython 3.11 keeps the depth of the tree under construction in one place for all threads and, when two
    meet, answers a sound program with SystemError (python/cpython#106905). Warning filters are shared too.
    """
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code)


def beginning(lines: list[str]) -> tuple[int, ast.Module] | None:
    """How many of these lines, from the first on, are a program, and its tree.

    Nothing after the line of a syntax error can mend it, so each cut is made there. The texts that are parsed
    on the way have a bound altogether.
    """
    end, left = len(lines), 4 * MAX_PARSED_CHARS
    while end > 0:
        code = "\n".join(lines[:end])
        left -= len(code)
        if len(code) > MAX_PARSED_CHARS or left < 0:
            return None
        try:
            return end, parse(code)
        except SyntaxError as error:
            end = min(end - 1, max(error.lineno or end, 1) - 1 or end - 1)
        except (ValueError, RecursionError, MemoryError):
            return None
    return None


def symbols(code: str) -> symtable.SymbolTable | None:
    """The scopes of a program, or None where it parses but does not compile."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return symtable.symtable(code, "program", "exec")
        except (SyntaxError, RecursionError, MemoryError):
            return None


def undefined(expression: str, parameters: Iterable[str], setup: str) -> list[str]:
    """Names in an expression that neither its parameters, nor the code before it, nor Python defines."""
    table = symbols(f"{setup}\ndef _asked({', '.join(parameters)}):\n    return (\n{expression}\n)\n")
    if table is None:
        return []
    own = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    scopes, used = [table.lookup("_asked").get_namespace()], list[str]()
    while scopes:
        scope = scopes.pop()
        used += [s.get_name() for s in scope.get_symbols() if s.is_global() and s.is_referenced()]
        scopes += scope.get_children()
    return [name for name in used if name not in own and not hasattr(builtins, name)]


def parse_expression(code: str) -> ast.expr:
    """The same for a single expression."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code, mode="eval").body


def why_not_compiled(code: str | ast.Module) -> str:
    """What the compiler says against a program that may still parse (`return` outside a function, more than
    20 nested loops), or nothing."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(code, "program", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            return str(getattr(error, "msg", None) or error) or type(error).__name__
    return ""
