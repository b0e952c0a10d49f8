"""Regular expressions: the character classes of constant patterns written in one way."""

from __future__ import annotations

import ast
import re
from typing import Any

from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.trees import clone
from skyt.repair.rules.analysis.values.infer import dotted
from skyt.repair.rules.registry import expression

try:
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # pragma: no cover - another layout of the re module: the rule then never fires
    parser = None

FUNCTIONS = frozenset({"re.sub", "re.split", "re.findall", "re.match", "re.search", "re.fullmatch"})
CLASS = re.compile(r"\[(\^?)((?:\\.|[^]\\[])+)\]")
KEPT = frozenset({"\\\\", "\\]", "\\^", "\\-", "\\["})
MEMBER = re.compile(r"(?:\\.|[^\\])-(?:\\.|[^\\])|\\.|.")


def canonical_pattern(pattern: str) -> str | None:
    """The pattern with its classes in canonical spelling; None if that would be another pattern."""
    new = CLASS.sub(lambda found: _class(found[1], MEMBER.findall(found[2])), pattern)
    try:
        return (
            new if parser is not None and _tree(parser.parse(new)) == _tree(parser.parse(pattern)) else None
        )
    except (re.error, OverflowError, RecursionError):
        return None


def _class(negated: str, members: list[str]) -> str:
    """Members sorted, each once, with a backslash only where it means something."""
    plain = {m if len(m) > 2 or m in KEPT or m[1:].isalnum() else m[-1] for m in members}
    parts = sorted({"\\-" if m == "-" else m for m in plain}, key=lambda m: (m == "\\-", m[0] == "\\", m))
    alone = len(parts) == 1 and not negated and parts[0][1:].isalpha()
    return parts[0] if alone else f"[{negated}{''.join(parts)}]"


def _tree(parsed: Any) -> Any:
    """What a pattern means, the members of a class sorted."""
    if isinstance(parsed, parser.SubPattern):
        items = [(str(op), _tree(given)) for op, given in parsed]
        return [(op, sorted(given, key=str) if op == "IN" else given) for op, given in items]
    return [_tree(x) for x in parsed] if isinstance(parsed, list | tuple) else str(parsed)


@expression(
    ast.Call,
    needs="a constant pattern",
    sound="the new spelling parses to the same expression (checked with the parser of `re` itself)",
    fires=("s: str", "import re\ndef f(s):\n return re.sub('[\\\\s]+', '-', s)"),
    keeps=("s: str", "import re\ndef f(s):\n return re.sub('[\\\\s]+', '-', s, flags=2)"),
)
def canonical_regex(node: ast.Call, scope: Scope, boolean: bool) -> ast.expr | None:
    """`[\\s]+` is `\\s+`; `[^\\w-]` is `[^\\w\\-]`; members of a class are sorted."""
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
