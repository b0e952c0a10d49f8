"""Lists, strings and sets: what loops make as comprehensions, what `sum`, `sorted` and the like go through,
entries that are looked up one by one, copies, slices, sorting and stacks, each in one form."""

from __future__ import annotations

import ast
from typing import Any

from skyt.repair.rules.analysis import syntax
from skyt.repair.rules.analysis.effects import conflict
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import count_reads, mentions, stored_names
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, clone, same, walk
from skyt.repair.rules.analysis.types import ANY, LAZY, called_name, is_str, kind
from skyt.repair.rules.names.assignments import simple_target
from skyt.repair.rules.patterns import when
from skyt.repair.rules.patterns.rewriting import Made, fresh, ranked, replacing, rewrite
from skyt.repair.rules.patterns.template import Found, pieces, value
from skyt.repair.rules.patterns.when import Condition, Where
from skyt.repair.rules.registry import Place, block

CONSUMERS = frozenset({"sorted", "sum", "set", "tuple", "list", "max", "min", "frozenset", "any", "all"})
IN_TURN = frozenset({"list", "tuple", "deque", "str", "char", "iter"})  # a set of these gets one by one
MAPPED = frozenset({"int", "str", "len", "abs", "ord", "chr", "bool"})


def _consumes(function: ast.expr, where: Where) -> bool:
    if isinstance(function, ast.Attribute) and function.attr == "join":
        return is_str(where.scope.type_of(function.value))
    return getattr(function, "id", "") in CONSUMERS


consumer = when.asking("uses up its argument at once", _consumes)


def in_step(function: str, argument: str) -> Condition:
    """It cannot be told if a consumer takes the elements one by one or all at once: it makes a list first
    anyway, or it cannot fail on them, or making them cannot."""

    def holds(found: Found, where: Where) -> bool:
        scope, made = where.scope, value(argument, **found)
        name, total = getattr(found[function], "id", ""), scope.effects(made).total
        comprehended = isinstance(made, ast.ListComp | ast.GeneratorExp)
        if name in {"any", "all"}:
            return isinstance(made, ast.ListComp) and total
        if name in {"set", "frozenset"} and kind(scope.type_of(made)) not in IN_TURN:
            return False
        lazy = isinstance(made, ast.Call) and called_name(made.func) in LAZY
        if total or name in {"", "sorted", "list", "tuple"} or not (lazy or comprehended):
            return True
        t = scope.type_of(made.elt) if comprehended else ANY
        return t in {"int", "bool"} or (name in {"set", "frozenset", "max", "min"} and is_str(t))

    return Condition(f"`{function}` makes a list first, or elements of `{argument}` cannot fail", holds)


def _generated(template: str, like: str) -> Made:
    """A generator with what a lambda, a builtin or a function of the program gives for each element."""

    def compute(found: Found, where: Where) -> Any:
        function: Any = found["h"]
        x = syntax.load(where.scope.fresh(function))
        match function:
            case ast.Lambda(args=ast.arguments(args=[ast.arg(arg=name)]), body=body):
                if any(isinstance(n, (ast.Lambda, *COMPREHENSIONS)) for n in walk(body)):
                    return None
                applied = syntax.substitute(clone(body), {name: x})
            case ast.Name(id=name) if name in where.scope.program.by_name or name in MAPPED:
                applied = syntax.call(function, x)
            case _:
                return None
        return value(template, x=x, e=found["e"], y=applied)

    return Made(f"`{template}` with `h(x)` for `y`", compute, like=like)


