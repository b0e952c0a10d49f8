"""Calls that reach the branches of a program and the boundaries of its comparisons, found by running it.

The program is run with probes, in the sandbox, by a search that is guided by what they tell (`search`). The
calls that it suggests are made to both programs as they are. How many branches were reached is on record. A
program could deceive the search about its own branches: what it tells is a lead, and never evidence.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skyt.contracts import codec
from skyt.contracts.contract import Contract, EntryPoint
from skyt.contracts.domain import Call, Operation, in_domain
from skyt.contracts.kinds.containers import ListSpec
from skyt.contracts.kinds.numbers import FloatSpec, IntSpec
from skyt.contracts.specs import Spec
from skyt.sandbox.pool import SandboxPool
from skyt.text.parsing import parse

BUDGET = 400  # calls that the search may make
MAX_NODES = 4000  # of a program that gets probes
MAX_CONSTANTS = 20  # of a program that fill texts and lists
MAX_TEXT = 1 << 16  # of what the search gives: what hostile text can cost to decode has this bound
ENOUGH = 0.9  # of the branches: below it, evidence is weak
_EXPLORE = EntryPoint(kind="function", name="explore")
_BLOCKS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ExceptHandler, ast.match_case)
_KNOWN: dict[tuple[str, str, int], Explored] = {}
_LOCK = threading.Lock()


@dataclass(frozen=True)
class Explored:
    """What a search found: calls, and how many outcomes of the program's tests all calls reach."""

    calls: tuple[Call, ...] = ()
    reached: int = 0
    total: int = 0

    @property
    def enough(self) -> bool:
        return self.reached >= ENOUGH * self.total and self.total > 0

    def __str__(self) -> str:
        return f"{self.reached} of {self.total}" if self.total else "unknown"


def explored(
    code: str, contract: Contract, calls: Sequence[Call], outside: Sequence[Call], pool: SandboxPool
) -> Explored:
    """Calls of the domain that reach more of a program than these: the same ones for the same program."""
    key = (contract.hash, code, len(calls))
    with _LOCK:
        known = _KNOWN.get(key)
    if known is None:
        known = _explored(code, contract, calls, outside, pool)
        with _LOCK:
            if len(_KNOWN) >= 4096:
                _KNOWN.clear()
            _KNOWN[key] = known
    return known


def _explored(
    code: str, contract: Contract, calls: Sequence[Call], outside: Sequence[Call], pool: SandboxPool
) -> Explored:
    probed = with_probes(code)
    if probed is None:
        return Explored()
    program, probes = probed
    bounds = [_bounds(spec) for spec in contract.domain.parameters.values()]
    settings = [probes, _constants(code), bounds, BUDGET]
    given = [program, contract.entry_point.name, settings, _plain(calls), _plain(outside)]
    search = Path(__file__).with_name("search.py").read_text(encoding="utf-8")
    (result,) = pool.run(search, _EXPLORE, [Call(tuple(given))])
    if result.kind != "value" or len(result.text) > MAX_TEXT:
        return Explored()
    try:
        reached, total, rows = codec.loads(result.text)
        found = [_call(row) for row in rows]
    except (TypeError, ValueError):
        return Explored()
    if type(reached) is not int or type(total) is not int:
        return Explored()
    return Explored(tuple(call for call in found if in_domain(contract, call)), reached, total)


def _plain(calls: Sequence[Call]) -> list[Any]:
    return [
        [
            list(call.args),
            call.kwargs,
            call.operations and [[op.method, list(op.args)] for op in call.operations],
        ]
        for call in calls
    ]


def _call(row: Any) -> Call:
    args, kwargs, operations = row
    made = None if operations is None else tuple(Operation(str(m), tuple(given)) for m, given in operations)
    return Call(tuple(args), {str(name): value for name, value in kwargs.items()}, made)


def _constants(code: str) -> list[Any]:
    found = [node.value for node in ast.walk(parse(code)) if isinstance(node, ast.Constant)]
    return list(dict.fromkeys(value for value in found if type(value) in (int, str)))[:MAX_CONSTANTS]


def _bounds(spec: Spec) -> list[Any]:
    """Between what a number, or the numbers of a list, may lie."""
    inside = spec.elements if isinstance(spec, ListSpec) else None
    ends = [
        (part.min, part.max) if isinstance(part, IntSpec | FloatSpec) else (None, None)
        for part in (spec, inside)
    ]
    return [end for pair in ends for end in pair]


def with_probes(code: str) -> tuple[str, dict[int, str]] | None:
    """The program with probes, and what each of them is: a comparison by its operator, a test, or a mark."""
    try:
        tree = parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        return None
    probes = _Probes()
    return ast.unparse(ast.fix_missing_locations(probes.visit(tree))), probes.kinds


class _Probes(ast.NodeTransformer):
    """Puts a probe into every comparison, test, function, handler and case."""

    def __init__(self) -> None:
        self.kinds: dict[int, str] = {}

    def _new(self, kind: str) -> ast.Constant:
        self.kinds[len(self.kinds)] = kind
        return ast.Constant(len(self.kinds) - 1)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) > 1:
            return node
        kind = type(node.ops[0]).__name__
        return _call_of("_compare_", self._new(kind), node.left, ast.Constant(kind), node.comparators[0])

    def _test(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Constant) or (isinstance(node, ast.Compare) and len(node.ops) == 1):
            return self.visit(node)  # type: ignore[no-any-return]
        return _call_of("_test_", self._new("test"), self.visit(node))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            test, node.test = node.test, ast.Constant(True)
            super().generic_visit(node)
            node.test = self._test(test)
            return node
        if isinstance(node, ast.comprehension):
            tests, node.ifs = node.ifs, []
            super().generic_visit(node)
            node.ifs = [self._test(test) for test in tests]
            return node
        if isinstance(node, ast.BoolOp):
            node.values = [self._test(value) for value in node.values]
            return node
        super().generic_visit(node)
        if isinstance(node, _BLOCKS):
            node.body.insert(0, ast.Expr(_call_of("_mark_", self._new("mark"))))
        return node


def _call_of(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])
