"""Specs from type hints and from examples of values. Hints are read as text and never evaluated.

Bounds are those of the library annotated-types (`Ge`, `Gt`, `Le`, `Lt`, `Interval`, `Len`, `MinLen`,
`MaxLen`) and pydantic's `Field` with the same names in small letters, `min_length`, `max_length`
and `pattern`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pydantic

from skyt.contracts.kinds.choices import OptionalSpec, UnionSpec
from skyt.contracts.kinds.kind import HINTS, VALUES, Kind
from skyt.contracts.kinds.numbers import BoolSpec, FloatSpec, IntSpec, NoneSpec
from skyt.contracts.literals import literal
from skyt.contracts.specs import Spec
from skyt.text.parsing import parse_expression

_MOST = 20_000  # examples of one kind that are looked at


class HintError(ValueError):
    """A hint for which there is no spec."""


def spec_of_hint(
    hint: str | ast.expr, name: str = "", named: Callable[[str], Spec | None] = lambda _: None
) -> Spec:
    """The spec of a type hint; HintError names a part that has none. `named` has specs of other names."""
    where = f"parameter {name!r}: " if name else ""
    try:
        return _Reader(named).read(parse_expression(hint) if isinstance(hint, str) else hint, None)
    except SyntaxError:
        raise HintError(f"{where}{hint!r} is not a type hint") from None
    except pydantic.ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise HintError(f"{where}{_text(hint)!r}: {problem}") from None
    except HintError as error:
        raise HintError(f"{where}{error}") from None


def spec_of(values: Sequence[Any], hint: ast.expr | None = None) -> Spec:
    """The spec that covers a hint and all examples; HintError where neither says anything."""
    reader = _Reader(lambda _: None)
    try:
        if not values and (hint is None or not list(reader.options(hint, []))):
            raise HintError("neither a type hint nor an input says what values it takes")
        return reader.read(hint, list(values))
    except SyntaxError:
        raise HintError(f"{_text(hint or '')!r} is not a type hint") from None


# A kind with its hint and the hints of its parts, or a spec that is ready.
_Option = tuple[type[Kind] | Spec, ast.expr | None, list[ast.expr]]


class _Reader:
    def __init__(self, named: Callable[[str], Spec | None]) -> None:
        self.named = named

    def read(self, hint: ast.expr | None, values: list[Any] | None) -> Spec:
        """The spec of a hint, of examples, or of both; one that nothing is known of takes integers."""
        options = [] if hint is None else list(self.options(hint, values))
        if values is None:
            return _union([self._described(*option, None) for option in options])
        values = values[:_MOST]
        kinds: dict[type[Kind], _Option] = {_kind(option): option for option in options}
        for kind in dict.fromkeys(map(type, values)):
            if kind not in VALUES:
                raise HintError(f"no values can be drawn for the type {kind.__name__!r}")
            kinds.setdefault(VALUES[kind], (VALUES[kind], hint, []))
        if not kinds.keys().isdisjoint((IntSpec, FloatSpec)):
            kinds.pop(BoolSpec, None)  # Python takes a bool among numbers for a number
        return _union([self._described(*option, values) for option in kinds.values()] or [IntSpec()])

    def _described(
        self, kind: type[Kind] | Spec, hint: ast.expr | None, parts: list[ast.expr], values: list[Any] | None
    ) -> Spec:
        if isinstance(kind, Kind):
            return kind
        own = None if values is None else [value for value in values if type(value) is kind.values_of]
        spec = kind.described(parts, own, self.read)
        if spec is None:
            raise _too_little(hint)
        return spec

    def options(self, hint: ast.expr, values: list[Any] | None) -> Iterator[_Option]:
        """The alternatives of a hint: kinds with the hints of their parts, or specs that are ready."""
        if isinstance(hint, ast.Constant) and isinstance(hint.value, str):  # a hint in quotes
            yield from self.options(parse_expression(hint.value), values)
            return
        if isinstance(hint, ast.BinOp) and isinstance(hint.op, ast.BitOr):
            yield from (*self.options(hint.left, values), *self.options(hint.right, values))
            return
        name, parts = _name(hint), list[ast.expr]()
        if isinstance(hint, ast.Subscript):
            name = _name(hint.value)
            parts = list(hint.slice.elts) if isinstance(hint.slice, ast.Tuple) else [hint.slice]
        if name == "Annotated" and parts:
            spec = self.read(parts[0], values)
            for bound in parts[1:]:
                spec = _bounded(spec, bound)
            yield spec, hint, []
        elif name in ("Optional", "Union") and parts:
            if name == "Optional":
                yield NoneSpec, hint, []
            for part in parts:
                yield from self.options(part, values)
        elif not parts and (ready := self.named(name)) is not None:
            yield ready, hint, []
        elif name in HINTS:
            yield HINTS[name], hint, parts
        elif name not in ("Any", "object"):
            text = ast.unparse(hint)
            raise HintError(f"no values can be drawn for the type hint {text!r}: write for example list[int]")
        elif values is None:
            raise _too_little(hint)


def _kind(option: _Option) -> type[Kind]:
    return type(option[0]) if isinstance(option[0], Kind) else option[0]


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
    if isinstance(node, ast.Constant) and node.value is None:
        return "None"
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(hint: str | ast.expr) -> str:
    return hint if isinstance(hint, str) else ast.unparse(hint)


def _too_little(hint: ast.expr | None) -> HintError:
    text = "" if hint is None else ast.unparse(hint)
    return HintError(f"the hint {text!r} says too little about its values; write for example list[int]")
