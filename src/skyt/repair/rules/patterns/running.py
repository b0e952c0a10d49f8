"""Templates executed symbolically: what happens, in its order, given how the conditions turn out.

Of a loop one round is executed: a way ends where the next round begins. Two loops whose rounds do the same
things in the same order, and which are left in the same way, do the same. Blocks that a name stands for may
leave by `break` or `continue` where the program's block does.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from skyt.repair.rules.patterns.template import FIXED, Template, block_name

# A name of the template; `x =` or `d[k] =` for a store; what an operation on names does, by its text; the
# start of a loop; a jump.
Event = str
LOOP = "loop "
DOES = "do "
OPERATIONS = (ast.BinOp, ast.Subscript, ast.Call, ast.Compare, ast.UnaryOp)
JUMPS: dict[type[ast.stmt], str] = {ast.Break: "break", ast.Continue: "continue"}
ENDS = frozenset({*JUMPS.values(), "return", "next round"})
Comprehension = ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp
COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)


def elements(made: Comprehension) -> list[ast.expr]:
    """What a comprehension evaluates in each round."""
    return [made.key, made.value] if isinstance(made, ast.DictComp) else [made.elt]


class _EndError(Exception):
    """Nothing of the template runs after this."""


@dataclass(frozen=True)
class Given:
    """What the conditions of a rule say about how its templates run."""

    leaving: frozenset[str] = frozenset()  # blocks that control never runs out of
    known: Mapping[Event, bool] = field(default_factory=dict)  # conditions that always turn out so
    own: frozenset[str] = frozenset()  # variables that nothing else sees
    end: str = ""  # what happens at the end of the block anyway
    lazily: bool = False  # elements of a list can be made when a loop asks for them
    jumps: frozenset[tuple[str, str]] = frozenset()  # (block, `break` or `continue` that it has)


class Run:
    """One execution of a template, with given answers to its conditions."""

    def __init__(self, given: Given, answers: Mapping[Event, bool]) -> None:
        self.given, self.answers = given, answers
        self.events: list[Event] = []
        self.in_loops: set[Event] = set()
        self.asked: dict[Event, bool] = {}
        self.loops = 0

    def through(self, template: Template) -> Run:
        try:
            self._end(self.block(template.body) or self.given.end)
        except _EndError:
            return self

    def _end(self, event: Event) -> NoReturn:
        if event:
            self.events.append(event)
        raise _EndError

    def add(self, event: Event) -> None:
        self.events.append(event)
        if self.loops:
            self.in_loops.add(event)

    def ask(self, key: Event) -> bool:
        self.asked[key] = self.answers.get(key, False)
        return self.asked[key]

    def block(self, body: list[ast.stmt]) -> str:
        """How control leaves: `break`, `continue`, or nothing where it runs on."""
        return next((jump for s in body if (jump := self.statement(s))), "")

    def statement(self, s: ast.stmt) -> str:
        name = block_name(s)
        if name is not None:
            return self._pieces(name)
        if s.__class__ in JUMPS:
            return JUMPS[s.__class__]
        if isinstance(s, ast.If):
            return self.block(s.body if self.truth(s.test) else s.orelse)
        if isinstance(s, ast.Return):
            if s.value is not None:
                self.value(s.value)
            self._end("return")
        if isinstance(s, ast.For | ast.While):
            return self._loop(s)
        if isinstance(s, ast.Assign):
            self.value(s.value)
            for t in s.targets:
                self.store(t)
        elif isinstance(s, ast.AugAssign):
            self.value(ast.BinOp(s.target, s.op, s.value))
            self.store(s.target)
        elif isinstance(s, ast.Expr):
            self.value(s.value)
        elif not isinstance(s, ast.Pass):
            raise ValueError(f"{ast.unparse(s)}: no template has this")
        return ""

    def _pieces(self, name: str) -> str:
        """A name that stands for statements."""
        self.add(name)
        for block, jump in sorted(self.given.jumps):
            if block == name and self.ask(f"{name} leaves by {jump}"):
                return jump
        if name in self.given.leaving:
            self._end("")
        return ""

    def _loop(self, s: ast.For | ast.While) -> str:
        made = s.iter if isinstance(s, ast.For) else None
        fused = isinstance(made, ast.GeneratorExp) or (isinstance(made, ast.ListComp) and self.given.lazily)
        if fused:
            going = self._rounds(made)  # type: ignore[arg-type]
        else:
            going = self._head(made, s.test if isinstance(s, ast.While) else None)
        if not going:
            return self.block(s.orelse)
        if isinstance(s, ast.For):
            if fused:
                self.value(made.elt)  # type: ignore[union-attr]
            self.store(s.target)
        if self.block(s.body) != "break":
            self._end("next round")
        return ""

    def _head(self, iterated: ast.expr | None, test: ast.expr | None = None) -> bool:
        """The start of a loop; whether a round begins."""
        if iterated is not None:
            self.value(iterated)
        self.events.append(LOOP + str(self.loops))
        self.loops += 1
        return self.ask(self._round()) if test is None else self.truth(test)

    def _round(self) -> Event:
        """The condition that the latest loop goes on."""
        return f"round of {LOOP}{self.loops}"

    def _rounds(self, made: Comprehension) -> bool:
        """A comprehension up to its element: whether a round begins."""
        generator = made.generators[0]
        if not self._head(generator.iter):
            return False
        self.store(generator.target)
        if not all(map(self.truth, generator.ifs)):
            self._end("next round")
        return True

    def truth(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return bool(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self.truth(node.operand)
        if isinstance(node, ast.BoolOp):
            conjunction = isinstance(node.op, ast.And)
            for value in node.values:
                if self.truth(value) is not conjunction:
                    return not conjunction
            return conjunction
        self.value(node)
        counts = any(isinstance(n, ast.Name) and n.id in self.given.own for n in ast.walk(node))
        return self.ask(self._round() if counts else ast.unparse(node))

    def store(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            for part in target.elts:
                self.store(part)
            return
        event = f"{ast.unparse(target)} ="
        if ast.unparse(target) in self.given.own:
            self.in_loops.add(event)
        elif not isinstance(target, ast.Constant):
            self.add(event)

    def value(self, node: ast.expr) -> None:
        if isinstance(node, ast.Name):
            if node.id not in FIXED and node.id not in self.given.own:
                self.add(node.id)
        elif isinstance(node, ast.BoolOp):
            conjunction = isinstance(node.op, ast.And)
            for value in node.values[:-1]:
                if self.truth(value) is not conjunction:
                    return
            self.value(node.values[-1])
        elif isinstance(node, ast.IfExp):
            self.value(node.body if self.truth(node.test) else node.orelse)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.truth(node)
        elif isinstance(node, ast.Compare) and len(node.ops) > 1:
            self._chain(node)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], COMPREHENSIONS):
            self._consumed(node.func, node.args[0])
        elif isinstance(node, COMPREHENSIONS):
            self._consumed(None, node)
        else:
            self._parts(node)
            if isinstance(node, OPERATIONS) and not self._is_own(node):
                self.add(DOES + ast.unparse(node))

    def _parts(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
            elif isinstance(child, ast.keyword):
                self.value(child.value)

    def _is_own(self, node: ast.expr) -> bool:
        """Whether something is about what is the rule's business alone; None stands for a new variable."""
        own = {*self.given.own, "None"}
        return any(isinstance(n, ast.expr) and ast.unparse(n) in own for n in ast.walk(node))

    def _chain(self, node: ast.Compare) -> None:
        self.value(node.left)
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            self.value(right)
            if not self.ask(ast.unparse(ast.Compare(left, [op], [right]))):
                return
            left = right

    def _consumed(self, consumer: ast.expr | None, made: Comprehension) -> None:
        """A comprehension and what uses it up; `any` and `all` leave it at the first element that decides."""
        if consumer is not None:
            self.value(consumer)
        if not self._rounds(made):
            return
        if isinstance(consumer, ast.Name) and consumer.id in {"any", "all"}:
            if self.truth(*elements(made)) is (consumer.id == "any") and isinstance(made, ast.GeneratorExp):
                return
        else:
            for element in elements(made):
                self.value(element)
        self._end("next round")
