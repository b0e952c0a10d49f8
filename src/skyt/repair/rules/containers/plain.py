"""What `collections` makes, as plain dicts and lists; entries of dicts that are made when first needed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from skyt.repair.rules.analysis.effects import Effects, disturbs, root
from skyt.repair.rules.analysis.program import READ, FunctionInfo, use_of
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.syntax import call, int_value, mentions
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, children, same, text, walk
from skyt.repair.rules.analysis.types import is_int, kind
from skyt.repair.rules.containers.tables import VIEWS
from skyt.repair.rules.engine import Context
from skyt.repair.rules.patterns import when
from skyt.repair.rules.patterns.rewriting import Made, folded, fresh, rewrite
from skyt.repair.rules.patterns.template import Found, Value, first, made, pieces, value
from skyt.repair.rules.patterns.when import Condition, Where, each, mine, of_kind, stable_key
from skyt.repair.rules.registry import module

COUNTER = "collections.Counter(e)"
INSERT = "if k not in d: d[k] = {}"
COUNTED_KINDS = frozenset(("str", "char", "list", "tuple", "set", "deque", "iter"))
STARTS = {"int": "0", "list": "[]", "dict": "{}", "set": "set()"}  # what `defaultdict(int)` puts in


@dataclass
class Holder:
    """Where a container is made and used. No other way leads to it while all its uses are harmless."""

    where: ast.AST
    is_local: bool
    made: list[ast.Assign]
    uses: list[ast.expr]
    parents: dict[int, ast.AST] = field(repr=False)

    def parent(self, node: ast.AST | None) -> ast.AST | None:
        return self.parents.get(id(node))

    def scope(self, node: ast.AST, context: Context) -> Scope:
        """The scope of the function around a node, without conditions."""
        return Scope(context.program, _around(node, self.parents, context))

    def use(self, node: ast.expr) -> str:
        return use_of(node, self.parents)


def _around(node: ast.AST, parents: dict[int, ast.AST], context: Context) -> FunctionInfo | None:
    here: ast.AST | None = node
    while here is not None and id(here) not in context.program.functions:
        here = parents.get(id(here))
    return context.program.functions[id(here)] if here is not None else None


def holders(context: Context, makes: Callable[[ast.expr], bool]) -> Iterator[Holder]:
    """Locals and private attributes whose every value is made by an expression that `makes` knows."""
    if not any(isinstance(s, ast.Import) and s.names[0].name == "collections" for s in context.tree.body):
        return
    nodes = walk(context.tree)
    stored = [n for n in nodes if isinstance(n, ast.Assign) and len(n.targets) == 1 and makes(n.value)]
    parents = {id(c): p for p in nodes if stored for c in children(p)}
    for target in [s.targets[0] for s in stored]:
        info = _around(target, parents, context)
        if info is None:
            continue
        named: list[ast.expr]
        if isinstance(target, ast.Name):
            where: ast.AST = info.node
            named = [n for n in walk(where) if isinstance(n, ast.Name) and n.id == target.id]
            private = target.id not in info.arguments and None not in info.assigned[target.id]
            private = private and all(_around(n, parents, context) is info for n in named)
        elif isinstance(target, ast.Attribute):
            where, taken = context.tree, {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
            named = [n for n in nodes if isinstance(n, ast.Attribute) and n.attr == target.attr]
            private = target.attr not in context.facts.public | taken
            private = private and all(_of_itself(n, _around(n, parents, context)) for n in named)
        else:
            continue
        stores = [n for n in named if not isinstance(n.ctx, ast.Load)]  # type: ignore[attr-defined]
        own = [s for s in stored if s.targets[0] in stores]
        if private and len(stores) == len(own):
            uses = [n for n in named if n not in stores]
            yield Holder(where, isinstance(target, ast.Name), own, uses, parents)


def _of_itself(node: ast.expr, info: FunctionInfo | None) -> bool:
    """Whether this is an attribute of the object that a method is called on."""
    if info is None or info.owner is None or info.arguments[:1] != [getattr(node.value, "id", "")]:  # type: ignore[attr-defined]
        return False
    return info.arguments[0] not in info.assigned


def countable(node: ast.expr, scope: Scope) -> bool:
    """A container that is not a dict: `Counter` counts its elements. A set that is written there would become
    what a loop goes through, which has another order."""
    return kind(scope.type_of(node)) in COUNTED_KINDS and not isinstance(node, ast.Set)


def counting_loop(counts: Value, source: Value, item: str) -> list[ast.stmt]:
    """The statements that count elements in a new dict."""
    return made("d = {}\nfor c in e: d[c] = d.get(c, 0) + 1", c=item, e=source, d=counts)


def _start(node: ast.expr) -> str:
    """What a `defaultdict` puts under a missing key; `Counter` for a counter; empty for all else."""
    if first(node, "collections.Counter()", COUNTER) is not None:
        return "Counter"
    for name, start in STARTS.items():
        makers = (f"collections.defaultdict({name})", f"collections.defaultdict(lambda: {start})")
        if first(node, *makers) is not None:
            return start
    return ""


@module(
    needs="a local or private attribute that is always a `defaultdict` or `Counter`, of which only entries, "
    "membership, length, truth and iteration matter; for entries that may be missing: 0 as default, unseen",
    sound="a missing entry is put in where a `defaultdict` puts it, and a `Counter` gives what `get` gives",
    fires="s: str\nimport collections\nd = collections.defaultdict(int)\nn = collections.Counter(s)\n"
    "g = collections.defaultdict(lambda: [])\nfor c in s:\n d[c] += n['a']\n g[c.lower()].append(c)\n"
    "return [dict(d), [k for k in d if d[k] > 2], max(n.values()), len(g)]",
    keeps="s: str\nimport collections\nd = collections.defaultdict(int)\ne = collections.Counter(s)\n"
    "for c in s:\n d[c] += d['a'] + 1\nreturn [dict(d), e]",
)
def default_to_get(context: Context) -> bool:
    """`d[k] += 1` on a `Counter` is `d[k] = d.get(k, 0) + 1`; on a `defaultdict` the entry is made first."""
    for holder in holders(context, lambda e: _start(e) != ""):
        change = _Plain(holder, context)
        if change.allowed():
            before = text(holder.made)
            change.visit(holder.where)
            context.record("default-to-get", before, text(change.made))
            return True
    return False


class _Plain(ast.NodeTransformer):
    """Puts a dict in the place of a `defaultdict` or `Counter`."""

    def __init__(self, holder: Holder, context: Context) -> None:
        self.holder, self.context = holder, context
        self.start = _start(holder.made[0].value)
        self.counter = self.start == "Counter"
        self.missing = value("0" if self.counter else self.start)
        self.made: list[ast.stmt] = []
        self.seen = False  # whether some use could tell an entry of 0 from one that is not there
        self.read = False  # whether an entry is read that may not be there
        self.new: dict[int, Callable[[Any], Any]] = {id(s): self._filled for s in holder.made}

    def visit(self, node: ast.AST) -> Any:
        change, node = self.new.get(id(node)), self.generic_visit(node)
        return change(node) if change is not None else node

    def _filled(self, node: ast.Assign) -> list[ast.stmt]:
        """The statements that make the dict."""
        p, target = pieces(COUNTER, node.value), node.targets[0]
        new = made("targets = {}", targets=target)
        if p is not None:
            new = counting_loop(target, p["e"], self.context.name("c"))
        self.made += new
        return new

    def allowed(self) -> bool:
        alike = all(_start(s.value) == self.start and self._countable(s) for s in self.holder.made)
        if not alike or not all(map(self._allowed, self.holder.uses)):
            return False
        return self.counter or not self.read or (self.start == "0" and not self.seen)

    def _countable(self, s: ast.Assign) -> bool:
        p, local = pieces(COUNTER, s.value), self.holder.is_local
        scope = self.holder.scope(s, self.context)
        return p is None or (local and countable(p["e"], scope) and not self._used(p["e"]))

    def _used(self, node: ast.AST) -> bool:
        return any(n in self.holder.uses for n in walk(node))

    def _allowed(self, use: ast.expr) -> bool:
        done, parent = self.holder.use(use), self.holder.parent(use)
        if done == "[]":
            return self._entry(parent)  # type: ignore[arg-type]
        self.seen, outer = True, self.holder.parent(parent)
        if done == "dict" and isinstance(outer, ast.Return) and self.holder.is_local:
            self.new[id(parent)] = lambda copied: copied.args[0]
        viewed = done in VIEWS and self.holder.use(outer) in READ  # type: ignore[arg-type]
        return viewed or done in READ - {"set"} or done in {"dict", ".get"}  # a set is ordered by its source

    def _entry(self, entry: ast.Subscript) -> bool:
        scope, outer, key = self.holder.scope(entry, self.context), self.holder.parent(entry), entry.slice
        written = Effects(heap_writes={root(entry.value)})
        grown = self._grown(entry)
        if isinstance(outer, ast.AugAssign) and outer.target is entry:
            seen, grown = scope.effects(outer.value), outer
            written.include(seen)
            number = is_int(scope.type_of(outer.value)) and not isinstance(outer.op, ast.Mult)
            if self.counter and not (number and (self.holder.is_local or seen.pure)):
                return False  # an entry may be a list, which `+=` changes, and `self.d` another dict
        if grown is not None:
            start = made(INSERT.format("v"), d=entry.value, k=entry.slice, v=self.missing)
            self.new[id(grown)] = self._added if self.counter else lambda s: [*start, s]
            stable = stable_key(key, scope) and not self._used(key)
            return stable and not disturbs(written, scope.effects(key), scope)
        if not isinstance(entry.ctx, ast.Load):
            return isinstance(outer, ast.Assign)
        if not self._present(entry):
            self.read = True
            self.new[id(entry)] = self._got
        return True

    def _got(self, entry: ast.Subscript) -> ast.expr:
        return value("d.get(k, v)", d=entry.value, k=entry.slice, v=self.missing)  # type: ignore[no-any-return]

    def _added(self, s: ast.AugAssign) -> ast.stmt:
        total = ast.BinOp(left=self._got(s.target), op=s.op, right=s.value)  # type: ignore[arg-type]
        return ast.Assign(targets=[s.target], value=total, lineno=0)

    def _grown(self, entry: ast.Subscript) -> ast.stmt | None:
        """`d[k].append(x)` as a statement."""
        if self.counter or not self.holder.use(entry).startswith("."):
            return None
        outer = self.holder.parent(self.holder.parent(self.holder.parent(entry)))
        return outer if isinstance(outer, ast.Expr) else None

    def _present(self, entry: ast.Subscript) -> bool:
        """Whether the key comes from going through the container itself, from which nothing is ever taken."""
        here = self.holder.parent(entry)
        while here is not None and not isinstance(here, (ast.stmt, ast.Lambda, *COMPREHENSIONS)):
            here = self.holder.parent(here)
        through = [[g.target, g.iter] for g in getattr(here, "generators", ())]
        called = {text(n.func) for n in walk(here or []) if isinstance(n, ast.Call)}
        one = self.holder.is_local or called <= QUIET  # which put no other container in its place
        return one and len(self.holder.made) == 1 and same(through, [[entry.slice, entry.value]])


QUIET = frozenset(("len", "sum", "str", "list", "tuple", "set", "any", "all"))
# Methods of a deque, and with how many arguments a list does the same.
SHARED = {"append": 1, "pop": 0, "clear": 0, "extend": 1, "remove": 1, "reverse": 0, "count": 1, "popleft": 0}


@module(
    needs="a local or private attribute that is always a `deque` without `maxlen`, used only by methods that "
    "a list has too, at its ends, by index, for membership, length and truth",
    sound="a list does the same at its end, and with index 0 at its start; time is not observed",
    fires="xs: list[int]\nimport collections\nq = collections.deque([0])\nr = []\nfor x in xs:\n"
    " q.append(x)\n if len(q) > 3:\n  r.append(q.popleft())\nreturn [r, list(q), q[-1]]",
    keeps="xs: list[int]\nimport collections\nq = collections.deque(maxlen=2)\np = collections.deque(xs)\n"
    "for x in p:\n q.append(x)\n p.append(x)\nreturn list(q) + list(p)",
)
def deque_to_list(context: Context) -> bool:
    """`d.popleft()` of a `deque` is `d.pop(0)` of a list."""
    makers = ("collections.deque()", "collections.deque(e)")
    for holder in holders(context, lambda e: first(e, *makers) is not None):
        inside = walk([s.value for s in holder.made])
        if any(u in inside or not _as_list(u, holder) for u in holder.uses):
            continue
        before = text(holder.made)
        for s in holder.made:
            p = pieces(makers[1], s.value)
            given = value("[]") if p is None else p["e"]
            s.value = given if isinstance(given, ast.List) else call("list", given)
        for use in holder.uses:
            if holder.use(use) == ".popleft":
                method: Any = holder.parent(use)
                method.attr, holder.parent(method).args = "pop", [value("0")]  # type: ignore[union-attr]
        context.record("deque-to-list", before, text(holder.made))
        return True
    return False


def _as_list(use: ast.expr, holder: Holder) -> bool:
    done = holder.use(use)
    if not done.startswith("."):  # of a deque that changes while a loop goes through it Python makes an error
        return done == "[]" or done in READ - {"for"}
    called: Any = holder.parent(holder.parent(use))
    shared = not called.keywords and len(called.args) == SHARED.get(done[1:], -1)
    return shared and not (done == ".extend" and any(n in holder.uses for n in walk(called.args)))


def _stored(found: Found, scope: Scope) -> Any:
    return scope.effects(made("d[k] = 0", **found))


def _again(found: Found, where: Where) -> bool:
    key, scope = found["k"], where.scope
    stable = stable_key(key, scope)  # type: ignore[arg-type]
    return stable and not disturbs(_stored(found, scope), scope.effects(key), scope)


# A dict, and a key that can be evaluated again after its entry was stored.
ENTRY = [
    of_kind("dict", "d"),
    when.plain("d"),
    Condition("`k` has no effects and gives the same key again", _again, own=frozenset({"d[k]"})),
]


def unseen(item: str, whole: str = "") -> Condition:
    """What goes into an entry cannot tell that the entry was made first, nor leave it behind by raising."""

    def holds(found: Found, where: Where) -> bool:
        scope, seen = where.scope, where.scope.effects(found[item])
        if whole and int_value(found[item]) is not None:  # type: ignore[arg-type]
            return True
        if not seen.pure or disturbs(_stored(found, scope), seen, scope):
            return False
        return mine(found["d"], where) or scope.effects(value(whole or item, **found)).total  # type: ignore

    words = f"`{item}` has no effects, reads nothing of `d`, and cannot raise where `d` outlives the function"
    return Condition(words, holds)


KEEPING = ("d = {}", "return d", "d[k] = []", "d[k] = d.get(k, []) + [x]", "d[k].append(x)")


def _lists_kept(found: Found, where: Where) -> bool:
    """Whether nothing is done with a dict but what neither hands out nor brings in one of its lists."""
    d: Any = found["d"]
    if where.place is None or not mine(d, where):
        return False
    inside = walk(where.place.info.node)
    known = [(s, first(s, *KEEPING, d=d)) for s in inside]
    plain = [s for s, p in known if p and not mentions([p[n] for n in "kx" if n in p], {d.id})]
    uses = {id(n) for n in inside if isinstance(n, ast.Name) and n.id == d.id}
    return uses <= {id(n) for n in walk(plain)}


COUNTED = "{{f: g for target in {}.items() if c}}"  # a use of a counter that a dict answers alike
rewrite(
    "counter-to-loop",
    *(
        (last + use, f"counting\n{last}{new}")
        for last in ("return ", "targets = ")
        for use, new in ((f"dict({COUNTER})", "d"), (COUNTED.format(COUNTER), COUNTED.format("d")))
    ),
    needs=[each("a container that is not a dict", ("e",), lambda e, where: countable(e, where.scope))],
    made={
        "d": fresh("d"),
        "counting": Made(
            "a loop that counts the elements of `e` in a new dict `d`",
            lambda found, where: counting_loop(found["d"], found["e"], where.name("c", found)),
            like=COUNTER,
        ),
    },
    because="a counter adds one for each element in turn, starting from nothing",
    fires="s: str\nimport collections\ne = dict(collections.Counter(c.lower() for c in s))\n"
    "return {k: n + len(e) for k, n in collections.Counter(s).items() if n > 1}",
    keeps="s: str\nimport collections\nreturn collections.Counter(s)['a']",
)

METHODS = ("append", "add", "extend", "update", "remove", "discard")
rewrite(
    "insert-if-missing",
    *((f"d.setdefault(k, v).{m}(x)", f"{INSERT.format('v')}\nd[k].{m}(x)") for m in METHODS),
    *((before, INSERT.format("v")) for before in ("d.setdefault(k, v)", "d[k] = d.get(k, v)")),
    needs=ENTRY,
    because="`setdefault` stores its value exactly where the key is missing, and gives the entry",
    fires="xs: list[str]\nd = {}\ne = {}\ng = {}\nfor x in xs:\n d.setdefault(len(x), []).append(x)\n"
    " e.setdefault(x, len(e))\n g[x] = g.get(x, 3)\nreturn [d, e, g]",
    keeps="xs: list[str]\nd = {}\nfor x in xs:\n d.setdefault(x, 1 // len(x))\nreturn d",
)

CHOICES = ("if k in d: {found}\nelse: d[k] = {first}", "if k not in d: d[k] = {first}\nelse: {found}")
APPEND, COUNT = "d[k].append(x)", "d[k] = d[k] + e"
rewrite(
    "append-to-entry",
    *((c.format(found=APPEND, first="[x]"), f"{INSERT.format('[]')}\n{APPEND}") for c in CHOICES),
    (
        "d[k] = d.get(k, []) + [x]",
        f"{INSERT.format('[]')}\n{APPEND}",
        [Condition("`d` is local, empty at first, and nobody has one of its lists", _lists_kept)],
    ),
    needs=[*ENTRY, unseen("x")],
    because="a list of one element is an empty one with it appended; a list nobody else has may grow",
    fires="s: str\nd = {}\nfor x in s:\n if x in d:\n  d[x].append(x)\n else:\n  d[x] = [x]\nreturn d",
    keeps="s: str\nd = {}\ne = {}\nr = []\nfor x in s:\n if x in d:\n  d[x].append(len(d))\n else:\n"
    "  d[x] = [len(d)]\n e[x] = e.get(x, []) + [x]\n r.append(e[x])\nreturn [d, r]",
)
rewrite(
    "count-by-get",
    (f"{INSERT.format('v')}\n{COUNT}", "d[k] = d.get(k, v) + e", [when.number("v")]),
    *((c.format(found=COUNT, first="v"), "d[k] = d.get(k, w) + e") for c in CHOICES),
    *(
        (
            c.format(found=COUNT, first="e"),
            "d[k] = d.get(k, 0) + e",
            [each("type int, not bool", ("e",), lambda e, where: where.scope.type_of(e) == "int")],
        )
        for c in CHOICES
    ),
    needs=[*ENTRY, when.immutable("k"), unseen("e", "d.get(k, 0) + e")],
    made={"w": folded("v - e")},
    because="`get` gives the value under the key, or the default that would have been stored there first",
    fires="s: str\nd = {}\ne = {}\ng = {}\nfor c in s:\n if c in d:\n  d[c] = d[c] + 1\n else:\n  d[c] = 1\n"
    " if c not in e:\n  e[c] = 5\n e[c] += 2\n if c in g:\n  g[c] = g[c] + len(s)\n else:\n  g[c] = len(s)\n"
    "return [d, e, g]",
    keeps="s: str\nd = {}\nfor c in s:\n if c in d:\n  d[c] = d[c] + d[c]\n else:\n  d[c] = 1\nreturn d",
)
