"""Specs from type hints, read as text and never evaluated: `dict[str, list[int]]`, `Annotated[int, Ge(0)]`.

Bounds are those of the library annotated-types (`Ge`, `Gt`, `Le`, `Lt`, `Interval`, `Len`, `MinLen`,
`MaxLen`) and pydantic's `Field` with the same names in small letters, `min_length`, `max_length`
and `pattern`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pydantic

from skyt.contracts.literals import literal
from skyt.contracts.specs import (
    BoolSpec,
    BytesSpec,
    DictSpec,
    FloatSpec,
    FrozensetSpec,
    IntSpec,
    ListSpec,
    NoneSpec,
    OptionalSpec,
    SetSpec,
    Spec,
    StrSpec,
    TupleSpec,
    UnionSpec,
)
from skyt.text.parsing import parse_expression

_KINDS: tuple[Any, ...] = (IntSpec, FloatSpec, BoolSpec, NoneSpec, StrSpec, BytesSpec)
_SCALARS = {name: kind for kind in _KINDS for name in kind.hints}
_CONTAINERS = {name: kind for kind in (ListSpec, SetSpec, FrozensetSpec) for name in kind.hints}


class HintError(ValueError):
    """A hint for which there is no spec."""


def spec_of_hint(
    hint: str | ast.expr, name: str = "", known: Callable[[str], Spec | None] = lambda _: None
) -> Spec:
    """The spec of a type hint; HintError names a part that has none. `known` has specs of other names."""
    where = f"parameter {name!r}: " if name else ""
    try:
        return _Hint(known).spec(parse_expression(hint) if isinstance(hint, str) else hint)
    except SyntaxError:
        raise HintError(f"{where}{hint!r} is not a type hint") from None
    except pydantic.ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise HintError(f"{where}{_text(hint)!r}: {problem}") from None
    except HintError as error:
        raise HintError(f"{where}{error}") from None


class _Hint:
    def __init__(self, known: Callable[[str], Spec | None]) -> None:
        self.known = known

    def spec(self, node: ast.expr) -> Spec:
        match node:
            case ast.Constant(value=None):
                return NoneSpec()
            case ast.Constant(value=str() as text):  # a hint in quotes
                return self.spec(parse_expression(text))
            case ast.Name() | ast.Attribute() if (name := _name(node)) in _SCALARS:
                scalar: Spec = _SCALARS[name]()
                return scalar
            case ast.Name(id=name) if (spec := self.known(name)) is not None:
                return spec
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return _union([self.spec(left), self.spec(right)])
            case ast.Subscript(value=value, slice=inside):
                parts = list(inside.elts) if isinstance(inside, ast.Tuple) else [inside]
                return self._generic(node, _name(value), parts)
        raise _no_spec(node)

    def _generic(self, node: ast.expr, name: str, inside: list[ast.expr]) -> Spec:
        if name == "Annotated":
            spec = self.spec(inside[0])
            for bound in inside[1:]:
                spec = _bounded(spec, bound)
            return spec
        if name == "Optional":
            return _union([NoneSpec(), self.spec(inside[0])])
        if name == "Union":
            return _union([self.spec(part) for part in inside])
        if name in ("tuple", "Tuple"):
            if len(inside) == 2 and isinstance(inside[1], ast.Constant) and inside[1].value is Ellipsis:
                return TupleSpec(elements=self.spec(inside[0]))
            return TupleSpec(elements=tuple(self.spec(part) for part in inside))
        if name in DictSpec.hints and len(inside) == 2:
            return DictSpec(keys=self.spec(inside[0]), values=self.spec(inside[1]))
        if name in _CONTAINERS and inside:
            made: Spec = _CONTAINERS[name](elements=self.spec(inside[0]))
            return made
        raise _no_spec(node)


def _union(options: list[Spec]) -> Spec:
    """Alternatives, with None as an optional value and unions in unions taken apart."""
    flat: list[Spec] = []
    for option in options:
        if isinstance(option, UnionSpec):
            flat += option.of
        else:
            flat += [NoneSpec(), option.of] if isinstance(option, OptionalSpec) else [option]
    some = [option for option in flat if not isinstance(option, NoneSpec)]
    if not some:
        return NoneSpec()
    spec = some[0] if len(some) == 1 else UnionSpec(of=tuple(some))
    return OptionalSpec(of=spec) if len(some) < len(flat) else spec


def _bounded(spec: Spec, bound: ast.expr) -> Spec:
    """The spec narrowed by one bound; a bound that is not known is an error, not a wider domain."""
    if not isinstance(bound, ast.Call):
        raise HintError(f"{_text(bound)!r} is not a bound that narrows a {spec.type}")
    name = _name(bound.func)
    try:
        values = [literal(arg) for arg in bound.args]
        named = {str(keyword.arg): literal(keyword.value) for keyword in bound.keywords}
    except ValueError as error:
        raise HintError(f"{_text(bound)!r}: {error}") from None
    if name in _PLACES:
        named |= dict(zip(_PLACES[name], values, strict=False))
    elif values or name != "Field":
        raise HintError(f"{_text(bound)!r} is not a bound that is known")
    changes: dict[str, Any] = {}
    for key, value in named.items():
        change = spec.bound(key, value)
        if change is None:
            raise HintError(f"{_text(bound)!r} does not narrow a {spec.type}")
        changes |= change
    return type(spec).model_validate({**spec.model_dump(), **changes})


_PLACES: dict[str, tuple[str, ...]] = {
    "Ge": ("ge",),
    "Gt": ("gt",),
    "Le": ("le",),
    "Lt": ("lt",),
    "Interval": (),
    "Len": ("min_length", "max_length"),
    "MinLen": ("min_length",),
    "MaxLen": ("max_length",),
}


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(hint: str | ast.expr) -> str:
    return hint if isinstance(hint, str) else ast.unparse(hint)


def _no_spec(node: ast.expr) -> HintError:
    return HintError(
        f"the hint {ast.unparse(node)!r} says too little about its values; write for example list[int]"
    )
