"""A tiny interpreter for the part of Python that guards are about: integers, strings, lists, loops.

It finds guards that say what the rest of a function would say anyway. It follows Python exactly or gives up.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

FUEL = 3000
LARGEST = 10**30
LONGEST = 2000

ARITHMETIC = {"Add": "add", "Sub": "sub", "Mult": "mul", "FloorDiv": "floordiv", "Mod": "mod"}
COMPARISON = {"Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge"}
OPERATIONS: dict[type[ast.AST], Callable[..., Any]] = {
    getattr(ast, kind): getattr(operator, name) for kind, name in (ARITHMETIC | COMPARISON).items()
}
# Builtins, with the types of arguments that they are followed for.
FUNCTIONS: dict[str, tuple[Callable[..., Any], set[type]]] = {
    **{f.__name__: (f, {int}) for f in (range, abs, min, max, int, bool)},
    **{f.__name__: (f, set()) for f in (list, dict, set)},
    "len": (len, {str, list, tuple, range}),
    "str": (str, {int, str}),
    "ord": (ord, {str}),
}
MAKING = (ast.List, ast.Dict, ast.ListComp, ast.BinOp, ast.Call)


class GiveUpError(Exception):
    """Something the interpreter does not know, or that would raise."""


class _ReturnError(Exception):
    """The way out of a function, with its result."""


def _need(condition: bool) -> None:
    if not condition:
        raise GiveUpError


class Opaque:
    """An element of which nothing is known: it can be passed on, and nothing else."""

    def _refuse(self, *_: object) -> Any:
        raise GiveUpError

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refuse
    __hash__ = __len__ = __iter__ = __getitem__ = __add__ = __radd__ = __index__ = __str__ = _refuse


class Returned(NamedTuple):
    """A result, and whether it is a container that was made on the way: nobody else can hold it."""

    value: Any
    new: bool = False


def returned(body: Sequence[ast.stmt], variables: dict[str, Any]) -> Returned:
    """What these statements return from a function whose variables start like this. Raises GiveUpError."""
    machine = _Machine(variables)
    try:
        machine.run(body)
    except _ReturnError as result:
        return Returned(result.args[0], any(result.args[0] is made for made in machine.made))
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise GiveUpError from error
    return Returned(None)


class _Machine:
    def __init__(self, variables: dict[str, Any]) -> None:
        self.variables = dict(variables)
        self.fuel = FUEL
        self.made: list[Any] = []  # containers that nobody outside can see

    def _burn(self) -> None:
        self.fuel -= 1
        _need(self.fuel >= 0)

    def run(self, body: Sequence[ast.stmt]) -> None:
        for s in body:
            self._burn()
            match s:
                case ast.Return(value=value):
                    raise _ReturnError(None if value is None else self.value(value))
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.variables[name] = self.value(value)
                case ast.If(test=test, body=inner, orelse=orelse):
                    self.run(inner if self.value(test) else orelse)
                case ast.While(test=test, body=inner, orelse=[]):
                    while self.value(test):
                        self.run(inner)
                case ast.For(target=ast.Name(id=name), iter=source, body=inner, orelse=[]):
                    items = self.value(source)
                    _need(isinstance(items, range | str | list | tuple))
                    for item in items:
                        self._burn()
                        self.variables[name] = item
                        self.run(inner)
                case _:
                    raise GiveUpError

    def value(self, node: ast.expr) -> Any:
        self._burn()
        result = self._value(node)
        _need(type(result) is not int or abs(result) <= LARGEST)
        _need(not isinstance(result, str | list | tuple) or len(result) <= LONGEST)
        if isinstance(node, MAKING) and isinstance(result, list | dict | set):
            self.made.append(result)
        return result

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                _need(value is None or type(value) in (int, bool, str))
                return value
            case ast.Name(id=name):
                return self.variables[name]
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._binary(ast.Sub(), 0, self.value(operand))
            case ast.BoolOp(op=op, values=values):
                for operand in values:
                    result = self.value(operand)
                    if bool(result) is isinstance(op, ast.Or):
                        break
                return result
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return OPERATIONS[type(op)](self.value(left), self.value(right))
            case ast.List(elts=elements):
                return [self.value(e) for e in elements]
            case ast.Dict(keys=[]):
                return {}
            case ast.ListComp(generators=[ast.comprehension(iter=source), *_]):
                items = self.value(source)
                _need(isinstance(items, str | list | tuple) and not items)
                return []
            case ast.Slice(lower=lower, upper=upper, step=step):
                return slice(*(None if p is None else self.value(p) for p in (lower, upper, step)))
            case ast.Subscript(value=owner, slice=index):
                whole = self.value(owner)
                _need(isinstance(whole, str | list | tuple))
                return whole[self.value(index)]
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name not in self.variables:
                (function, kinds), given = FUNCTIONS[name], [self.value(a) for a in args]
                _need(all(type(a) in kinds for a in given))
                return function(*given)
        raise GiveUpError

    def _binary(self, op: ast.operator, a: Any, b: Any) -> Any:
        kinds = (type(a), type(b), type(op))
        if kinds in ((list, int, ast.Mult), (str, int, ast.Mult)):
            _need(len(a) * b <= LONGEST and not any(isinstance(x, list | set | dict) for x in a))
        else:
            _need(kinds[:2] == (int, int) or kinds == (str, str, ast.Add))
        return OPERATIONS[kinds[2]](a, b)