rewrite(
    "plain-argument",
    ("list(f for target in e if c)", "[f for target in e if c]"),
    ("u(list(e))", "u(e)", [consumer("u"), in_step("u", "e")]),
    ("u(reversed(s))", "u(s[::-1])", [consumer("u"), when.of_kind("str list", "s")]),
    ("u(map(h, e))", "u(mapped)", [consumer("u")]),
    ("u(filter(h, e))", "u(kept)", [consumer("u")]),
    (
        "u([f for target in e if c])",
        "u(f for target in e if c)",
        [consumer("u"), in_step("u", "[f for target in e if c]")],
    ),
    made={
        "mapped": _generated("(y for x in e)", like="map(h, e)"),
        "kept": _generated("(x for x in e if y)", like="filter(h, e)"),
    },
    because="the same elements come in the same order, whether in a list first or one by one",
    fires="s: str; xs: list[int]\nreturn [''.join([c for c in s if c != 'a']), list(map(ord, s)), "
    "list(filter(lambda c: c != 'a', s)), list(reversed(xs)), sorted(list(x % 3 for x in xs))]",
    keeps="s: str; xs: list[int]\nreturn [any([1 // x for x in xs]), sum(reversed(range(len(xs))))]",
)


def _looking_up(entry: str, index: str = "") -> Condition:
    """Elements without effects that look something up; an index stands nowhere else in them."""

    def holds(found: Found, where: Where) -> bool:
        parts: Any = [found[piece] for piece in "fgc" if piece in found]
        uses = sum(same(n, value(entry, **found)) for n in walk(parts))
        late = any(isinstance(n, ast.Lambda | ast.GeneratorExp) for n in walk(parts))
        alone = not index or uses == count_reads(parts, getattr(found[index], "id", ""))
        return uses > 0 and alone and not late and all(where.scope.effects(p).pure for p in parts)

    words = f"elements without effects that have `{entry}`" + f", and `{index}` only there" * bool(index)
    return Condition(words, holds, own=frozenset(index))


KINDS = ("[f for {} if c]", "{{f for {} if c}}", "{{f: g for {} if c}}", "u(f for {} if c)")
INDICES = (("range(len(s))", "s"), ("range(len(s) - 1, -1, -1)", "s[::-1]"))
rewrite(
    "entry-for-key",
    *((kind.format("k in d"), kind.format("k, x in d.items()")) for kind in KINDS[:3]),
    needs=[when.of_kind("dict", "d"), when.plain("d"), _looking_up("d[k]")],
    made={"x": fresh("x"), **{piece: replacing(piece, ("d[k]", "x")) for piece in "fgc"}},
    because="an item is a key with the entry under it",
    fires="s: str\nd = {x: ord(x) for x in s}\nreturn [d[c] for c in d if d[c] > 60]",
    keeps="s: str\nd = {x: ord(x) for x in s}\nreturn [d[c] + d.pop(c) for c in list(d)]",
)
rewrite(
    "element-for-index",
    *(
        (kind.format(f"i in {indices}"), kind.format(f"x in {items}"), [consumer("u")] * ("u(" in kind))
        for kind in KINDS
        for indices, items in INDICES
    ),
    needs=[when.of_kind("str list", "s"), when.plain("s"), _looking_up("s[i]", "i")],
    made={"x": fresh("x"), **{piece: replacing(piece, ("s[i]", "x")) for piece in "fgc"}},
    because="the elements come in the order of their indices",
    fires="xs: list[int]\nreturn sum(xs[i] * xs[i] for i in range(len(xs)))",
    keeps="xs: list[int]\nreturn [i + xs[i] for i in range(len(xs))]",
)
rewrite(
    "change-in-place",
    ("x.reverse()", "x = x[::-1]"),
    ("x.sort()", "x = sorted(x)"),
    ("x.sort(reverse=r)", "x = sorted(x, reverse=r)", [when.closed("r")]),
    ("x.sort(key=k)", "x = sorted(x, key=k)", [when.closed("k")]),
    ("x.sort(key=k, reverse=r)", "x = sorted(x, key=k, reverse=r)", [when.closed("k", "r")]),
    needs=[when.of_kind("list", "x"), when.owned("x"), when.not_gone_through("x")],
    because="nobody else holds the list, so a new list in its place cannot be told apart",
    fires="xs: list[int]\nr = list(xs)\nr.sort()\nr.reverse()\nreturn r",
    keeps="xs: list[int]\nxs.sort()\nreturn xs",
)
rewrite(
    "expand-divmod",
    ("divmod(a, b)", "(a // b, a % b)"),
    needs=[when.integer("a", "b"), when.small("a", "b")],
    because="`divmod` of two integers is their quotient and their remainder",
    fires="n: int; m: int\nq, r = divmod(n, m)\nreturn q + r",
    keeps="x: float; y: float\nq, r = divmod(x, y)\nreturn q + r",
)
rewrite(
    "set-operator",
    ("a.intersection(b)", "a & b"),
    ("a.union(b)", "a | b"),
    ("a.difference(b)", "a - b"),
    ("a.symmetric_difference(b)", "a ^ b"),
    needs=[when.of_kind("set", "a", "b")],
    because="the method of a set, given a set, is its operator",
    fires="s: str; t: str\nreturn sorted(set(s).intersection(set(t)))",
    keeps="s: str; t: str\nreturn sorted(set(s).intersection(t))",
)


