"""Whether a program is recursive, as far as its text shows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from skyt.contracts.contract import EntryPoint

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def is_recursive(tree: ast.Module, entry: EntryPoint) -> bool:
    """Whether a function that the entry point can reach refers to itself, directly or through others.

    References count, not only calls, so `map(merge_sort, halves)` is recursion. Functions are told apart by
    name; a name that a function binds as its own local is not a reference. Linear in the size of the program.
    """
    functions = _functions(tree)
    graph = {
        name: set().union(*(_references(node) for node in nodes)) & functions.keys()
        for name, nodes in functions.items()
    }
    if entry.kind == "class":
        roots = {
            function.name
            for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name == entry.name
            for function in node.body
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    else:
        roots = {entry.name} & functions.keys()
    return _has_cycle(graph, roots)


def _has_cycle(graph: dict[str, set[str]], roots: Iterable[str]) -> bool:
    """Whether a path from the roots comes back to a node on it (depth first, without recursion)."""
    on_path: set[str] = set()
    done: set[str] = set()
    for root in roots:
        pending: list[tuple[str, Iterator[str]]] = [(root, iter(graph[root]))] if root not in done else []
        on_path.update(name for name, _ in pending)
        while pending:
            name, following = pending[-1]
            after = next(following, None)
            if after is None:
                pending.pop()
                on_path.discard(name)
                done.add(name)
            elif after in on_path:
                return True
            elif after not in done:
                on_path.add(after)
                pending.append((after, iter(graph[after])))
    return False


def _functions(tree: ast.Module) -> dict[str, list[_Function]]:
    """Every named function, method and named lambda, by name."""
    named: dict[str, list[_Function]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            named.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    named.setdefault(target.id, []).append(node.value)
    return named


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
