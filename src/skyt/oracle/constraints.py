"""Constraints that can be read off the program's text: imports, forbidden names, recursion, naming."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from skyt.contracts.contract import Constraints, EntryPoint
from skyt.oracle.recursion import is_recursive
from skyt.oracle.references import references
from skyt.sandbox import Rules

ANYTHING = "*"  # in place of a list of imports
_MOST = 20  # references that are named


def rules_for(constraints: Constraints) -> Rules | None:
    """What the sandbox enforces of the constraints while the program runs."""
    if ANYTHING in constraints.imports:
        return None
    return Rules(constraints.imports, constraints.forbidden_calls)


def violations(tree: ast.Module, entry: EntryPoint, constraints: Constraints) -> list[str]:
    """What in the program's text breaks the contract's constraints, in words."""
    imports = {name.partition(".")[0] for name in constraints.imports}
    forbidden = {*constraints.forbidden_calls}
    used = [] if ANYTHING in imports else references(tree, imports, forbidden)
    found = [f"{what}, which the contract does not allow" for what in used[:_MOST]]
    if len(used) > _MOST:
        found.append(f"and {len(used) - _MOST} more that it does not allow")
    if constraints.naming == "strict":
        found += _misnamed(tree, entry)
    if constraints.recursion != "any":
        recursive = is_recursive(tree, entry)
        if recursive and constraints.recursion == "forbidden":
            found.append("is recursive, which the contract forbids")
        if not recursive and constraints.recursion == "required":
            found.append("is not recursive, which the contract requires")
    return found


def _misnamed(tree: ast.Module, entry: EntryPoint) -> Iterator[str]:
    """Parameters of the entry point or its methods that are not called what the contract calls them."""
    wanted = {entry.name: [p.name for p in entry.parameters]}
    functions: list[ast.stmt] = tree.body
    if entry.kind == "class":
        wanted = {"__init__": ["self", *wanted[entry.name]]}
        wanted |= {m.name: ["self", *(p.name for p in m.parameters)] for m in entry.methods}
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == entry.name]
        functions = [statement for node in classes for statement in node.body]
    for function in functions:
        if isinstance(function, ast.FunctionDef) and function.name in wanted:
            named = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
            if named[: len(wanted[function.name])] != wanted[function.name]:
                yield f"names the parameters of {function.name} {', '.join(named)}, not as in the contract"
