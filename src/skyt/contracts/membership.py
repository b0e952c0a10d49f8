"""Whether a value belongs to a spec, and the value that a list in YAML stands for: a tuple or a set, say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from skyt.contracts.expectations import Arguments, OperationCase, OracleSpec
from skyt.contracts.hints import HintError, spec_of_hint
from skyt.contracts.specs import (
    BytesSpec,
    DictSpec,
    Domain,
    FloatSpec,
    FrozensetSpec,
    GivenSpec,
    IntSpec,
    ListSpec,
    NoneSpec,
    OptionalSpec,
    RecordSpec,
    SetSpec,
    Spec,
    StrSpec,
    TupleSpec,
    UnionSpec,
    parts,
)


def fits(spec: Spec, value: Any) -> bool:
    """Membership of one value, by exact type: True is not an int here."""
    if isinstance(spec, IntSpec):
        return type(value) is int and _between(spec.min, value, spec.max)
    if isinstance(spec, FloatSpec):
        return type(value) is float and abs(value) < float("inf") and _between(spec.min, value, spec.max)
    if isinstance(spec, StrSpec):
        return (
            type(value) is str
            and _between(spec.min_length, len(value), spec.max_length)
            and not any("\ud800" <= c <= "\udfff" for c in value)
            and (spec.alphabet is None or set(value) <= set(spec.alphabet))
            and (spec.regex is None or re.fullmatch(spec.regex, value) is not None)
        )
    if isinstance(spec, OptionalSpec):
        return value is None or fits(spec.of, value)
    if isinstance(spec, UnionSpec):
        return any(fits(option, value) for option in spec.of)
    if isinstance(spec, NoneSpec):
        return value is None
    if isinstance(spec, GivenSpec):
        return True
    if isinstance(spec, RecordSpec):
        return (
            type(value) is dict
            and value.keys() == spec.fields.keys()
            and all(fits(part, value[name]) for name, part in spec.fields.items())
        )
    if isinstance(spec, TupleSpec) and isinstance(spec.elements, tuple):
        return (
            type(value) is tuple
            and len(value) == len(spec.elements)
            and all(fits(part, item) for part, item in zip(spec.elements, value, strict=True))
        )
    if isinstance(spec, BytesSpec | ListSpec | TupleSpec | SetSpec | FrozensetSpec | DictSpec):
        return (
            type(value).__name__ == spec.type
            and _between(spec.min_length, len(value), spec.max_length)
            and _inside(spec, value)
        )
    return type(value) is bool


def _inside(spec: Spec, value: Any) -> bool:
    if isinstance(spec, DictSpec):
        return all(fits(spec.keys, key) and fits(spec.values, item) for key, item in value.items())
    if isinstance(spec, ListSpec):
        return (
            all(fits(spec.elements, item) for item in value)
            and (not spec.sorted or value == sorted(value))
            and (not spec.distinct or len(set(value)) == len(value))
        )
    if isinstance(spec, TupleSpec | SetSpec | FrozensetSpec) and not isinstance(spec.elements, tuple):
        return all(fits(spec.elements, item) for item in value)
    return True


def _between(low: float | None, value: float, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def as_spec(spec: Spec, value: Any) -> Any:
    """The value with lists made tuples and sets where the spec has those; as it is where nothing fits."""
    if isinstance(spec, OptionalSpec | UnionSpec):
        options = (spec.of,) if isinstance(spec, OptionalSpec) else spec.of
        made = (as_spec(option, value) for option in options)
        found = (new for option, new in zip(options, made, strict=True) if fits(option, new))
        return value if value is None or fits(spec, value) else next(found, value)
    if isinstance(spec, RecordSpec) and type(value) is dict:
        return {k: as_spec(spec.fields[k], v) if k in spec.fields else v for k, v in value.items()}
    if isinstance(spec, DictSpec) and type(value) is dict:
        return {as_spec(spec.keys, key): as_spec(spec.values, item) for key, item in value.items()}
    if type(value) is not list:
        return value
    if isinstance(spec, TupleSpec) and isinstance(spec.elements, tuple):
        if len(value) != len(spec.elements):
            return value
        return tuple(as_spec(part, item) for part, item in zip(spec.elements, value, strict=True))
    if isinstance(spec, ListSpec | TupleSpec | SetSpec | FrozensetSpec):
        items = [as_spec(parts(spec)[0], item) for item in value]
        try:
            return _CONTAINERS[spec.type](items)
        except TypeError:  # something that no set can have
            return value
    return value


_CONTAINERS: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


A = TypeVar("A", bound=Arguments)


def coerced(oracle: OracleSpec, domain: Domain, returns: str | None) -> OracleSpec:
    """The oracle with lists made tuples and sets where the domain or the result's annotation says so."""
    result = _result_spec(returns)
    cases = tuple(
        _as_told(case, domain, {} if result is None else {"returns": as_spec(result, case.returns)})
        for case in oracle.cases
    )
    inputs = tuple(_as_told(given, domain, {}) for given in oracle.inputs)
    return oracle.model_copy(update={"cases": cases, "inputs": inputs})


def _result_spec(returns: str | None) -> Spec | None:
    try:
        return None if returns is None else spec_of_hint(returns)
    except HintError:
        return None


def _as_told(given: A, domain: Domain, more: dict[str, Any]) -> A:
    args, kwargs = _values(given.args, given.kwargs, domain.parameters)
    operations = given.operations and tuple(_operation(op, domain) for op in given.operations)
    return given.model_copy(update={"args": args, "kwargs": kwargs, "operations": operations, **more})


def _operation(operation: OperationCase, domain: Domain) -> OperationCase:
    args, _ = _values(operation.args, {}, domain.methods.get(operation.method, {}))
    return operation.model_copy(update={"args": args})


def _values(
    args: tuple[Any, ...], kwargs: dict[str, Any], specs: Mapping[str, Spec]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    told = tuple(as_spec(spec, value) for spec, value in zip(specs.values(), args, strict=False))
    named = {k: as_spec(specs[k], v) if k in specs else v for k, v in kwargs.items()}
    return (*told, *args[len(told) :]), named
