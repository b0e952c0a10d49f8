"""Control flow: exits of loops, indices and counters, `any` and `all`, guards, `else` after return, nested
conditions and choices, each in one shape; of two questions the preferred; no case that the rest covers."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from skyt.repair.rules.analysis.effects import conflict
from skyt.repair.rules.analysis.evaluate import GiveUpError, Opaque, returned
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import int_value, number, stored_names
from skyt.repair.rules.analysis.trees import exchanged, walk
from skyt.repair.rules.analysis.types import is_int, is_str, kind
from skyt.repair.rules.expressions import opposite
from skyt.repair.rules.names.assignments import before
from skyt.repair.rules.patterns import when
from skyt.repair.rules.patterns.rewriting import Made, fresh, looks_back, replacing, returning, rewrite
from skyt.repair.rules.patterns.template import Found, made, pieces
from skyt.repair.rules.patterns.when import Where
from skyt.repair.rules.registry import Place, block

HEADS = [f"{head}: {{}}{other}" for head in ("for target in e", "while c") for other in ("", "\nelse: other")]

rewrite(
    "break-to-return",
    *((f"{head}\nreturn x".format("body"), f"{head}\nreturn x".format("inner")) for head in HEADS),
    needs=[when.breaking("body")],
    made={"inner": returning("body", "x")},
    because="leaving a loop right before `return E` is returning E from inside it",
    fires="xs: list[int]\nt = 1\nfor x in xs:\n if x < 1:\n  t = 2\n  break\nreturn t",
    keeps="xs: list[int]\nt = 1\nfor x in xs:\n if x < 1:\n  break\nt = 3\nreturn t",
)
rewrite(
    "while-true",
    ("while t:\n if c: break\n rest", "while not c: rest"),
    ("while t:\n if c:\n  leave\n rest", "while not c: rest\nleave", [when.leaving("leave")]),
    needs=[when.always(True, "t")],
    because="`while True` that starts by leaving under a condition is `while` the condition does not hold",
    fires="n: int >= 0 <= 50\nwhile True:\n if n < 3:\n  break\n n = n - 1\nreturn n",
    keeps="n: int >= 0 <= 50\nwhile True:\n n = n - 1\n if n < 3:\n  break\nreturn n",
)
rewrite(
    "index-to-element",
    ("for i in range(len(s)): body", "for c in s: inner"),
    ("for i in range(a, len(s)): body", "for c in s[a:]: inner", [when.at_least(0, "a")]),
    ("for i in range(len(s) - 1, -1, -1): body", "for c in s[::-1]: inner"),
    needs=[when.of_kind("str list", "s"), when.unchanged("s", by="body"), when.own("i")],
    made={"c": fresh("c"), "inner": replacing("body", ("s[i]", "c"))},
    because="the elements come in the order of their indices",
    fires="s: str\nt = 0\nfor i in range(len(s)):\n if s[i] == 'a':\n  t = t + 1\nreturn t",
    keeps="s: str\nt = 0\nfor i in range(len(s)):\n if s[i] == 'a':\n  t = t + i\nreturn t",
)
rewrite(
    "enumerate-to-index",
    ("for i, x in enumerate(s): body", "for i in range(len(s)): inner", [when.own("x")]),
    (
        "for a, b in zip(s, s[k:]): body",
        "for j in range(len(s) - k): both",
        [when.constant("k"), when.own("a", "b")],
    ),
    needs=[when.of_kind("str list", "s"), when.unchanged("s", by="body")],
    made={
        "j": fresh("i"),
        "inner": replacing("body", ("x", "s[i]")),
        "both": replacing("body", ("a", "s[j]"), ("b", "s[j + k]")),
    },
    because="the element with an index is the one at that index; the shorter of two tails of a list ends it",
    fires="xs: list[int]\nt = 0\nfor i, x in enumerate(xs):\n t += i * x\nreturn t",
    keeps="xs: list[int]\nt = 0\nfor i, x in enumerate(xs):\n if xs.pop() > i:\n  t = t * 2 + x\nreturn t",
)
ALL, ANY = "all(c for target in e if d)", "any(c for target in e if d)"
QUANTIFIERS = (ALL, ANY, f"not {ALL}", f"not {ANY}")
LOOP = "for target in e:\n if d:\n  if {}: return {}\nreturn {}"

rewrite(
    "expand-quantifier",
    (f"return {ALL}", LOOP.format("not c", False, True)),
    (f"return {ANY}", LOOP.format("c", True, False)),
    (f"return not {ALL}", LOOP.format("not c", True, False)),
    (f"return not {ANY}", LOOP.format("c", False, True)),
    *((f"return a and {q}", f"if not a: return False\nreturn {q}", [when.boolean("a")]) for q in QUANTIFIERS),
    *((f"return a or {q}", f"if a: return True\nreturn {q}", [when.boolean("a")]) for q in QUANTIFIERS),
    because="`any` and `all` evaluate one element after the other and stop at the first that decides, and "
    "are not asked if what comes before them in an `and` or `or` decides",
    fires="n: int; xs: list[int]\nreturn n > 2 and n < 9 and all(x > 1 for x in xs)",
    keeps="n: int; xs: list[int]\nif n:\n return n and any(x > 1 for x in xs)\n"
    "return all([x > 1 for x in xs])",
)
ROUND = "body\n i = i + 1\n *rest"
# A condition of a loop, and the first value of `i` for which it does not hold.
LIMITS = {"i < n": "n", "i <= n": "n + 1", "i + j < n": "n - j", "i + j <= n": "n - j + 1"}
rewrite(
    "counting-loop",
    *(
        (f"while {test}:\n {ROUND}", f"for i in range(i, {limit}):\n body\n *rest", [when.integer(limit)])
        for test, limit in LIMITS.items()
    ),
    (
        f"while i * i <= n:\n {ROUND}",
        "for i in range(i, math.isqrt(n) + 1):\n body\n *rest",
        [when.at_least(0, "i", "n")],
    ),
    needs=[when.integer("i", "n"), when.own("i"), when.apart("rest", of="i"), when.no_continue("body")],
    because="the counter then takes exactly the values of a range, one a round",
    fires="n: int >= 0 <= 50\nt = 0\ni = 1\nwhile i < n:\n t = t + i\n i = i + 1\nreturn t",
    keeps="n: int >= 0 <= 50\nt = 0\ni = 1\nwhile i < n:\n t = t + i\n i = i + 1\nreturn t + i",
)
rewrite(
    "counter-by-hand",
    (
        "i = 0\n*between\nfor target in e:\n body\n i = i + 1\n *rest",
        "*between\nfor j, target in enumerate(e):\n inner\n *rest",
    ),
    needs=[
        when.integer("i"),
        when.own("i"),
        when.no_continue("body"),
        when.apart("body", of="i", within=(ast.GeneratorExp,)),
    ],
    made={"j": fresh("i"), "inner": replacing("body", ("i", "j"))},
    because="such a variable is the number of the round",
    fires="xs: list[int]\ni = 0\nr = []\nfor x in xs:\n if x > i:\n  r.append(i)\n i = i + 1\nreturn r",
    keeps="xs: list[int]\ni = 0\nr = []\nfor x in xs:\n if x > i:\n  r.append(i)\n  continue\n i = i + 1\n"
    "return r",
)
rewrite(
    "shift-index",
    (
        "for i in range(a, b): body",
        "for i in range(b - a): body",
        [when.integer("a", "b"), when.apart("body", of="i")],
    ),
    (
        "for i in range(a, b): body",
        "for j in range(a - k, b - k): inner",
        [when.constant("a"), when.integer("b")],
    ),
    needs=[when.own("i")],
    made={"j": fresh("i"), "k": looks_back("i", "body", "a"), "inner": replacing("body", ("i", "j + k"))},
    because="counting from 1 and looking at i - 1 is counting from 0; unseen, the number of rounds matters",
    fires="xs: list[int]\nt = 1\nfor i in range(1, len(xs)):\n t = 2 * t + xs[i] - xs[i - 1]\nreturn t",
    keeps="xs: list[int]\nt = 1\nfor i in range(1, len(xs)):\n t = i * t + xs[i] - xs[i - 1]\nreturn t",
)


FEW = 4  # values of a parameter that are tried
LARGEST = 60  # nodes of a statement that is repeated


def _values(test: ast.expr, scope: Scope) -> tuple[str, Sequence[Any]] | None:
    """(variable, its few values where the test holds); of `len(x) < 2`: none, or one that is not known."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name) as x):
            t = scope.type_of(x)
            return (name, ["" if is_str(t) else []]) if is_str(t) or kind(t) == "list" else None
        case ast.Compare(left=ast.Call() as length, ops=[ast.Lt()], comparators=[limit]):
            p, count = pieces("len(x)", length), int_value(limit)
            if p is None or kind(scope.type_of(p["x"])) != "list" or count not in (1, 2):
                return None
            given = [[Opaque() for _ in range(k)] for k in range(count)]
            return (p["x"].id, given) if isinstance(p["x"], ast.Name) else None
        case ast.Compare(left=ast.Name(id=name) as x, ops=[op], comparators=[right]):
            low, high = scope.interval(x)[0], int_value(right)
            values: Sequence[int | None] = []
            if isinstance(op, ast.Eq):
                values = [high]
            elif isinstance(op, ast.Lt) and low is not None and high is not None:
                values = range(low, high)
            few = is_int(scope.type_of(x)) and 0 < len(values) <= FEW and None not in values
            return (name, values) if few else None
    return None


