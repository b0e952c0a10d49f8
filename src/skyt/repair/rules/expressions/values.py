"""Numbers and text: a linear normal form, quotients in one way, sums without idle terms; one way to write
constants, ranges, text with values in it, text that grows, and regular expressions."""

from __future__ import annotations

import ast
import re
from functools import reduce
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from skyt.repair.rules.analysis.ranking import factor, linear, written
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import call, int_value, number, substitute
from skyt.repair.rules.analysis.trees import clone, same, walk
from skyt.repair.rules.analysis.types import is_str
from skyt.repair.rules.patterns import when
from skyt.repair.rules.patterns.making import Made, constant_value, folded, fresh
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.template import Found, made, pieces
from skyt.repair.rules.patterns.when import Where, at_least, at_most, integer, own
from skyt.repair.rules.registry import expression

LONGEST = 64  # terms tried before a sum is left alone
LINEAR = (ast.Add, ast.Sub, ast.USub)


@expression(
    ast.BinOp,
    ast.UnaryOp,
    needs="operands of type int; terms without effects that can be evaluated in any order",
    sound="integer addition is associative and commutative, multiplication distributes over it, and both are "
    "exact",
    fires="n: int\nreturn 1 + n + 2",
    keeps="n: float\nreturn 1 + n + 2",
)
def linear_form(node: ast.BinOp | ast.UnaryOp, scope: Scope, boolean: bool) -> ast.expr | None:
    """`1 + n + 2` is `n + 3`, `n + n` is `n * 2`: a sum of terms in one order, with its constant last."""
    if int_value(node) is not None or not (isinstance(node.op, LINEAR) or factor(node) is not None):
        return None
    form = linear(node, scope)
    if form is None or not all(scope.effects(a).pure if k else scope.effects(a).total for a, k in form[0]):
        return None
    new = written(form, scope)
    return None if same(new, node) else new


rewrite(
    "one-quotient",
    ("(b - a) // 2 + a", "(a + b) // 2", [integer("a", "b")]),
    ("a + (b - a) // 2", "(a + b) // 2", [integer("a", "b")]),
    ("a - a % k", "a // k * k", [integer("a", "k")]),
    *((f"(a + b % k {op} c) % k", f"(a + b {op} c) % k", [integer("a", "b", "c", "k")]) for op in "+-"),
    because="quotient times divisor and remainder make up an integer, exactly, and a multiple of the divisor "
    "added or taken away changes no remainder",
    fires="n: int; m: int\nreturn [n + (m - n) // 2, n - n % 7, (n + m % 26 - 65) % 26]",
    keeps="n: int; m: int; x: float\nreturn [x + (n - x) // 2, x - x % 7, (n + m % 27 - 65) % 26]",
)
rewrite(
    "absolute",
    ("abs(x)", "x", [at_least(0, "x")]),
    ("abs(x)", "-x", [at_most(0, "x")]),
    because="a number that is not negative is its own absolute value, that of the others is their negative",
    fires="n: int >= 0; m: int <= 0\nreturn abs(n) + abs(m)",
    keeps="n: int; m: int\nreturn abs(n) + abs(m)",
)


def _first_term(found: Found, where: Where) -> ast.expr | None:
    name, begin = found["x"].id, int_value(found.get("a", number(0))) or 0  # type: ignore[union-attr,arg-type]
    total = where.scope.effects(found["c"]).total

    def idle(k: int) -> bool:
        parts = (substitute(clone(found[part]), {name: number(k)}) for part in "ce")  # type: ignore[type-var]
        chosen, term = map(constant_value, parts)  # type: ignore[arg-type]
        return (chosen is not None and not chosen) or (term == 0 and (chosen is not None or total))

    first = next((k for k in range(begin, begin + LONGEST) if not idle(k)), begin)
    return number(first) if first > begin else None


rewrite(
    "skip-idle-terms",
    ("sum(e for x in range(n) if c)", "sum(e for x in range(k, n) if c)"),
    ("sum(e for x in range(a, n) if c)", "sum(e for x in range(k, n) if c)", [when.number("a")]),
    made={"k": Made("the first `x` for which `e` is not known to be 0, or to be left out", _first_term)},
    because="leaving out a term that is 0 does not change a sum",
    fires="n: int\nreturn sum(x * x for x in range(n) if x % 3 == 0 or x % 5 == 0)",
    keeps="n: int\nreturn sum(x * x + n for x in range(n) if 7 // (x - n) < 3)",
)


