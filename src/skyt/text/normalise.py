"""Normalisation: one text for all ways to lay out the same program.

Comments, docstrings, formatting and quote style go; names, order and structure stay (they are the business of
repair). The text is what `ast.unparse` prints, so the version names the Python minor version too.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass

from skyt.text.parsing import parse

NORMALIZATION_VERSION = f"1-py{sys.version_info.major}.{sys.version_info.minor}"
MAX_PARSED_CHARS = 100_000
MAX_DEPTH = 100

_BLANKS = re.compile(r"[ \t\f\v]+$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{2,}")


@dataclass(frozen=True)
class Normalised:
    """The normal text, whether it came from a parse tree or from the textual fallback, and if so, why."""

    text: str
    parsed: bool
    problem: str = ""


def normalise(code: str) -> Normalised:
    """Normalise a program. Never raises.

    What Python cannot parse (syntax errors, NULs, trees deeper than `MAX_DEPTH` nodes, more than
    `MAX_PARSED_CHARS` characters) gets the fallback: line ends unified, trailing blanks, blank lines and
    whole-line comments dropped, tabs expanded. It is idempotent like the main path, but says nothing about
    what the program means.
    """
    problem = f"longer than {MAX_PARSED_CHARS:,} characters"
    if len(code) <= MAX_PARSED_CHARS:
        try:
            tree = parse(_encodable(code))
            _check_depth(tree)
            _drop_docstrings(tree)
            text = ast.unparse(tree)
            # Unparse is not always a fixed point (f-strings, nested quotes): one more round settles it.
            again = ast.unparse(parse(text))
            if len(again) <= MAX_PARSED_CHARS:
                return Normalised(again, parsed=True)
        except (RecursionError, MemoryError):
            problem = f"nested deeper than {MAX_DEPTH} levels"
        except (SyntaxError, ValueError, OverflowError) as error:
            problem = f"not Python: {getattr(error, 'msg', None) or error}"
    return Normalised(_fallback(code), parsed=False, problem=problem)


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


def _drop_docstrings(tree: ast.Module) -> None:
    """Remove strings that stand as statements: docstrings, and text used as a comment."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if not isinstance(body, list):
                continue
            kept = [statement for statement in body if not _is_bare_string(statement)]
            if not kept and body and field != "orelse" and not isinstance(node, ast.Module):
                kept = [ast.Pass()]
            body[:] = kept


def _is_bare_string(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _fallback(code: str) -> str:
    text = code.encode("utf-8", "backslashreplace").decode("utf-8").removeprefix("\ufeff")
    text = text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)
    lines = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
    text = _BLANKS.sub("", "\n".join(lines))
    return _BLANK_LINES.sub("\n", text).strip("\n")
