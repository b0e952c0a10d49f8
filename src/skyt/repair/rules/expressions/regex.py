"""Regular expressions: constant patterns written in one way."""

from __future__ import annotations

import ast
import re
from typing import Any

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import substitute
from skyt.repair.rules.analysis.trees.trees import clone, text, walk
from skyt.repair.rules.analysis.values.infer import dotted
from skyt.repair.rules.context import Context
from skyt.repair.rules.names.assignments import simple_target
from skyt.repair.rules.registry import expression, module

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


@expression(
    ast.Call,
    needs="a constant pattern that is one character class, and the empty string in its place",
    sound="deleting every run of such characters and deleting every one of them is the same",
)
def delete_each(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`re.sub("[x]+", "", s)` is `re.sub("[x]", "", s)`."""
    if dotted(node.func) != "re.sub" or len(node.args) != 3 or node.keywords or not scope.is_module("re"):
        return None
    pattern, new = node.args[0], node.args[1]
    if not (isinstance(new, ast.Constant) and new.value == "" and isinstance(pattern, ast.Constant)):
        return None
    value = pattern.value
    if not isinstance(value, str) or not value.endswith("+") or parser is None:
        return None
    try:
        tree = parser.parse(value)
    except re.error:
        return None
    if len(tree) != 1 or str(tree[0][0]) != "MAX_REPEAT" or len(tree[0][1][2]) != 1 or tree.state.groups > 1:
        return None
    if str(tree[0][1][2][0][0]) not in {"IN", "LITERAL", "NOT_LITERAL"} or tree[0][1][0] != 1:
        return None
    call = clone(node)
    call.args[0] = ast.Constant(value=value[:-1])
    return call


@expression(
    ast.Call,
    needs="a pattern compiled where it is used",
    sound="the methods of a compiled pattern are the functions of the module",
)
def compiled_regex(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`re.compile(p).sub(r, s)` is `re.sub(p, r, s)`."""
    function = node.func
    if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Call)) or node.keywords:
        return None
    made = function.value
    if dotted(made.func) != "re.compile" or len(made.args) != 1 or made.keywords or not scope.is_module("re"):
        return None
    counts = {"sub": 2, "split": 1, "findall": 1, "match": 1, "search": 1, "fullmatch": 1}
    if counts.get(function.attr) != len(node.args):
        return None
    new = clone(made.func)
    new.attr = function.attr  # type: ignore[attr-defined]
    return ast.Call(func=new, args=[made.args[0], *node.args], keywords=[])


@module(
    needs="a valid constant pattern without flags, compiled at module level and used by its methods only",
    sound="compiling the same text again gives the same pattern",
)
def inline_pattern(context: Context) -> bool:
    """`WORD = re.compile(p)` at module level goes where `WORD.sub(…)` stands."""
    tree = context.tree
    nodes = walk(tree)
    names = [n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    names += [n.arg for n in nodes if isinstance(n, ast.arg)]
    names += [n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    names += [name for n in nodes if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names]
    if "re" in names:
        return False
    owners = {id(n.value) for n in nodes if isinstance(n, ast.Attribute)}
    for s in tree.body:
        name = simple_target(s)
        if name is None or not isinstance(s, ast.Assign) or name in context.facts.public:
            continue
        uses = [n for n in nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
        if not _valid_pattern(s.value) or names.count(name) != 1 or any(id(n) not in owners for n in uses):
            continue
        tree.body = [substitute(t, {name: s.value}) for t in tree.body if t is not s]
        context.record("inline-pattern", text(s), text(s.value))
        return True
    return False


def _valid_pattern(node: ast.expr) -> bool:
    """`re.compile` of a constant that compiles."""
    if not (isinstance(node, ast.Call) and dotted(node.func) == "re.compile" and len(node.args) == 1):
        return False
    pattern = node.args[0]
    if node.keywords or parser is None:
        return False
    if not (isinstance(pattern, ast.Constant) and isinstance(pattern.value, str)):
        return False
    try:
        parser.parse(pattern.value)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
