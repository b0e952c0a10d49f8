"""A tiny interpreter for the part of Python that guards are about: integers, strings, lists, loops.

It computes what a function returns for one known argument, to find guards that say what the rest of the
function would say anyway. It follows Python exactly or gives up; it never runs the program itself.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from skyt.repair.rules.analysis.trees import words

FUEL = 3000
LARGEST = 10**30
LONGEST = 2000

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
OF_INTEGERS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (range, abs, min, max, int, bool)}
MAKERS: dict[str, Callable[[], Any]] = {"set": set, "dict": dict, "list": list}
TEXT_METHODS = words("lower upper strip isalnum isalpha isdigit replace")


class GiveUpError(Exception):
    """Something the interpreter does not know, or that would raise."""


class _ReturnError(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


def _need(condition: bool) -> None:
    if not condition:
        raise GiveUpError


class Opaque:
    """An element of which nothing is known: it can be passed on, and nothing else."""

    def _refuse(self, *_: object) -> Any:
        raise GiveUpError

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refuse
    __hash__ = __len__ = __iter__ = __getitem__ = __add__ = __radd__ = __index__ = __str__ = _refuse


@dataclass(frozen=True)
class Returned:
    """A result, and whether it is a container that was made on the way: nobody else can hold it."""

    value: Any
    new: bool = False


def returned(body: Sequence[ast.stmt], variables: dict[str, Any]) -> Returned:
    """What these statements return from a function whose variables start like this. Raises GiveUpError."""
    machine = _Machine(dict(variables))
    try:
        machine.run(body)
    except _ReturnError as result:
        return Returned(result.value, any(result.value is made for made in machine.made))
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise GiveUpError from error
    return Returned(None)


class _Machine:
    def __init__(self, variables: dict[str, Any]) -> None:
        self.variables = variables
        self.fuel = FUEL
        self.made: list[Any] = []  # containers that nobody outside can see

    def _burn(self) -> None:
        self.fuel -= 1
        _need(self.fuel >= 0)

    def run(self, body: Sequence[ast.stmt]) -> None:
        for s in body:
            self._burn()
            self._statement(s)

    def _statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Return(value=value):
                raise _ReturnError(None if value is None else self.value(value))
            case ast.Assign(targets=[target], value=value):
                self._store(target, self.value(value))
            case ast.If(test=test, body=body, orelse=orelse):
                self.run(body if self.value(test) else orelse)
            case ast.While(test=test, body=body, orelse=[]):
                while self.value(test):
                    self._burn()
                    self.run(body)
            case ast.For(target=target, iter=source, body=body, orelse=[]):
                for _ in self._rounds(target, source):
                    self.run(body)
            case ast.Pass():
                pass
            case _:
                raise GiveUpError

    def _rounds(self, target: ast.expr, source: ast.expr) -> Iterable[None]:
        """The rounds of a loop, its variable set at each."""
        items = self.value(source)
        _need(isinstance(items, range | str | list | tuple))
        for item in list(items):
            self._burn()
            self._store(target, item)
            yield

    def _make(self, container: Any) -> Any:
        self.made.append(container)
        return container

    def _store(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.variables[target.id] = value
            return
        _need(isinstance(target, ast.Tuple) and isinstance(value, tuple) and len(value) == len(target.elts))
        for item, part in zip(target.elts, value, strict=True):  # type: ignore[attr-defined]
            self._store(item, part)

    def value(self, node: ast.expr) -> Any:
        self._burn()
        result = self._value(node)
        _need(type(result) is not int or abs(result) <= LARGEST)
        _need(not isinstance(result, str | list | tuple) or len(result) <= LONGEST)
        return result

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                _need(value is None or type(value) in (int, bool, str))
                return value
            case ast.Name(id=name):
                _need(name in self.variables)
                return self.variables[name]
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.value(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.value(operand)
                _need(type(inner) is int)
                return -inner
            case ast.BoolOp(op=op, values=values):
                for operand in values:
                    result = self.value(operand)
                    if bool(result) is isinstance(op, ast.Or):
                        break
                return result
            case ast.Compare():
                return self._compare(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if self.value(test) else orelse)
            case ast.Tuple(elts=elements):
                return tuple(self.value(e) for e in elements)
            case ast.List(elts=elements):
                return self._make([self.value(e) for e in elements])
            case ast.Dict(keys=[]):
                return self._make({})
            case ast.ListComp(elt=result, generators=[g]) | ast.GeneratorExp(elt=result, generators=[g]):
                return self._make(self._comprehension(result, g))
            case ast.Subscript(value=owner, slice=index):
                whole = self.value(owner)
                _need(isinstance(whole, str | list | tuple))
                return whole[self._index(index)]
            case ast.Call(func=function, args=args, keywords=[]):
                return self._call(function, [self.value(a) for a in args])
        raise GiveUpError

    def _index(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Slice):
            ends = (node.lower, node.upper, node.step)
            return slice(*(None if p is None else self.value(p) for p in ends))
        return self.value(node)

    def _comprehension(self, result: ast.expr, g: ast.comprehension) -> list[Any]:
        outer, found = self.variables, list[Any]()
        self.variables = dict(outer)
        for _ in self._rounds(g.target, g.iter):
            if all(self.value(c) for c in g.ifs):
                found.append(self.value(result))
        self.variables = outer
        return found

    def _binary(self, op: ast.operator, a: Any, b: Any) -> Any:
        if type(a) in (list, str) and type(b) is int and isinstance(op, ast.Mult):
            _need(len(a) * b <= LONGEST and not any(isinstance(x, list | set | dict) for x in a))
            return self._make(a * b) if type(a) is list else a * b
        texts = type(a) is str and type(b) is str and isinstance(op, ast.Add)
        _need(type(op) in BINARY and (texts or (type(a) is int and type(b) is int)))
        return BINARY[type(op)](a, b)

    def _compare(self, node: ast.Compare) -> bool:
        left = self.value(node.left)
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            _need(type(op) in COMPARE)
            right = self.value(comparator)
            if not COMPARE[type(op)](left, right):
                return False
            left = right
        return True

    def _call(self, function: ast.expr, args: list[Any]) -> Any:
        kinds = [type(a) for a in args]
        match function:
            case ast.Name(id=name) if name not in self.variables:
                if name == "len" and kinds in ([str], [list], [tuple], [range]):
                    return len(args[0])
                if name in MAKERS and not args:
                    return self._make(MAKERS[name]())
                if name == "sum" and kinds == [list] and all(type(a) is int for a in args[0]):
                    return sum(args[0])
                if (name == "str" and kinds in ([int], [str])) or (name == "ord" and kinds == [str]):
                    return str(args[0]) if name == "str" else ord(args[0])
                if name == "chr" and kinds == [int] and not 0xD800 <= args[0] <= 0xDFFF:
                    return chr(args[0])
                if name in OF_INTEGERS and all(k is int for k in kinds):
                    return OF_INTEGERS[name](*args)
            case ast.Attribute(value=owner, attr=name) if name in TEXT_METHODS:
                text = self.value(owner)
                _need(type(text) is str)
                return getattr(text, name)(*args)
        raise GiveUpError
