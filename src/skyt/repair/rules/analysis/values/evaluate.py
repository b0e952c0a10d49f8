"""A tiny interpreter for the part of Python that guards are about: integers, strings, lists, loops.

It computes what a function returns for one known argument, to find guards that say what the rest of the
function would say anyway. It follows Python exactly or gives up; it never runs the program itself.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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


TEXT_METHODS = frozenset({"lower", "upper", "strip", "isalnum", "isalpha", "isdigit", "replace"})


class Opaque:
    """An element of which nothing is known: it can be passed on, and nothing else."""

    def _refuse(self, *_: object) -> Any:
        raise GiveUpError

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refuse
    __hash__ = __len__ = __iter__ = __getitem__ = __add__ = __radd__ = __index__ = __str__ = _refuse


class GiveUpError(Exception):
    """Something the interpreter does not know, or that would raise."""


class _ReturnError(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


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
    except (
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
    ) as error:
        raise GiveUpError from error
    return Returned(None)


class _Machine:
    def __init__(self, variables: dict[str, Any]) -> None:
        self.variables = variables
        self.fuel = FUEL
        self.made: list[Any] = []  # containers that nobody outside can see

    def _burn(self) -> None:
        self.fuel -= 1
        if self.fuel < 0:
            raise GiveUpError

    def run(self, body: Sequence[ast.stmt]) -> None:
        for s in body:
            self._burn()
            self._statement(s)

    def _statement(self, s: ast.stmt) -> None:
        if isinstance(s, ast.Return):
            raise _ReturnError(None if s.value is None else self.value(s.value))
        if isinstance(s, ast.Assign) and len(s.targets) == 1:
            self._store(s.targets[0], self.value(s.value))
        elif isinstance(s, ast.If):
            self.run(s.body if self.value(s.test) else s.orelse)
        elif isinstance(s, ast.While) and not s.orelse:
            while self.value(s.test):
                self._burn()
                self.run(s.body)
        elif isinstance(s, ast.For) and not s.orelse:
            items = self.value(s.iter)
            if not isinstance(items, range | str | list | tuple):
                raise GiveUpError
            for item in items if isinstance(items, range | str | tuple) else list(items):
                self._burn()
                self._store(s.target, item)
                self.run(s.body)
        elif isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
            self._change(s.value)
        elif not isinstance(s, ast.Pass):
            raise GiveUpError

    def _change(self, node: ast.Call) -> None:
        """`x.append(v)` or `x.add(v)` on a container that was made here."""
        function = node.func
        if not (isinstance(function, ast.Attribute) and len(node.args) == 1 and not node.keywords):
            raise GiveUpError
        whole, item = self.value(function.value), self.value(node.args[0])
        if not any(whole is x for x in self.made) or isinstance(item, list | set | dict):
            raise GiveUpError
        if isinstance(whole, list) and function.attr == "append":
            whole.append(item)
        elif isinstance(whole, set) and function.attr == "add":
            whole.add(item)
        else:
            raise GiveUpError

    def _make(self, container: Any) -> Any:
        self.made.append(container)
        return container

    def _store(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.variables[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, tuple) and len(value) == len(target.elts):
            for item, part in zip(target.elts, value, strict=True):
                self._store(item, part)
        else:
            raise GiveUpError

    def value(self, node: ast.expr) -> Any:
        self._burn()
        result = self._value(node)
        if type(result) is int and abs(result) > LARGEST:
            raise GiveUpError
        if isinstance(result, str | list | tuple) and len(result) > LONGEST:
            raise GiveUpError
        return result

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and (node.value is None or type(node.value) in (int, bool, str)):
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in self.variables:
                raise GiveUpError
            return self.variables[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            return self._binary(node)
        if isinstance(node, ast.UnaryOp):
            inner = self.value(node.operand)
            if isinstance(node.op, ast.Not):
                return not inner
            if isinstance(node.op, ast.USub) and type(inner) is int:
                return -inner
        if isinstance(node, ast.BoolOp):
            for operand in node.values:
                result = self.value(operand)
                if bool(result) is isinstance(node.op, ast.Or):
                    return result
            return result
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.IfExp):
            return self.value(node.body if self.value(node.test) else node.orelse)
        if isinstance(node, ast.Tuple):
            return tuple(self.value(e) for e in node.elts)
        if isinstance(node, ast.List):
            return self._make([self.value(e) for e in node.elts])
        if isinstance(node, ast.Dict) and not node.keys:
            return self._make({})
        if isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
            return self._make(self._comprehension(node))
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Call) and not node.keywords:
            return self._call(node)
        raise GiveUpError

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:
        g, found = node.generators[0], list[Any]()
        items = self.value(g.iter)
        if not isinstance(items, range | str | list | tuple):
            raise GiveUpError
        outer = self.variables
        self.variables = dict(outer)
        for item in list(items):
            self._burn()
            self._store(g.target, item)
            if all(self.value(c) for c in g.ifs):
                found.append(self.value(node.elt))
        self.variables = outer
        return found

    def _binary(self, node: ast.BinOp) -> Any:
        a, b = self.value(node.left), self.value(node.right)
        texts = type(a) is str and type(b) is str and isinstance(node.op, ast.Add)
        if type(a) in (list, str) and type(b) is int and isinstance(node.op, ast.Mult):
            if len(a) * b > LONGEST or any(isinstance(x, list | set | dict) for x in a):
                raise GiveUpError
            return self._make(a * b) if type(a) is list else a * b
        if not texts and not (type(a) is int and type(b) is int):
            raise GiveUpError
        return BINARY[type(node.op)](a, b)

    def _compare(self, node: ast.Compare) -> bool:
        left = self.value(node.left)
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            if type(op) not in COMPARE:
                raise GiveUpError
            right = self.value(comparator)
            if not COMPARE[type(op)](left, right):
                return False
            left = right
        return True

    def _subscript(self, node: ast.Subscript) -> Any:
        whole = self.value(node.value)
        if not isinstance(whole, str | list | tuple):
            raise GiveUpError
        if isinstance(node.slice, ast.Slice):
            parts = [
                None if p is None else self.value(p)
                for p in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return whole[slice(*parts)]
        return whole[self.value(node.slice)]

    def _call(self, node: ast.Call) -> Any:
        args = [self.value(a) for a in node.args]
        if isinstance(node.func, ast.Name) and node.func.id not in self.variables:
            name = node.func.id
            if name == "len" and isinstance(args[0], str | list | tuple | range):
                return len(args[0])
            if name in {"set", "dict", "list"} and not args:
                return self._make({"set": set, "dict": dict, "list": list}[name]())
            if (
                name == "sum"
                and len(args) == 1
                and type(args[0]) is list
                and all(type(a) is int for a in args[0])
            ):
                return sum(args[0])
            if name == "str" and len(args) == 1 and type(args[0]) in (int, str):
                return str(args[0])
            if name == "ord" and type(args[0]) is str:
                return ord(args[0])
            if name == "chr" and type(args[0]) is int and not 0xD800 <= args[0] <= 0xDFFF:
                return chr(args[0])
            if name == "range" and all(type(a) is int for a in args):
                return range(*args)
            if name in {"abs", "min", "max", "int", "bool"} and all(type(a) is int for a in args):
                return {"abs": abs, "min": min, "max": max, "int": int, "bool": bool}[name](*args)  # type: ignore[operator]
        if isinstance(node.func, ast.Attribute):
            if ast.unparse(node.func) == "math.isqrt" and type(args[0]) is int:
                return math.isqrt(args[0])
            owner = self.value(node.func.value)
            if type(owner) is str and node.func.attr in TEXT_METHODS:
                return getattr(owner, node.func.attr)(*args)
        raise GiveUpError
