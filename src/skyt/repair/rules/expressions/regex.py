"""Regular expressions: constant patterns written in one way."""

from __future__ import annotations

import ast
import re
from typing import Any

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.trees import clone
from skyt.repair.rules.analysis.values.infer import dotted
from skyt.repair.rules.registry import expression

try:
    from re import _constants as codes  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # pragma: no cover - another layout of the re module: the rule then never fires
    codes = parser = None


CATEGORIES = {"CATEGORY_DIGIT": "\\d", "CATEGORY_SPACE": "\\s", "CATEGORY_WORD": "\\w"}


CATEGORIES |= {"CATEGORY_NOT_DIGIT": "\\D", "CATEGORY_NOT_SPACE": "\\S", "CATEGORY_NOT_WORD": "\\W"}


SPECIAL = frozenset("\\^$.|?*+()[]{}")


class _UnknownError(Exception):
    pass


def canonical_pattern(pattern: str) -> str | None:
    """The pattern in canonical spelling, or None where it uses more than literals, classes and repeats."""
    if parser is None:
        return None
    try:
        tree = parser.parse(pattern)
        if tree.state.groups > 1 or tree.state.flags & ~re.UNICODE:
            return None
        new = "".join(_item(op, argument) for op, argument in tree)
        return new if _same_tree(new, tree) else None
    except (re.error, _UnknownError, OverflowError, RecursionError):
        return None


def _same_tree(new: str, tree: Any) -> bool:
    """The canonical spelling must parse to the same thing, class members sorted."""
    return _sorted(parser.parse(new)) == _sorted(tree)


def _sorted(tree: Any) -> list[Any]:
    found: list[Any] = []
    for op, argument in tree:
        name = str(op)
        if name == "IN":
            members = sorted(str(m) for m in argument)
            if len(members) == 1:
                found.append(("ONE", members[0]))
            else:
                found.append(("IN", members))
        elif name in {"MAX_REPEAT", "MIN_REPEAT"}:
            low, high, inner = argument
            found.append((name, low, str(high), _sorted(inner)))
        else:
            found.append((name, str(argument)))
    return found


def _item(op: Any, argument: Any) -> str:
    name = str(op)
    if name == "LITERAL":
        return _literal(argument)
    if name == "NOT_LITERAL":
        return f"[^{_member_text(argument)}]"
    if name == "ANY":
        return "."
    if name == "AT":
        known = {"AT_BEGINNING": "^", "AT_END": "$", "AT_BOUNDARY": "\\b"}
        if str(argument) not in known:
            raise _UnknownError
        return known[str(argument)]
    if name == "IN":
        return _class(argument)
    if name == "MAX_REPEAT":
        low, high, inner = argument
        if len(inner) != 1:
            raise _UnknownError
        body = _item(*inner[0])
        if str(high) == "MAXREPEAT":
            return body + {0: "*", 1: "+"}.get(low, f"{{{low},}}")
        if (low, high) == (0, 1):
            return body + "?"
        return body + f"{{{low},{high}}}"
    raise _UnknownError


def _literal(code: int) -> str:
    char = chr(code)
    if char in SPECIAL:
        return "\\" + char
    return char


def _class(members: list[Any]) -> str:
    negated = bool(members) and str(members[0][0]) == "NEGATE"
    parts = sorted(
        {_member(op, argument) for op, argument in (members[1:] if negated else members)}, key=_class_order
    )
    if len(parts) == 1 and parts[0].startswith("\\") and parts[0][1:2].isalpha():
        return parts[0].swapcase() if negated else parts[0]
    return "[" + ("^" if negated else "") + "".join(parts) + "]"


def _class_order(part: str) -> tuple[int, str]:
    return (2 if part == "\\-" else 1 if part.startswith("\\") else 0, part)


def _member(op: Any, argument: Any) -> str:
    name = str(op)
    if name == "LITERAL":
        return _member_text(argument)
    if name == "RANGE":
        return f"{_member_text(argument[0])}-{_member_text(argument[1])}"
    if name == "CATEGORY" and str(argument) in CATEGORIES:
        return CATEGORIES[str(argument)]
    raise _UnknownError


def _member_text(code: int) -> str:
    char = chr(code)
    return "\\" + char if char in "\\]^-[" else char


FUNCTIONS = frozenset({"re.sub", "re.split", "re.findall", "re.match", "re.search", "re.fullmatch"})


@expression(
    ast.Call,
    needs="a constant pattern of literals, character classes and repeats, without groups and flags",
    sound="the new spelling parses to the same expression (checked with the parser of `re` itself)",
    fires=("s: str", "import re\ndef f(s):\n return re.sub('[\\\\s]+', '-', s)"),
    keeps=("s: str", "import re\ndef f(s):\n return re.sub('([\\\\s])+', '-', s)"),
)
def canonical_regex(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`[\\s]+` is `\\s+`; `[^\\w\\-]` is `[^\\w-]`; members of a class are sorted."""
    if dotted(node.func) not in FUNCTIONS or not node.args or not scope.is_module("re"):
        return None
    pattern = node.args[0]
    if not (isinstance(pattern, ast.Constant) and isinstance(pattern.value, str)) or node.keywords:
        return None
    new = canonical_pattern(pattern.value)
    if new is None or new == pattern.value:
        return None
    call = clone(node)
    call.args[0] = ast.Constant(value=new)
    return call