variable = when.asking("a variable", lambda e, where: isinstance(e, ast.Name), "own")


def _given_whole(found: Found, where: Where) -> ast.expr | None:
    """A set made of a set or dict would have another order."""
    copied = getattr(found["u"], "id", "") in {"set", "frozenset"}
    return None if copied else value("u(x)", **found)


rewrite(
    "plain-copy",
    ("x[:]", "list(x)", [when.of_kind("list", "x")]),
    ("x[:]", "x", [when.text("x")]),
    ("x.copy()", "list(x)", [when.of_kind("list", "x")]),
    ("''.join(x)", "x", [when.text("x")]),
    ("[y for y in x]", "l", [variable("y")]),
    ("u(y for y in x)", "a", [consumer("u"), variable("y")]),
    made={
        "l": Made("`list(x)`", lambda found, where: value("list(x)", **found), like="[y for y in x]"),
        "a": Made("`u(x)`", _given_whole, like="u(y for y in x)"),
    },
    because="all ways to copy a list make a new list of the same elements; a copy of a str is the str",
    fires="xs: list[int]; s: str\nys = xs[:]\nys.append(1)\nreturn [ys, s[:]]",
    keeps="xs: list[int]; ts: list[str]\nys = xs[1:]\nys.append(1)\nreturn [ys, ''.join(ts)]",
)
FROM_END = [when.constant("k"), when.at_least(0, "len(x) - k")]
rewrite(
    "plain-slice",
    ("x[0:b]", "x[:b]"),
    ("x[a:len(x)]", "x[a:]"),
    ("x[:len(x)]", "x[:]"),
    ("x[0:]", "x[:]"),
    ("x[len(x) - k:]", "x[-k:]", FROM_END),
    ("x[:len(x) - k]", "x[:-k]", FROM_END),
    ("len(x[:-k])", "len(x) - k", FROM_END),
    needs=[when.of_kind("str list", "x")],
    because="a slice goes from 0 to the length unless it says otherwise; below 0 it counts from the end",
    fires="s: str; n: int\nif len(s) < 5:\n return s[n:len(s)]\nreturn s[len(s) - 4:]",
    keeps="s: str; xs: list[int]\ng = [xs, xs]\nreturn [s[len(s) - 4:], g.pop()[:len(g.pop())]]",
)
rewrite(
    "concatenate-left",
    ("a + (b + c)", "a + b + c"),
    needs=[when.text("a", "b", "c")],
    because="concatenation is associative",
    fires="s: str\nreturn s + ('a' + s)",
    keeps="x: float; y: float\nreturn x + (y + 0.1)",
)

