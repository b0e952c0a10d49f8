"""The values that lists in YAML stand for, where the domain says so: tuples and sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from skyt.contracts.expectations import Arguments, OperationCase, OracleSpec
from skyt.contracts.hints import HintError, spec_of_hint
from skyt.contracts.specs import Domain, Spec

A = TypeVar("A", bound=Arguments)


def coerced(oracle: OracleSpec, domain: Domain, returns: str | None) -> OracleSpec:
    """The oracle with lists made tuples and sets where the domain or the result's annotation says so."""
    result = _result_spec(returns)
    cases = tuple(
        _as_told(case, domain, {} if result is None else {"returns": result.coerced(case.returns)})
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
    told = tuple(spec.coerced(value) for spec, value in zip(specs.values(), args, strict=False))
    named = {k: specs[k].coerced(v) if k in specs else v for k, v in kwargs.items()}
    return (*told, *args[len(told) :]), named
