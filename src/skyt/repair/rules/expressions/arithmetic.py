"""Integer arithmetic: a linear normal form, constants folded, midpoints and squares in one way."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.effects.effects import conflict
from skyt.repair.rules.analysis.scope import Scope
from skyt.repair.rules.analysis.trees.syntax import int_value, number
from skyt.repair.rules.analysis.trees.trees import clone, same
from skyt.repair.rules.analysis.values.types import is_int
from skyt.repair.rules.expressions.comparisons import rank
from skyt.repair.rules.patterns.conditions import at_least, at_most, integer
from skyt.repair.rules.patterns.rewriting import rewrite
from skyt.repair.rules.registry import expression

Linear = tuple[
    list[tuple[ast.expr, int]], int
]  # atoms with coefficients, in order of appearance, and a constant


def linear(node: ast.expr, scope: Scope) -> Linear | None:
    """An int expression as a sum of atoms with integer coefficients."""
    if not is_int(scope.type_of(node)):
        return None
    value = int_value(node)
    if value is not None:
        return [], value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _scaled(linear(node.operand, scope), -1)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Add | ast.Sub):
            a, b = linear(node.left, scope), linear(node.right, scope)
            return _sum(a, b if isinstance(node.op, ast.Add) else _scaled(b, -1))
        if (scaled := _factor(node)) is not None:
            return _scaled(linear(scaled[0], scope), scaled[1])
    return [(node, 1)], 0


LINEAR = (ast.Add, ast.Sub, ast.USub)


def _factor(node: ast.expr) -> tuple[ast.expr, int] | None:
    """(x, k) of `x * k` or `k * x` with a constant."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return None
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if (factor := int_value(other)) is not None:
            return one, factor
    return None


def _scaled(a: Linear | None, factor: int) -> Linear | None:
    return None if a is None else ([(atom, k * factor) for atom, k in a[0] if factor], a[1] * factor)


def _sum(a: Linear | None, b: Linear | None) -> Linear | None:
    if a is None or b is None:
        return None
    atoms = list(a[0])
    for atom, k in b[0]:
        for i, (other, j) in enumerate(atoms):
            if same(atom, other):
                atoms[i] = (other, j + k)
                break
        else:
            atoms.append((atom, k))
    return [(atom, k) for atom, k in atoms if k], a[1] + b[1]


def written(form: Linear, scope: Scope) -> ast.expr:
    """The canonical expression of a linear form: positive atoms in order, then negative ones, then the
    constant."""
    atoms, constant = form
    if _movable([atom for atom, _ in atoms], scope):
        atoms = sorted(atoms, key=lambda item: (item[1] < 0, rank(item[0], scope)))
    result: ast.expr | None = None
    for atom, k in atoms:
        term = clone(atom)
        if abs(k) != 1:
            term = ast.BinOp(left=term, op=ast.Mult(), right=number(abs(k)))
        if result is None:
            result = term if k > 0 else ast.UnaryOp(op=ast.USub(), operand=term)
        else:
            result = ast.BinOp(left=result, op=ast.Add() if k > 0 else ast.Sub(), right=term)
    if result is None:
        return number(constant)
    if constant:
        op = ast.Add() if constant > 0 else ast.Sub()
        result = ast.BinOp(left=result, op=op, right=number(abs(constant)))
    return result


def _movable(atoms: list[ast.expr], scope: Scope) -> bool:
    """Whether the terms can be evaluated in any order."""
    seen = [scope.effects(a) for a in atoms]
    return not any(conflict(a, b, scope) for i, a in enumerate(seen) for b in seen[i + 1 :])


def difference(a: ast.expr, b: ast.expr, scope: Scope) -> ast.expr | None:
    form = _sum(linear(a, scope), _scaled(linear(b, scope), -1))
    return None if form is None else written(form, scope)


@expression(
    ast.BinOp,
    ast.UnaryOp,
    needs="operands of type int; terms without effects that can be evaluated in any order",
    sound="integer addition is associative and commutative, multiplication distributes over it, and both are "
    "exact",
    fires=("n: int", "return 1 + n + 2"),
    keeps=("n: float", "return 1 + n + 2"),
)
def linear_form(node: ast.expr, scope: Scope, boolean: bool) -> ast.expr | None:
    if int_value(node) is not None or not (isinstance(node.op, LINEAR) or _factor(node) is not None):  # type: ignore[attr-defined]
        return None
    form = linear(node, scope)
    if form is None:
        return None
    lost = [a for a in _atoms(node, scope) if not any(same(a, b) for b, _ in form[0])]
    if not all(scope.effects(a).total for a in lost) or not all(scope.effects(a).pure for a, _ in form[0]):
        return None
    new = written(form, scope)
    return None if same(new, node) else new


def _atoms(node: ast.expr, scope: Scope) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return _atoms(node.left, scope) + _atoms(node.right, scope)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _atoms(node.operand, scope)
    if (scaled := _factor(node)) is not None:
        return _atoms(scaled[0], scope)
    return [] if int_value(node) is not None else [node]


rewrite(
    "one-quotient",
    ("(b - a) // 2 + a", "(a + b) // 2"),
    ("a + (b - a) // 2", "(a + b) // 2"),
    needs=[integer("a", "b")],
    because="x + y // 2 is (2 * x + y) // 2 for integers, exactly",
    fires=("a: int; b: int", "return a + (b - a) // 2"),
    keeps=("a: float; b: float", "return a + (b - a) // 2"),
)
rewrite(
    "integer-root",
    *((f"int({root})", "math.isqrt(n)") for root in ("n ** 0.5", "math.sqrt(n)")),
    *((f"math.floor({root})", "math.isqrt(n)") for root in ("n ** 0.5", "math.sqrt(n)")),
    needs=[at_least(0, "n"), at_most(2**50, "n")],
    because="below 2**52 the double nearest to a square root never rounds past an integer",
    fires=("n: int >= 0 <= 1000000", "return int(n ** 0.5)"),
    keeps=("n: int >= 0", "return int(n ** 0.5)"),
)
rewrite(
    "absolute",
    ("abs(x)", "x"),
    needs=[at_least(0, "x")],
    because="a number that is not negative is its own absolute value",
    fires=("n: int >= 0", "return abs(n)"),
    keeps=("n: int", "return abs(n)"),
)
rewrite(
    "absolute-of-negative",
    ("abs(x)", "-x"),
    needs=[at_most(0, "x")],
    because="the absolute value of a number that is not positive is its negative",
    fires=("n: int <= 0", "return abs(n)"),
    keeps=("n: int", "return abs(n)"),
)
rewrite(
    "floor-multiple",
    ("x - x % k", "x // k * k"),
    needs=[integer("x", "k")],
    because="quotient times divisor and remainder make up an integer",
    fires=("n: int", "return n - n % 7"),
    keeps=("x: float", "return x - x % 7"),
)
rewrite(
    "remainder-in-sum",
    ("(a + b % k - c) % k", "(a + b - c) % k"),
    ("(a + b % k + c) % k", "(a + b + c) % k"),
    needs=[integer("a", "b", "c", "k")],
    because="a term may be reduced before the sum is, or not",
    fires=("n: int; m: int", "return (n + m % 26 - 65) % 26"),
    keeps=("n: int; m: int", "return (n + m % 27 - 65) % 26"),
)