@block(
    ast.If,
    needs="a parameter that can have only few values here (type int with a bound, or an empty str or list)",
    sound="the rest of the function, evaluated for each of these values, returns the same; a case for each "
    "value has that value for the parameter",
    fires="n: int >= 0\nif n < 2:\n return n\nr = 1\nfor i in range(n):\n r = r * 2 - 1\nreturn r",
    keeps="n: int\nif n == 1:\n return 5\nif n < 3:\n return n\nreturn 1 + n - n",
)
def few_values(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`if n == 1: return 1` goes when the rest of the function returns 1 for n = 1; with `n >= 0`,
    `if n < 2: return n` is `if n == 0: return 0` and `if n == 1: return 1`."""
    info = place.info
    for i, s in enumerate(body):
        p, rest = pieces("if c: return e", s), body[i + 1 :]
        found = _values(p["c"], place.before(i)) if p is not None else None
        if p is None or found is None or not rest:
            continue
        name, values = found
        given = name in info.arguments and body is info.node.body and name not in stored_names(body[:i])
        if given and all(_agree(p["e"], rest, {name: v}, place.scope) for v in values):
            return [*body[:i], *rest]
        if getattr(p["e"], "id", "") == name and isinstance(values[0], int):
            cases = [made("if n == k: return k", n=name, k=number(v))[0] for v in values]
            return [*body[:i], *cases, *rest]
    return None


def _agree(value: ast.expr, rest: list[ast.stmt], variables: dict[str, Any], scope: Scope) -> bool:
    """Whether a value, and what the rest of a function returns, are surely the same."""
    try:
        (one, new), (other, also) = returned([ast.Return(value=value)], variables), returned(rest, variables)
    except GiveUpError:
        return False
    if type(one) is type(other) and type(one) in (list, dict):
        own = new and also and not {*repr(one)[1:]} & {*"[{("}  # nor is anything in them shared
        return (own or scope.values_shared) and repr(one) == repr(other)
    return type(one) is type(other) and type(one) in (int, bool, str, type(None)) and bool(one == other)


rewrite(
    "return-empty",
    ("return x", "return ''", [when.text("x")]),
    ("return x", "return []", [when.of_kind("list", "x"), when.values_shared]),
    needs=[when.plain("x"), when.known_empty("x")],
    because="an empty str or list has the value of the literal",
    fires="xs: list[int]\nif xs:\n return [xs[0]]\nreturn xs",
    keeps="xs: list[int]\nif len(xs) > 1:\n return [xs[0]]\nreturn xs",
)


rewrite(
    "jump-to-else",
    ("continue", "pass", [when.ends_round]),
    ("return", "pass", [when.ends_function]),
    ("return None", "pass", [when.ends_function]),
    ("if c: continue\nrest", "if not c: rest", [when.ends_round]),
    ("if c:\n body\n continue\nrest", "if c: body\nelse: rest", [when.ends_round]),
    ("if c: return\nrest", "if not c: rest", [when.ends_function, when.running_out("rest")]),
    because="skipping the rest of a loop body, or of a function that returns None, is having the rest in the "
    "other branch; where there is no rest, it is what happens anyway",
    fires="xs: list[int]\nt = 0\nfor x in xs:\n if x < 1:\n  continue\n t = t + x\n continue\nreturn t",
    keeps="xs: list[int]\nt = 0\nfor x in xs:\n if x < 1:\n  break\n t = t + x\nreturn t",
)
rewrite(
    "decided-branch",
    ("if c: body", "body", [when.always(True, "c")]),
    ("if c: body\nelse: other", "body", [when.always(True, "c")]),
    ("if c: body\nelse: other", "other", [when.always(False, "c")]),
    ("if c: body", "pass", [when.always(False, "c")]),
    because="a condition that is a constant chooses its branch for good",
    fires="n: int\nif False:\n return 0\nif True:\n return n\nreturn 1",
    keeps="n: int\nif n:\n return n\nreturn 0",
)
rewrite(
    "drop-empty-branch",
    ("if c: pass\nelse: other", "if not c: other"),
    ("if c: body\nelse: pass", "if c: body"),
    ("if c: body\nelse: body", "body"),
    ("if c: pass", "pass"),
    because="a branch without statements only evaluates its test",
    fires="n: int\nif n > 3:\n pass\nelse:\n n = n + 1\nreturn n",
    keeps="xs: list[int]\nif xs.pop() > 3:\n pass\nreturn xs",
)
rewrite(
    "flatten-else",
    ("if c: body\nelse: other", "if c: body\nother", [when.leaving("body")]),
    ("if c: body\nelse: other", "if not c: other\nbody", [when.leaving("other")]),
    because="behind a branch that always leaves, `else` and the code after it are the same place",
    fires="n: int\nif n > 3:\n return 1\nelif n > 2:\n n = 1\nelse:\n return 2\nreturn n",
    keeps="n: int\nif n > 3:\n n = 1\nelse:\n n = 2\nreturn n",
)
rewrite(
    "merge-branches",
    ("if c:\n if d: body", "if c and d: body"),
    ("if c: body\nif d: body", "if c or d: body", [when.leaving("body")]),
    ("if c: body\nelse:\n if d: body", "if c or d: body"),
    because="what is done under both conditions is done under their `and`, under either under their `or`",
    fires="n: int; m: int\nif n > 3:\n if m > 4:\n  return 1\nif m > 5:\n return 1\nreturn 0",
    keeps="n: int; m: int\nif n > 3:\n m = 1\nif m > 4:\n m = 1\nreturn m",
)


@block(
    ast.Return,
    ast.Assign,
    ast.Expr,
    needs="a conditional expression evaluated surely and once; what comes before it commutes with its test",
    sound="the test decides which of the two values the statement is executed with",
    fires="n: int\nr = []\nr.append(n + (1 if n < 1 else 2))\nreturn r[0] if r[0] > 3 else 2",
    keeps="n: int\nreturn [1][n] + (1 if 5 // (n - 1) < 1 else 2)",
)
def expand_conditional(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`x.append(a if c else b)` is `if c: x.append(a)` `else: x.append(b)`."""
    for i, s in enumerate(body):
        nodes = walk(s)
        for choice in [n for n in nodes if isinstance(n, ast.IfExp)] if len(nodes) <= LARGEST else []:
            scope, earlier = place.before(i), before(s, choice)
            seen = scope.effects(earlier or [])
            if earlier is None or not seen.pure or conflict(seen, scope.effects(choice.test), scope):
                continue
            then, other = exchanged(s, choice, choice.body), exchanged(s, choice, choice.orelse)
            if isinstance(s, ast.Return):
                return [*body[:i], ast.If(test=choice.test, body=[then], orelse=[]), other, *body[i + 1 :]]
            return [*body[:i], ast.If(test=choice.test, body=[then], orelse=[other]), *body[i + 1 :]]
    return None


def negative(test: object) -> bool:
    """Whether a condition is the one of each pair of opposites that normal forms avoid."""
    match test:
        case ast.UnaryOp(op=ast.Not()) | ast.BoolOp(op=ast.Or()):
            return True
        case ast.Compare(left=left, ops=[ast.Lt()]):
            return int_value(left) is not None
        case ast.Compare(ops=[op]):
            return isinstance(op, ast.NotEq | ast.NotIn | ast.IsNot | ast.LtE | ast.GtE | ast.Gt)
    return False


def _preferred(found: Found, where: Where) -> ast.expr | None:
    test = opposite(found["c"], where.scope) if negative(found["c"]) else None  # type: ignore[arg-type]
    return None if negative(test) else test


rewrite(
    "orient-branches",
    ("if c: body\nelse: other", "if d: other\nelse: body", [when.running_on("body", "other")]),
    ("if c: body\nrest", "if d: rest\nbody", [when.leaving("body", "rest")]),
    made={"d": Made("the opposite of `c`, if that is the preferred one", _preferred, like="not c")},
    because="swapping two branches under the negated condition changes nothing; behind a branch that always "
    "leaves, `else` and the code after it are the same place",
    fires="n: int\nif n != 1:\n m = 2\nelse:\n m = 3\nif n != m:\n return 2\nreturn n",
    keeps="n: int\nif n == 1:\n m = 2\nelse:\n m = 3\nif n == m:\n return 2\nreturn n",
)
rewrite(
    "return-truth",
    ("if c: return True\nreturn False", "return bool(c)"),
    ("if c: return False\nreturn True", "return not c"),
    ("if c: return False\nreturn r", "return not c and r", [when.no_quantifier("r")]),
    ("if c: return True\nreturn r", "return c or r", [when.boolean("c"), when.no_quantifier("r")]),
    ("if c: return v\nreturn False", "return c and v", [when.boolean("c", "v"), when.no_quantifier("v")]),
    ("if c: return v\nreturn True", "return not c or v", [when.boolean("c", "v"), when.no_quantifier("v")]),
    because="True or False by a condition is its truth, and with another value what `and` and `or` give",
    fires="n: int; m: int\nif n > 3:\n return m > 4\nreturn False",
    keeps="s: str; m: int\nif s:\n return m > 4\nreturn False",
)