TESTS = [f"if {test}: leave" for test in ("{} != x", "x != {}", "c or {} != x", "c or x != {}")]
rewrite(
    "pop-at-test",
    *((test.format("k[-1]") + "\nk.pop()", test.format("k.pop()")) for test in TESTS),
    needs=[
        when.of_kind("list", "k"),
        when.owned("k"),
        when.returning_always("leave"),
        when.apart("leave", "x", of="k"),
    ],
    because="where the branch is taken nobody sees the list any more, and else the element is popped anyway",
    fires="s: str\nk = list(s)\nfor c in s:\n if not k or k[-1] != c:\n  return False\n k.pop()\nreturn True",
    keeps="s: str\nk = list(s)\nfor c in s:\n if not k or k[-1] != c:\n  return k\n k.pop()\nreturn True",
)


# What a loop does with each element, how that starts, what it comes to, and what the element must be.
FILLS: tuple[tuple[str, str, str, list[Condition]], ...] = (
    ("r.append(f)", "[]", "[f for target in e if c]", []),
    ("r.add(f)", "set()", "{f for target in e if c}", []),
    ("r[k] = f", "{}", "{k: f for target in e if c}", []),
    ("r = r + f", "0", "sum(f for target in e if c)", [when.integer("f")]),
    ("r = f + r", "0", "sum(f for target in e if c)", [when.integer("f")]),
    ("r = r + f", "''", "''.join(f for target in e if c)", [when.text("f")]),
)


@block(
    ast.For,
    needs="a new empty list, dict, set or string, or a 0, that only this loop fills or adds to, and does not "
    "read; loop variables dead after the loop; a key and its value in either order",
    sound="a comprehension evaluates the same conditions and elements in the same order; `sum` and `join` "
    "put them together in that order, starting from nothing",
    fires="xs: list[int]\nr = []\nd = {}\nt = 0\nfor x in xs:\n if x > 1:\n  r.append(x)\n"
    "for x in xs:\n d[x] = x * x\nfor x in xs:\n t = t + x\nreturn [r, d, t]",
    keeps="xs: list[int]\nr = []\nd = {}\nt = 0\nfor x in xs:\n r.append(len(r))\nfor x in xs:\n"
    " d[x] = len(d)\nfor x in xs:\n if x > t:\n  t = t + x\nreturn [r, d, t]",
)
def loop_to_comprehension(body: list[ast.stmt], place: Place) -> list[ast.stmt] | None:
    """`r = []; for x in e: if c: r.append(f)` is `r = [f for x in e if c]`; loops may be nested."""
    for j, s in enumerate(body):
        generators, inner = _nested(s)
        bound = stored_names([g.target for g in generators])
        for step, empty, whole, needs in FILLS if generators else ():
            p = pieces(step, inner)
            if p is None or not isinstance(p["r"], ast.Name) or isinstance(p.get("k"), ast.Slice):
                continue
            name, items = p["r"].id, [p[n] for n in "kf" if n in p]
            start = _start_of(body, j, name)
            if start is None or not pieces(f"r = {empty}", body[start]) or bound & {name, *place.live_at(s)}:
                continue
            if not all(place.private(n) for n in (name, *bound)) or count_reads([*items, *generators], name):
                continue
            scope = place.scope
            first_seen, *later = map(scope.effects, items)
            if any(conflict(first_seen, e, scope) for e in later) or any(needs_loop(x, scope) for x in items):
                continue
            if all(n.holds(p, Where(lambda: place.scope)) for n in needs):
                new = value(whole, **p, **dict.fromkeys(("target", "e", "c"), p["r"]))
                made: Any = new.args[0] if isinstance(new, ast.Call) else new
                made.generators = generators
                return [*body[:start], *body[start + 1 : j], syntax.assign(name, new), *body[j + 1 :]]
    return None


def _nested(s: ast.stmt) -> tuple[list[ast.comprehension], ast.stmt]:
    """(the parts of a comprehension, the one statement inside) of loops and conditions in each other; no
    parts if one reads the variables of those inside it."""
    generators: list[ast.comprehension] = []
    while isinstance(s, ast.For | ast.If) and len(s.body) == 1 and not s.orelse:
        if isinstance(s, ast.For):
            generators.append(ast.comprehension(target=s.target, iter=s.iter, ifs=[], is_async=0))
        elif not generators:
            break
        else:
            generators[-1].ifs.append(s.test)
        s = s.body[0]
    return (generators if syntax.in_order(generators, inside=True) else []), s


