"""Expressions: conditions (`<` and `<=`, negations inward), linear sums, constants, ranges, text, `re`."""

from __future__ import annotations

import ast
import re
import warnings
from functools import reduce
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from skyt.repair.rules.analysis import syntax, types
from skyt.repair.rules.analysis.ranking import factor, linear, rank, written
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import ORDER_OPPOSITE, call, compare, int_value, negate
from skyt.repair.rules.analysis.trees import clone, same, walk
from skyt.repair.rules.patterns import when
from skyt.repair.rules.patterns.rewriting import Made, constant_value, folded, fresh, ranked, rewrite
from skyt.repair.rules.patterns.template import Found, made, pieces
from skyt.repair.rules.patterns.when import Condition, Where, integer
from skyt.repair.rules.registry import expression

LONGEST = 64  # terms tried before a sum is left alone
LINEAR = (ast.Add, ast.Sub, ast.USub)


def opposite(node: ast.expr, scope: Scope, boolean: bool = True) -> ast.expr:
    """`not node` pushed inward: opposites, De Morgan, total orders; a bool, unless only truth counts."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=inner) if not boolean and scope.type_of(inner) != "bool":
            return call("bool", clone(inner))
        case ast.BoolOp(op=op, values=values):
            turned = ast.Or() if isinstance(op, ast.And) else ast.And()
            return ast.BoolOp(op=turned, values=[opposite(v, scope, boolean) for v in values])
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in ORDER_OPPOSITE:
            if types.ordered(scope.type_of(left), scope.type_of(right)):
                new: ast.expr = compare(clone(left), ORDER_OPPOSITE[type(op)], clone(right))
                new = less_than(new, scope, False) or new
                return strict_integers(new, scope, False) or new
    return negate(node)


def _pushed(found: Found, where: Where) -> ast.expr:
    return opposite(found["c"], where.scope, where.boolean)  # type: ignore[arg-type]


OPERATORS = ("<", "<=", ">", ">=", "==", "!=")
rewrite(
    "push-negation",
    ("not c", "d"),
    made={"d": Made("`not c`, pushed inward", _pushed, like="not c")},
    because="De Morgan's laws; exact opposites among comparisons; a total order without NaN",
    fires="n: int\nreturn not n < 3",
    keeps="x: float\nreturn not x < 3",
)
rewrite(
    "split-chain",
    *((f"a {p} b {q} c", f"a {p} b and b {q} c") for p in OPERATORS for q in OPERATORS),
    because="`a < b < c` is `a < b and b < c` when evaluating b again gives the same value",
    fires="n: int; xs: list[int]\nreturn [0 < n < 9, 0 < 7 // n < 9]",
    keeps="n: int; xs: list[int]\nreturn 0 < xs.pop() < 9",
)
less_than = rewrite(
    "less-than",
    ("a > b", "b < a"),
    ("a >= b", "b <= a"),
    needs=[when.ordered("a", "b")],
    because="`a > b` and `b < a` are the same comparison on built-in types",
    fires="n: int; m: int\nreturn n > m",
    keeps="x: float; y: float\nreturn x > y",
)
strict_integers = rewrite(
    "strict-integers",
    ("a <= b", "a < m"),
    ("a <= b", "k < b"),
    ("a < b - c", "a + c < b", [when.constant("c"), when.not_constant("a")]),
    needs=[integer("a", "b")],
    made={"m": folded("b + 1"), "k": folded("a - 1")},
    because="between integers there is nothing, and the same constant on both sides keeps their order",
    fires="n: int; m: int\nreturn [n <= 3, n < m - 1]",
    keeps="n: float; m: int\nreturn [n <= 3, n < m - 1]",
)
rewrite(
    "truth-of-integer",
    ("x", "x != 0"),
    on=(ast.Name, ast.BinOp, ast.Call, ast.Subscript, ast.Attribute),
    needs=[when.truth_only, integer("x")],
    because="an int is false exactly when it is 0",
    fires="n: int\nif n:\n return 1\nreturn 2",
    keeps="n: any\nif n:\n return 1\nreturn 2",
)
rewrite(
    "constant-operand",
    ("True and x", "x"),
    ("False or x", "x"),
    ("False and x", "False"),
    ("True or x", "True"),
    ("x and True", "x", [when.truth_only]),
    ("x or False", "x", [when.truth_only]),
    because="True is the unit of `and`, False of `or`; what follows a deciding constant is not evaluated",
    fires="n: int; s: str\nif s and True:\n return True and n < 3\nreturn n < 2 and False and 1 // n < 2",
    keeps="n: int; s: str\nreturn [1 // n < 2 and False, s and True]",
)
FULL = ("len(x) != 0", "len(x) > 0", "0 < len(x)", "len(x) >= 1", "1 <= len(x)")
EMPTY = ("len(x) == 0", "len(x) <= 0", "len(x) < 1", "0 == len(x)")
rewrite(
    "emptiness",
    *((text, "not x", [when.sized("x")]) for text in EMPTY),
    *((text, "bool(x)", [when.sized("x")]) for text in FULL),
    ("x == []", "not x", [when.of_kind("list", "x")]),
    ("x != []", "bool(x)", [when.of_kind("list", "x")]),
    ("x == ''", "not x", [when.of_kind("str", "x")]),
    ("x != ''", "bool(x)", [when.of_kind("str", "x")]),
    because="such a value is false exactly when its length is 0, or it equals the empty value of its type",
    fires="s: str; xs: list[int]\nreturn [len(s) == 0, s != '', xs == []]",
    keeps="s: str; xs: list[int]\nreturn [len(s) == 1, len(xs) == [], s == []]",
)
rewrite(
    "plain-boolean",
    ("bool(x)", "x", [when.truth_only]),
    *((text, "x", [when.boolean("x")]) for text in ("bool(x)", "x == True", "x is True")),
    *((text, "not x", [when.boolean("x")]) for text in ("x == False", "x is False")),
    because="`bool(x)` is true when x is; of a boolean, it, `x is True` and `x == True` are the boolean",
    fires="n: int; s: str\nb = n > 3\nif bool(s):\n return b == True\nreturn 2",
    keeps="n: int; s: str\nreturn [n == True, bool(s)]",
)


def _asked_in_any_order(e: ast.expr, where: Where) -> bool:
    t = where.scope.type_of(e)
    return t == "bool" or (where.boolean and (t in types.IMMUTABLE or types.kind(t) in types.SIZED))


def _length(e: ast.expr, where: Where) -> tuple[object, ...]:
    return len(walk(e)), rank(e, where.scope)


condition = when.asking("type bool, or only its truth counts", _asked_in_any_order)
shorter = Condition("`b` is shorter", lambda found, w: _length(found["b"], w) < _length(found["a"], w))  # type: ignore[arg-type]
alike = Condition(
    "`==` of `a` and `b` runs no code of the program",
    lambda found, w: types.comparable(w.scope.type_of(found["a"]), w.scope.type_of(found["b"])),  # type: ignore[arg-type]
)
rewrite(
    "order-operands",
    *((f"a {op} b", f"b {op} a", [condition("a", "b"), shorter]) for op in ("and", "or")),
    *((f"a {op} b", f"x {op} y", [alike]) for op in ("==", "!=")),
    ("a * b", "x * y", [integer("a", "b")]),
    *((f"{extreme}(a, b)", f"{extreme}(x, y)", [integer("a", "b")]) for extreme in ("max", "min")),
    made={"x": ranked("a", "b", 0), "y": ranked("a", "b", 1)},
    because="equality, products and extremes are symmetric; conditions hold together, in whichever order",
    fires="a: int; b: int\nif a + b < 9 and a != b:\n return 3 * a\nif 3 == b:\n return max(b, a)\nreturn a",
    keeps="a: int; b: int; x: float; y: any\nreturn [9 // (a + b) < 9 and a != b, 3 * x, 3 == y]",
)


@expression(
    ast.Compare,
    ast.Name,
    ast.UnaryOp,
    needs="the condition, or its opposite, holds on every path here, or the domain's bounds decide it",
    sound="nothing it reads has changed since it was decided; in-domain values lie within the bounds",
    fires="n: int >= 0\nif n < 0:\n return 1\nreturn 2",
    keeps="n: int\nif n < 0:\n return 1\nreturn 2",
)
def decided_condition(node: ast.expr, scope: Scope, boolean: bool) -> ast.expr | None:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        verdict = _by_bounds(node, scope)
        if verdict is not None and scope.effects(node).total:
            return ast.Constant(value=verdict)
    if not scope.known or not (boolean or isinstance(node, ast.Compare)):
        return None
    verdict = scope.implied(node)
    if verdict is None and scope.implied(opposite(node, scope)):
        verdict = False
    return ast.Constant(value=verdict) if verdict is not None and scope.effects(node).pure else None


def _by_bounds(node: ast.Compare, scope: Scope) -> bool | None:
    low, high = scope.interval(ast.BinOp(left=node.left, op=ast.Sub(), right=node.comparators[0]))
    below, above = high is not None and high < 0, low is not None and low > 0
    match node.ops[0]:
        case ast.Lt() if below or (low is not None and low >= 0):
            return below
        case ast.LtE() if above or (high is not None and high <= 0):
            return not above
        case ast.Eq() | ast.NotEq() as op if below or above:
            return isinstance(op, ast.NotEq)
    return None


rewrite(
    "only-integer-left",
    ("a < k", "a == m", [when.number("k"), when.at_least(0, "a - k + 1")]),
    ("k < b", "b != k", [when.number("k"), when.at_least(0, "b - k")]),
    made={"m": folded("k - 1")},
    because="of the integers from k on, only k is below k + 1, and all but k are above k",
    fires="n: int >= 0\nreturn [n < 1, 0 < n]",
    keeps="n: int\nreturn [n < 1, 0 < n]",
)
rewrite(
    "known-instance",
    ("isinstance(x, k)", "True", [when.instance("x", "k")]),
    ("isinstance(x, k)", "False", [when.instance("x", "k", False)]),
    needs=[when.domain_only],
    because="in-domain arguments have the contract's types (an int is never a bool there)",
    fires="n: int\nreturn [isinstance(n, int), isinstance(n, (str, list))]",
    keeps="n: any; m: int\nreturn [isinstance(n, int), isinstance(m, (str, Exception))]",
)


@expression(
    ast.BinOp,
    ast.UnaryOp,
    needs="operands of type int; terms without effects that can be evaluated in any order",
    sound="on integers + is exact, associative and commutative, and * is exact and distributes over it",
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
    ("abs(x)", "x", [when.at_least(0, "x")]),
    ("abs(x)", "-x", [when.at_most(0, "x")]),
    because="a number that is not negative is its own absolute value, that of the others is their negative",
    fires="n: int >= 0; m: int <= 0\nreturn abs(n) + abs(m)",
    keeps="n: int; m: int\nreturn abs(n) + abs(m)",
)


rewrite(
    "integer-root",
    *(
        (f"{whole}({root})", "math.isqrt(n)")
        for whole in ("int", "math.floor")
        for root in ("n ** 0.5", "math.sqrt(n)")
    ),
    needs=[when.at_least(0, "n"), when.at_most(2**50, "n")],
    because="below 2**52 the double nearest to a square root never rounds past an integer",
    fires="n: int >= 0 <= 1000000\nreturn int(n ** 0.5)",
    keeps="n: int >= 0\nreturn int(n ** 0.5)",
)


def _first_term(found: Found, where: Where) -> ast.expr | None:
    name, begin = found["x"].id, int_value(found.get("a", syntax.number(0))) or 0  # type: ignore[union-attr,arg-type]
    total = where.scope.effects(found["c"]).total

    def idle(k: int) -> bool:
        parts = (syntax.substitute(clone(found[part]), {name: syntax.number(k)}) for part in "ce")  # type: ignore[type-var]
        chosen, term = map(constant_value, parts)  # type: ignore[arg-type]
        return (chosen is not None and not chosen) or (term == 0 and (chosen is not None or total))

    first = next((k for k in range(begin, begin + LONGEST) if not idle(k)), begin)
    return syntax.number(first) if first > begin else None


rewrite(
    "skip-idle-terms",
    ("sum(e for x in range(n) if c)", "sum(e for x in range(k, n) if c)"),
    ("sum(e for x in range(a, n) if c)", "sum(e for x in range(k, n) if c)", [when.number("a")]),
    made={"k": Made("the first `x` for which `e` is not known to be 0, or to be left out", _first_term)},
    because="leaving out a term that is 0 does not change a sum",
    fires="n: int\nreturn sum(x * x for x in range(n) if x % 3 == 0 or x % 5 == 0)",
    keeps="n: int\nreturn sum(x * x + n for x in range(n) if 7 // (x - n) < 3)",
)


LITERALS = {"dict()": "{}", "list()": "[]", "tuple()": "()", "str()": "''", "int()": "0"}
rewrite(
    "plain-literal",
    *LITERALS.items(),
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
    known = [scope.type_of(part) for part in parts]
    if not parts or not {*known} <= {"str", "char", "int", "float", "bool"}:
        return None
    texts = [part if types.is_str(t) else call("str", part) for part, t in zip(parts, known, strict=True)]
    return reduce(lambda left, right: ast.BinOp(left=left, op=ast.Add(), right=right), texts)


def _growing(found: Found, where: Where) -> list[ast.stmt] | None:
    """A block with `t = t + x` for `r.append(x)`, and `t` for `''.join(r)`; None if it has no such join."""
    r, t, nodes = found["r"], found["t"], walk(found["rest"])
    grown = {id(n): t for n in nodes if isinstance(n, ast.Call) and pieces("''.join(r)", n, r=r)}
    for node in nodes if grown else ():
        p = pieces("r.append(x)", node, r=r) if isinstance(node, ast.Expr) else None
        if p is not None and types.is_str(where.scope.type_of(p["x"])):
            grown[id(node)] = made("t = t + x", t=t, x=p["x"])[0]  # type: ignore[assignment]
    return [clone(s, grown) for s in found["rest"]] if grown else None  # type: ignore


rewrite(
    "join-to-concatenation",
    ("r = []\nrest", "t = ''\ninner"),
    needs=[when.own("r")],
    made={
        "t": fresh("t"),
        "inner": Made("`rest` with `t` for what is appended and joined", _growing, like="rest"),
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
    if not isinstance(pattern := getattr(found["p"], "value", None), str):
        return None
    new = CLASS.sub(lambda m: _class(m[1], MEMBER.findall(m[2])), pattern)
    try:
        with warnings.catch_warnings(action="ignore"):
            same_meaning = _tree(parser.parse(new)) == _tree(parser.parse(pattern))
        return ast.Constant(value=new) if same_meaning else None
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
