"""Arguments as Python wrote them, where a JSON file has lost their types.

JSON has neither tuples nor sets nor complex numbers. MBPP+ has them as lists and strings; its assertions show
the calls with the types they had. What the assertions say of an argument, at every depth, is done to all
inputs, unless the preconditions accept the list itself.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from skyt.text.parsing import parse


def literal_calls(source: str, name: str) -> list[list[Any]]:
    """The arguments of all calls of `name` that are literals, in the order of the source."""
    calls = []
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            try:
                calls.append((node.lineno, node.col_offset, [ast.literal_eval(arg) for arg in node.args]))
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue
    return [arguments for _, _, arguments in sorted(calls, key=lambda call: call[:2])]


@dataclass
class _Shape:
    """What becomes of the lists at one place, and the shape of their items."""

    make: type | None = None
    items: _Shape | None = None
    everywhere: bool = True  # every list seen below this one became the same type, too


@dataclass
class Types:
    """The types of arguments, learned from pairs of a literal and its JSON form."""

    arguments: dict[int, _Shape] = field(default_factory=dict)

    def learn(self, literal: list[Any], plain: list[Any]) -> None:
        for at, (one, other) in enumerate(zip(literal, plain, strict=False)):
            _learn(self.arguments.setdefault(at, _Shape()), one, other)

    def restore(self, plain: list[Any]) -> list[Any]:
        return [_restore(self.arguments.get(at), value) for at, value in enumerate(plain)]


def restored(task: dict[str, Any], inputs: list[list[Any]]) -> list[list[Any]]:
    """The inputs of a task with the types that its assertions show."""
    types = Types()
    calls = literal_calls(task.get("assertion", ""), task["entry_point"])
    accepted = _accepted(task.get("contract", ""))
    if len(calls) == len(task["base_input"]) and not any({"list", "tuple"} <= names for names in accepted):
        for literal, plain in zip(calls, task["base_input"], strict=True):
            types.learn(literal, plain)
    if any("complex" in names for names in accepted):
        inputs = [[_number(value) if isinstance(value, str) else value for value in row] for row in inputs]
    return [types.restore(arguments) for arguments in inputs]


def _accepted(contract: str) -> list[set[str]]:
    """The names of the types in each `isinstance` of the preconditions."""
    tree = parse(f"def precondition():\n{contract}\n" if contract.strip() else "")
    tests = [
        node.args[1]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance" and len(node.args) == 2
    ]
    return [{n.id for n in ast.walk(test) if isinstance(n, ast.Name)} for test in tests]


def _learn(shape: _Shape, literal: Any, plain: Any) -> None:
    if isinstance(plain, dict) and isinstance(literal, dict):
        pairs = [(literal[key], plain[key]) for key in plain if key in literal]
    elif isinstance(plain, list) and isinstance(literal, list | tuple | set | frozenset):
        shape.make = type(literal) if type(literal) is not list else shape.make
        pairs = list(zip(literal, plain, strict=False)) if isinstance(literal, list | tuple) else []
    else:
        return
    shape.items = shape.items or _Shape()
    for one, other in pairs:
        if isinstance(other, list) and type(one) is not shape.make:
            shape.everywhere = False
        _learn(shape.items, one, other)
        shape.everywhere = shape.everywhere and shape.items.everywhere


def _restore(shape: _Shape | None, value: Any) -> Any:
    if shape is None:
        return value
    if isinstance(value, dict):
        return {key: _restore(shape.items, item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    nested = shape.items is not None and shape.make is shape.items.make is tuple
    if nested and shape.everywhere:
        return _tuples(value)
    items = [_restore(shape.items, item) for item in value]
    return shape.make(items) if shape.make in (tuple, set, frozenset) else items


def _tuples(value: Any) -> Any:
    """Tuples of tuples, to any depth."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _number(text: str) -> float | complex:
    try:
        return float(text)
    except ValueError:
        return complex(text)
