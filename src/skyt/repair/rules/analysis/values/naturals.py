"""Naturals: integers that are never negative, so that a power with such an exponent is an integer."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from skyt.repair.rules.analysis.values.types import Type


class Environment(dict[str, Type]):
    """The types of a function's variables, and which of its integers are never negative."""

    naturals: frozenset[str] = frozenset()

    @classmethod
    def knowing(cls, naturals: frozenset[str]) -> Environment:
        env = cls()
        env.naturals = naturals
        return env


def natural(node: ast.expr, env: Mapping[str, Type]) -> bool:
    """Whether an expression of type int is surely not negative, by its form and its variables."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) and node.value >= 0
    if isinstance(node, ast.Name):
        return isinstance(env, Environment) and node.id in env.naturals
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in {"len", "abs"}
    if isinstance(node, ast.BinOp):
        closed = isinstance(node.op, ast.Add | ast.Mult | ast.FloorDiv | ast.Mod)
        return closed and natural(node.left, env) and natural(node.right, env)
    return False


def open_power(node: ast.AST) -> bool:
    """A power whose exponent is not by its form alone a natural number."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not natural(node.right, {})
