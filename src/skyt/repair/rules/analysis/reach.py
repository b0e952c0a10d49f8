"""Reach: which statements of a module a call of the entry point can depend on, and which local names may
still be read after a statement, on any path, also by its jumps."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Mapping, Sequence

from skyt.repair.rules.analysis.syntax import DEFINITIONS, bound_anywhere, is_true, read_names, stored_names
from skyt.repair.rules.analysis.trees import COMPREHENSIONS, NESTED, SCOPES, SHALLOW, children, text, walk

IDLE = (ast.If, ast.Expr, ast.Assign, ast.For, ast.Assert, ast.With, ast.Pass, *DEFINITIONS)  # perhaps
REUSABLE = (*DEFINITIONS, ast.Import, ast.ImportFrom)
Names = frozenset[str]
EMPTY: Names = frozenset()


class Reach:
    """What the entry point needs of a module: names, and the statements that stay because of them. (A program
    with a function that keeps something in a variable of the module is outside the language.)"""

    def __init__(self, tree: ast.Module, entry: str) -> None:
        self.uses: dict[str, set[str]] = {}
        for s in tree.body:
            for name in {s.name} if isinstance(s, DEFINITIONS) else stored_names(s):
                self.uses.setdefault(name, set()).update(free_names(s))
        self.definitions = {s.name for s in tree.body if isinstance(s, DEFINITIONS)}
        self.kept = tree.body
        self.needed, more = set[str](), closure({entry}, self.uses)
        while more != self.needed:
            self.needed = more
            self.kept = [s for s in tree.body if not self._idle(s)]
            plain = [s for s in self.kept if not isinstance(s, REUSABLE)]
            registered = {s.name for s in self.kept if isinstance(s, DEFINITIONS)}
            more = closure(self.needed | read_names(plain) | registered, self.uses)

    def _idle(self, s: ast.stmt) -> bool:
        """Whether a statement neither binds nor can change what is needed."""
        run = at_once(s)
        if isinstance(s, DEFINITIONS):
            parents = [*getattr(s, "bases", ()), *getattr(s, "keywords", ())]
            seen = read_names(s.decorator_list) & self.uses.keys()
            if s.name in self.needed or seen | (read_names(parents) & self.definitions):
                return False
        targets = [n for n in walk(run) if isinstance(getattr(n, "ctx", None), ast.Store | ast.Del)]
        if not isinstance(s, IDLE) or any(isinstance(n, ast.Attribute | ast.Subscript) for n in targets):
            return False
        bound = {n.id for n in targets if isinstance(n, ast.Name)} | stored_names(run)
        handled = closure(set().union(*map(free_names, run)), self.uses, self.needed & self.definitions)
        return not self.needed & (bound | (handled - self.definitions))


def at_once(s: ast.stmt) -> list[ast.AST]:
    """What of a statement runs at once: of a function its defaults and annotations, of a demo nothing."""
    if isinstance(s, ast.If) and not s.orelse and text(s.test) == "__name__ == '__main__'":
        return []
    if isinstance(s, ast.ClassDef):
        return [*s.bases, *s.keywords, *s.decorator_list, *(n for m in s.body for n in at_once(m))]
    if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef):
        return [n for n in (s.args, s.returns, *s.decorator_list) if n is not None]
    return [s]


def loading(s: ast.stmt) -> list[ast.stmt]:
    """What runs while the module loads, as statements of a function; of definitions the calls alone."""
    run = at_once(s)
    calls = [n for x in run if not isinstance(x, ast.stmt) for n in walk(x) if isinstance(n, ast.Call)]
    whole = [ast.Expr(x.test) if isinstance(x, ast.Assert) else x for x in run if isinstance(x, ast.stmt)]
    return [*whole, *map(ast.Expr, calls)]


def closure(names: Iterable[str], uses: Mapping[str, set[str]], without: Container[str] = ()) -> set[str]:
    """These names and all that they use, as far as that is known."""
    found, pending = set[str](), [*names]
    while pending:
        name = pending.pop()
        if name in uses and name not in found and name not in without:
            found.add(name)
            pending.extend(uses[name])
    return found


def free_names(node: ast.AST) -> set[str]:
    """Names that mean something outside this node."""
    found, own, outside = set[str](), set[str](), list[ast.AST]()
    for n in walk(children(node) if node.__class__ in SCOPES else node, SHALLOW):
        if n.__class__ in SCOPES:
            found |= free_names(n)
        elif isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
            found.add(n.id)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        body = node.body if isinstance(node.body, list) else [node.body]
        own = {a.arg for a in walk(node.args) if isinstance(a, ast.arg)} | stored_names(body)
        outside = [node.args, *getattr(node, "decorator_list", [])]
    elif isinstance(node, COMPREHENSIONS):
        own = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
        outside = [node.generators[0].iter]
    declared = [n.names for n in walk(node) if isinstance(n, ast.Global | ast.Nonlocal)]
    return (found - own).union(*declared, *map(free_names, outside))


class Liveness:
    """Live names after each statement of a function, by its identity."""

    def __init__(self, function: ast.FunctionDef, strict: bool = False) -> None:
        """`strict` leaves out names kept alive by nested functions: it asks what is surely read too early."""
        self.after: dict[int, Names] = {}
        self._read: dict[int, Names] = {}
        nested = [n for n in walk(function) if n.__class__ in NESTED and n is not function]
        captured = frozenset(n.id for n in walk(nested) if isinstance(n, ast.Name))
        self.always: Names = EMPTY if strict else captured
        self.entry = self.always | self._block(function.body, EMPTY, {})[0]

    def _block(self, body: Sequence[ast.stmt], out: Names, ends: Mapping[type, Names]) -> tuple[Names, Names]:
        """(live before a block, live where its jumps lead), by what is live behind it and at the `ends`."""
        away = EMPTY
        for s in reversed(body):
            before, left = self._statement(s, out, ends)
            self.after[id(s)] = EMPTY if isinstance(s, ast.Return | ast.Raise) else out | left
            out, away = before, away | left
        return out, away

    def _statement(self, s: ast.stmt, out: Names, ends: Mapping[type, Names]) -> tuple[Names, Names]:
        match s:
            case ast.Return() | ast.Raise():
                return self._reads(s), EMPTY
            case ast.Break() | ast.Continue():
                return ends[s.__class__], ends[s.__class__]
            case ast.If(test=test, body=body, orelse=orelse):
                then, left = self._block(body, out, ends)
                other, more = self._block(orelse, out, ends)
                return then | other | self._reads(test), left | more
            case ast.While(test=test, body=body, orelse=orelse):
                after, left = self._block(orelse, out, ends)
                after = EMPTY if is_true(test) else after  # `while True` is left by `break` alone
                return self._loop(body, self._reads(test) | after, EMPTY, out), left
            case ast.For(target=target, iter=source, body=body, orelse=orelse):
                after, left = self._block(orelse, out, ends)
                if any(isinstance(n, ast.GeneratorExp) for n in walk(source)):  # which reads in every round
                    after |= self._reads(source)
                return self._loop(body, after, stored_names(target), out) | self._reads(source), left
            case ast.FunctionDef(name=name):
                return (out | (self._reads(s) - bound_anywhere(s))) - {name}, EMPTY
            case ast.AugAssign(target=target):  # which reads its target
                return out | self._reads(s) | stored_names(target), EMPTY
        return (out - stored_names(getattr(s, "targets", ()))) | self._reads(s), EMPTY

    def _reads(self, node: ast.AST) -> Names:
        """Names read inside, remembered: the body of a loop is looked at more than once."""
        found = self._read.get(id(node))
        if found is None:
            found = self._read[id(node)] = frozenset(read_names(node))
        return found

    def _loop(self, body: Sequence[ast.stmt], new: Names, bound: set[str] | Names, out: Names) -> Names:
        """What is live at the head of a loop: `new` by its test or its end, `bound` is set there."""
        while True:
            head = new
            new = head | (self._block(body, head, {ast.Break: out, ast.Continue: head})[0] - bound)
            if new == head:
                return head


def unbound_name(tree: ast.Module) -> str | None:
    """A local that may be read before it has a value, in any function; None if there is none. Rules take for
    granted that reading a local never fails, so programs where it may are left alone."""
    for function in walk(tree):
        if isinstance(function, ast.FunctionDef):
            stored, arguments = stored_names(function.body), {a.arg for a in function.args.args}
            if early := (Liveness(function, strict=True).entry & stored) - arguments:
                return min(early)
    return None
