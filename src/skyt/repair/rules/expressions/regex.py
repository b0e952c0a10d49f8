"""Regular expressions: the character classes of constant patterns written in one way."""

from __future__ import annotations

import ast
import re
from typing import Any

from skyt.repair.rules.patterns.conditions import Where
from skyt.repair.rules.patterns.making import Made
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import Found

try:
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # pragma: no cover - another layout of the re module: the rule then never fires
    parser = None

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


def canonical(p: str) -> Made:
    """A constant pattern in canonical spelling."""

    def compute(found: Found, where: Where) -> ast.expr | None:
        text = getattr(found[p], "value", None) if isinstance(found[p], ast.Constant) else None
        new = canonical_pattern(text) if isinstance(text, str) else None
        return None if new is None else ast.Constant(value=new)

    return Made(f"the constant `{p}` in canonical spelling", compute)


FUNCTIONS = ("split", "findall", "match", "search", "fullmatch")
rewrite(
    "canonical-regex",
    ("re.sub(p, a, b)", "re.sub(q, a, b)"),
    *((f"re.{name}(p, a)", f"re.{name}(q, a)") for name in FUNCTIONS),
    made={"q": canonical("p")},
    because="the new spelling parses to the same expression (checked with the parser of `re` itself)",
    fires=("s: str", "import re\ndef f(s):\n return re.sub('[\\\\s]+', '-', s)"),
    keeps=("s: str", "import re\ndef f(s):\n return re.sub('[\\\\s]+', '-', s, flags=2)"),
)
