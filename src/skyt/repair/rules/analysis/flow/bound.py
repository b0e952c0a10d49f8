"""Bound names: rules take for granted that reading a local never fails. Programs where it may are left
alone."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.flow.liveness import Liveness
from skyt.repair.rules.analysis.trees.syntax import stored_names
from skyt.repair.rules.analysis.trees.trees import walk


def unbound_name(tree: ast.Module) -> str | None:
    """A local that may be read before it has a value, in any function; None if there is none."""
    for function in walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        stored = {n for s in function.body for n in stored_names(s)}
        arguments = {a.arg for a in walk(function.args) if isinstance(a, ast.arg)}
        early = (Liveness(function, strict=True).entry & stored) - arguments
        if early:
            return sorted(early)[0]
    return None