EMPTY = {"dict()": "{}", "list()": "[]", "tuple()": "()", "str()": "''", "int()": "0"}
rewrite(
    "plain-literal",
    *EMPTY.items(),
    *((f"{function}(c)", function[0]) for function in ("ord", "chr", "len")),
    made={function[0]: folded(f"{function}(c)") for function in ("ord", "chr", "len")},
    because="such a call gives the value that the literal gives",
    fires="n: int\nreturn [dict(), ord('a') + len('abc') + n]",
    keeps="xs: list[int]\nreturn [list(xs), ord('ab')]",
)
rewrite(
    "plain-range",
    ("range(a, b, 1)", "range(a, b)"),
    ("range(0, b)", "range(b)"),
    because="a range starts at 0 and counts by 1 unless it says otherwise",
    fires="n: int >= 0 <= 9\nreturn [i for i in range(0, n, 1)]",
    keeps="n: int >= 0 <= 9\nreturn [i for i in range(1, n)]",
)


@expression(
    ast.JoinedStr,
    needs="values of type str, int, float or bool, without format specifications",
    sound="formatting such a value without a specification gives what `str` gives",
    fires="s: str; n: int\nreturn f'{s}:{n}'",
    keeps="s: str; n: int\nreturn f'{s:>5}{n!r}'",
)
def format_to_concatenation(node: ast.JoinedStr, scope: Scope, boolean: bool) -> ast.expr | None:
    """`f"{a}:{n}"` is `a + ":" + str(n)`."""
    given = [v for v in node.values if isinstance(v, ast.FormattedValue)]
    if any(v.format_spec is not None or v.conversion not in (-1, ord("s")) for v in given):
        return None
    parts = [v.value if isinstance(v, ast.FormattedValue) else v for v in node.values]
    types = [scope.type_of(part) for part in parts]
    if not parts or not {*types} <= {"str", "char", "int", "float", "bool"}:
        return None
    texts = [part if is_str(t) else call("str", part) for part, t in zip(parts, types, strict=True)]
    return reduce(lambda left, right: ast.BinOp(left=left, op=ast.Add(), right=right), texts)


def _growing(found: Found, where: Where) -> list[ast.stmt] | None:
    """A block with `t = t + x` for `r.append(x)`, and `t` for `''.join(r)`; None if it has no such join."""
    r, t, nodes = found["r"], found["t"], walk(found["rest"])
    grown = {id(n): t for n in nodes if isinstance(n, ast.Call) and pieces("''.join(r)", n, r=r)}
    for node in nodes if grown else ():
        p = pieces("r.append(x)", node, r=r) if isinstance(node, ast.Expr) else None
        if p is not None and is_str(where.scope.type_of(p["x"])):
            grown[id(node)] = made("t = t + x", t=t, x=p["x"])[0]  # type: ignore[assignment]
    return [clone(s, grown) for s in found["rest"]] if grown else None  # type: ignore


rewrite(
    "join-to-concatenation",
    ("r = []\nrest", "t = ''\ninner"),
    needs=[own("r")],
    made={
        "t": fresh("t"),
        "inner": Made(
            "`rest` with `t = t + x` for `r.append(x)` and `t` for `''.join(r)`", _growing, like="rest"
        ),
    },
    because="the join of the pieces so far is their concatenation so far",
    fires="s: str\nr = []\nfor c in s:\n if c == 'a':\n  r.append(c)\n r.append('b')\nreturn ''.join(r)",
    keeps="s: str\nr = []\nfor c in s:\n r.append(c)\n if r:\n  r.append('b')\nreturn ''.join(r)",
)

CLASS = re.compile(r"\[(\^?)((?:\\.|[^]\\[])+)\]")
KEPT = frozenset({"\\\\", "\\]", "\\^", "\\-", "\\["})
MEMBER = re.compile(r"(?:\\.|[^\\])-(?:\\.|[^\\])|\\.|.")


def _canonical(found: Found, where: Where) -> ast.expr | None:
    """A constant pattern with its classes in canonical spelling; None if that would be another pattern."""
    pattern = getattr(found["p"], "value", None)
    if not isinstance(pattern, str):
        return None
    new = CLASS.sub(lambda m: _class(m[1], MEMBER.findall(m[2])), pattern)
    try:
        return ast.Constant(value=new) if _tree(parser.parse(new)) == _tree(parser.parse(pattern)) else None
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


FUNCTIONS = ("split", "findall", "match", "search", "fullmatch")
rewrite(
    "canonical-regex",
    ("re.sub(p, a, b)", "re.sub(q, a, b)"),
    *((f"re.{name}(p, a)", f"re.{name}(q, a)") for name in FUNCTIONS),
    made={"q": Made("the constant `p` in canonical spelling", _canonical)},
    because="the new spelling parses to the same expression (checked with the parser of `re` itself)",
    fires="s: str\nimport re\ndef f(s):\n return re.sub('[\\\\s]+', '-', s)",
    keeps="s: str\nimport re\ndef f(s):\n return re.sub('[\\\\s]+', '-', s, flags=2)",
)
