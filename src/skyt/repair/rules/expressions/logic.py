"""Conditions: comparisons with `<` and `<=` only, strict between integers; negations pushed inward; one form
for emptiness and for integers as conditions; operands in one order; and what is decided already."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis import types
from skyt.repair.rules.analysis.ranking import rank
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import ORDER_OPPOSITE, call, compare, negate
from skyt.repair.rules.analysis.trees import clone, size
from skyt.repair.rules.patterns import when
from skyt.repair.rules.patterns.making import Made, folded, ranked
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.patterns.when import Condition, Where
from skyt.repair.rules.registry import expression


def opposite(node: ast.expr, scope: Scope, boolean: bool = True) -> ast.expr:
    """`not node` pushed inward: exact opposites, De Morgan, and total orders. Where the value itself counts
    and not only its truth, the result is a bool as `not node` is."""
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


def opposite_of(c: str) -> Made:
    return Made(
        f"`not {c}`, pushed inward",
        lambda found, where: opposite(found[c], where.scope, where.boolean),  # type: ignore[arg-type]
        like=f"not {c}",
    )


OPERATORS = ("<", "<=", ">", ">=", "==", "!=")
rewrite(
    "push-negation",
    ("not c", "d"),
    made={"d": opposite_of("c")},
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
    ("a < b + 1", "a <= b", [when.not_constant("a", "b")]),
    ("a - 1 < b", "a <= b", [when.not_constant("a", "b")]),
    ("a < b - c", "a + c < b", [when.constant("c"), when.not_constant("a")]),
    needs=[when.integer("a", "b")],
    made={"m": folded("b + 1"), "k": folded("a - 1")},
    because="between integers there is nothing, and the same constant on both sides keeps their order",
    fires="n: int; m: int\nreturn [n <= 3, n < m + 1, n < m - 1]",
    keeps="n: float; m: int\nreturn [n <= 3, n < m + 1, n < m - 1]",
)
rewrite(
    "truth-of-integer",
    ("x", "x != 0"),
    on=(ast.Name, ast.BinOp, ast.Call, ast.Subscript, ast.Attribute),
    needs=[when.truth_only, when.integer("x")],
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
    because="such a value is empty exactly when its length is 0, or it equals the empty value of its type, "
    "and exactly then it is false",
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
    return size(e), rank(e, where.scope)


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
    ("a * b", "x * y", [when.integer("a", "b")]),
    *((f"{extreme}(a, b)", f"{extreme}(x, y)", [when.integer("a", "b")]) for extreme in ("max", "min")),
    made={"x": ranked("a", "b", 0), "y": ranked("a", "b", 1)},
    because="equality, products and extremes are symmetric, and conditions hold together, or not, in "
    "whichever order they are asked",
    fires="a: int; b: int\nif a + b < 9 and a != b:\n return 3 * a\nif 3 == b:\n return max(b, a)\nreturn a",
    keeps="a: int; b: int; x: float; y: any\nreturn [9 // (a + b) < 9 and a != b, 3 * x, 3 == y]",
)


@expression(
    ast.Compare,
    ast.Name,
    ast.UnaryOp,
    needs="the condition, or its opposite, holds on every path here; or bounds from the contract's domain"
    " decide it",
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
