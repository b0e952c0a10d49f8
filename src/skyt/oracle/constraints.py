"""Constraints that can be read off the program: imports, forbidden calls, recursion."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from skyt.contracts.contract import Constraints, EntryPoint

_FREE_IMPORTS = {"typing", "__future__"}
_DYNAMIC = {"exec", "eval", "compile", "__import__"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def violations(tree: ast.Module, entry: EntryPoint, constraints: Constraints) -> list[str]:
    """What in the program breaks the contract's constraints, in words."""
    allowed = _FREE_IMPORTS | {name.split(".")[0] for name in constraints.imports}
    own = {name for name, _ in _functions(tree)}  # a helper that is called `sort` is the program's own
    named, methods = _called(tree)
    calls = ((named | methods) - own) & {*constraints.forbidden_calls} | (named - own) & _DYNAMIC
    found = [
        *(
            f"imports {name}, which the contract does not allow"
            for name in sorted({*_imported(tree)} - allowed)
        ),
        *(f"calls {name}, which the contract does not allow" for name in sorted(calls)),
    ]
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


def is_recursive(tree: ast.Module, entry: EntryPoint) -> bool:
    """Whether a function that the entry point can reach refers to itself, directly or through others.

    References count, not only calls, so `map(merge_sort, halves)` is recursion. Functions are told apart by
    name; a name that a function binds as its own local is not a reference.
    """
    graph: dict[str, set[str]] = {}
    functions = dict(_functions(tree))
    for name, nodes in functions.items():
        graph[name] = set().union(*(_references(node) for node in nodes)) & set(functions)
    if entry.kind == "class":
        roots = {
            name
            for name, nodes in functions.items()
            if any(_in_class(tree, node, entry.name) for node in nodes)
        }
    else:
        roots = {entry.name} & set(functions)
    reached: set[str] = set()
    frontier = roots
    while frontier:
        reached |= frontier
        frontier = set().union(*(graph[name] for name in frontier)) - reached
    return any(_reaches_itself(name, graph) for name in reached)


def _reaches_itself(name: str, graph: dict[str, set[str]]) -> bool:
    seen: set[str] = set()
    frontier = graph[name]
    while frontier:
        if name in frontier:
            return True
        seen |= frontier
        frontier = set().union(*(graph[other] for other in frontier)) - seen
    return False


def _functions(tree: ast.Module) -> Iterator[tuple[str, list[_Function]]]:
    """Every named function, method and named lambda, by name."""
    named: dict[str, list[_Function]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            named.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    named.setdefault(target.id, []).append(node.value)
    yield from named.items()


def _references(function: _Function) -> set[str]:
    """Names a function's own body refers to: free names, and attributes of `self` or `cls`."""
    bound = {arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)}
    used: set[str] = set()
    body = function.body if isinstance(function.body, list) else [function.body]
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending += [*node.decorator_list, *node.args.defaults]
            continue
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif _is_own_attribute(node):
            used.add(node.attr)
        pending += ast.iter_child_nodes(node)
    return used - bound


def _is_own_attribute(node: ast.AST) -> TypeGuard[ast.Attribute]:
    owner = node.value if isinstance(node, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in ("self", "cls")


def _in_class(tree: ast.Module, function: _Function, name: str) -> bool:
    return any(
        isinstance(node, ast.ClassDef) and node.name == name and function in node.body for node in tree.body
    )


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0] if not node.level else "a relative module"


def _called(tree: ast.Module) -> tuple[set[str], set[str]]:
    """What is called by its name, and as an attribute: `re.compile` is not the builtin `compile`."""
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return (
        {function.id for function in called if isinstance(function, ast.Name)},
        {function.attr for function in called if isinstance(function, ast.Attribute)},
    )