def _start_of(body: list[ast.stmt], index: int, name: str) -> int | None:
    """The index of `name = …` before a loop, with nothing about the name, nor a way out, in between."""
    last = next((k for k in range(index - 1, -1, -1) if mentions(body[k], {name})), None)
    if last is None or syntax.own_breaks(body[last:index], (ast.Break, ast.Continue)):
        return None
    return last if simple_target(body[last]) == name else None


def needs_loop(node: ast.expr, scope: Scope) -> bool:
    """Whether an element is better made by statements: a choice, or a call of a longer private function."""
    named = [f for n in syntax.read_names(node) if (f := scope.program.by_name.get(n)) is not None]
    return isinstance(node, ast.IfExp) or any(not f.public and len(f.node.body) > 1 for f in named)


rewrite(
    "comprehension-to-loop",
    *(
        (last.format(whole), f"r = {start}\nfor target in e:\n if c: {step}\n{last.format('r')}", needs)
        for last in ("return {}", "targets = {}")
        for step, start, whole, needs in FILLS
    ),
    needs=[
        when.each(
            "a choice, or a call of a private function of several statements",
            ("f",),
            lambda e, where: needs_loop(e, where.scope),
        )
    ],
    made={"r": fresh("r")},
    because="a comprehension evaluates the same conditions and elements in the same order as a loop",
    fires="s: str\ndef f(s):\n return sum(g(x) for x in s)\ndef g(k):\n if k:\n  return 3\n return 7",
    keeps="xs: list[int]\ndef f(xs):\n return [g(x) for x in xs]\ndef g(k):\n return k + 1",
)

ROUND = "for target in e:\n if c:\n  targets = f\n  body"

rewrite(
    "loop-over-comprehension",
    ("for targets in (f for target in e if c): body", ROUND),
    (
        "for targets in [f for target in e if c]: body",
        ROUND,
        [when.one_by_one("[f for target in e if c]", "targets", "body")],
    ),
    because="a generator makes each element when it is asked for; elements without effects can be made then",
    fires="xs: list[int]\nt = 0\nfor y in [x * x for x in xs if x > 1]:\n t = t * 2 + y\nreturn t",
    keeps="xs: list[int]\nfor y in [x + len(xs) for x in xs]:\n xs.append(y)\nreturn xs",
)


rewrite(
    "count-to-sum",
    ("len([f for target in e if c])", "sum(1 for target in e if c)"),
    ("sum(b for target in e if c)", "sum(1 for target in e if c and b)", [when.boolean("b")]),
    because="the length of a list is the number of its elements; True counts as 1 and False as 0",
    fires="xs: list[int]\nreturn len([x for x in xs if x > 1]) + sum(x < 2 for x in xs)",
    keeps="xs: list[int]\nreturn len([1 // x for x in xs]) + sum(x for x in xs)",
)

LARGER = ("a < b", "a <= b", "b > a", "b >= a")  # which says that b is the larger one

rewrite(
    "keep-extreme",
    *((f"if {test}: a = b", "a = max(p, q)", [when.local("a")]) for test in LARGER),
    *((f"if {test}: b = a", "b = min(p, q)", [when.local("b")]) for test in LARGER),
    *((f"if {test}: t = b\nelse: t = a", "t = max(p, q)") for test in LARGER),
    *((f"if {test}: t = a\nelse: t = b", "t = min(p, q)") for test in LARGER),
    needs=[when.integer("a", "b")],
    made={"p": ranked("a", "b", 0), "q": ranked("a", "b", 1)},
    because="the larger of two integers is what is left after replacing the smaller by the larger",
    fires="n: int; m: int\nif n < m:\n n = m\nif n > 7:\n k = 7\nelse:\n k = n\nreturn [n, k]",
    keeps="n: float; m: float\nif n < m:\n n = m\nreturn n",
)
