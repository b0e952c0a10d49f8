"""Normalisation: one text for all ways to lay out the same program.

Comments, docstrings, formatting and quote style go; names, order and structure stay (they are the business of
repair). Nothing goes that the program can observe: docstrings stay where it could read one (see `observed`),
and the whole text stays as it came where the program could read its lines, or where `ast.unparse` does not
print the same tree. The text is otherwise what `ast.unparse` prints, so the version names the Python minor
version too.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass

from skyt.text.observed import DOCSTRINGS, LINES, observed
from skyt.text.parsing import MAX_PARSED_CHARS, parse

NORMALIZATION_VERSION = f"3-py{sys.version_info.major}.{sys.version_info.minor}"
MAX_TIDIED_CHARS = 10 * MAX_PARSED_CHARS
MAX_DEPTH = 100

_DOCUMENTED = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# Where `ast.unparse` has printed other trees: `with ((a, b)):`, f-strings, and what binds tighter or looser.
_MISPRINTED = (
    ast.withitem | ast.JoinedStr | ast.Starred | ast.Yield | ast.YieldFrom | ast.Await | ast.NamedExpr
)
_BLANKS = " \t\f\v"
_NOT_PYTHON = "\n?"  # a line that no program has


@dataclass(frozen=True)
class Normalised:
    """The normal text, whether it came from a parse tree or from the textual fallback, and if so, why."""

    text: str
    parsed: bool
    problem: str = ""


def normalise(code: str) -> Normalised:
    """Normalise a program. Never raises.

    What Python cannot parse (syntax errors, NULs, trees deeper than `MAX_DEPTH` nodes, more than
    `MAX_PARSED_CHARS` characters) gets the fallback: line ends unified, byte-order marks, trailing blanks,
    blank lines and whole-line comments dropped, tabs expanded. It is idempotent like the main path, but says
    nothing about what the program means. What is not Python does not become Python by this: where the tidied
    text would parse, a line is added that keeps it from that. Text over `MAX_TIDIED_CHARS` stays as it is.
    """
    text, problem = _from_tree(code)
    if text is not None:
        return Normalised(text, parsed=True)
    tidied = _fallback(code)
    if tidied != code and _from_tree(tidied)[0] is not None:
        tidied = (tidied + _NOT_PYTHON).strip("\n")
    return Normalised(tidied, parsed=False, problem=problem)


def _from_tree(code: str) -> tuple[str | None, str]:
    """The normal text of a program, or why there is none."""
    problem = f"longer than {MAX_PARSED_CHARS:,} characters"
    if len(code) <= MAX_PARSED_CHARS:
        try:
            tree = parse(_encodable(code))
            _check_depth(tree)
            _drop_bare_strings(tree, docstrings=False)  # what goes has no say in what stays
            seen = observed(tree)
            if LINES in seen:
                return _as_it_is(code), ""
            if DOCSTRINGS not in seen:
                _drop_bare_strings(tree, docstrings=True)
            text = ast.unparse(tree)
            # Unparse is not always a fixed point (f-strings, nested quotes): one more round
            # settles it, or none.
            printed = parse(text)
            again = ast.unparse(printed)
            misprinted = any(isinstance(node, _MISPRINTED) for node in ast.walk(tree))
            if misprinted and not (_same(tree, printed, again) and ast.unparse(parse(again)) == again):
                return _as_it_is(code), ""
            if len(again) <= MAX_PARSED_CHARS:
                return again, ""
        except (RecursionError, MemoryError):
            problem = f"nested deeper than {MAX_DEPTH} levels"
        except (SyntaxError, ValueError, OverflowError) as error:
            problem = f"not Python: {getattr(error, 'msg', None) or error}"
    return None, problem


def _encodable(code: str) -> str:
    code.encode("utf-8")  # a lone surrogate raises UnicodeEncodeError, a ValueError
    return code.removeprefix("\ufeff")


def _check_depth(tree: ast.Module) -> None:
    """Refuse deep trees at a fixed depth: where recursion fails would depend on the caller's stack."""
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise RecursionError


def _same(tree: ast.Module, printed: ast.Module, again: str) -> bool:
    """Whether the printed texts stand for the tree that was printed."""
    wanted = ast.dump(tree)
    return ast.dump(printed) == wanted and ast.dump(parse(again)) == wanted


def _as_it_is(code: str) -> str:
    return code.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").rstrip()


def _drop_bare_strings(tree: ast.Module, *, docstrings: bool) -> None:
    """Remove strings that stand as statements: text used as a comment, and docstrings where that is told."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if not isinstance(body, list):
                continue
            first = body[:1] if field == "body" and not docstrings and isinstance(node, _DOCUMENTED) else []
            statements = [
                *first,
                *(statement for statement in body[len(first) :] if not _is_bare_string(statement)),
            ]
            if not statements and body and field != "orelse" and not isinstance(node, ast.Module):
                statements = [ast.Pass()]
            body[:] = statements


def _is_bare_string(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _fallback(code: str) -> str:
    text = code.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(code) > MAX_TIDIED_CHARS:
        return text
    text = text.replace("\ufeff", "").replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)
    lines = [line.rstrip(_BLANKS) for line in text.split("\n") if not line.lstrip().startswith("#")]
    return "\n".join(line for line in lines if line)
