"""The input domain of a contract: calls inside it, drawn from a seed, and the test of membership.

The preconditions of `domain.where` are not looked at here: they run in the sandbox, see `skyt.oracle.inputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from skyt.contracts import codec
from skyt.contracts.contract import Arguments, Contract, Parameter
from skyt.contracts.literals import read_literal, write_literal
from skyt.contracts.specs import Spec


@dataclass(frozen=True)
class Operation:
    """One method call in a sequence on an object."""

    method: str
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Call:
    """One call of the entry point; for a class, the constructor's arguments and the operations after it."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    operations: tuple[Operation, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON that keeps tuples, bytes, NaN and big integers apart from their look-alikes."""
        data: dict[str, Any] = {"args": [codec.encode(arg, whole=True) for arg in self.args]}
        if self.kwargs:
            data["kwargs"] = {name: codec.encode(value, whole=True) for name, value in self.kwargs.items()}
        if self.operations is not None:
            data["operations"] = [
                [op.method, [codec.encode(arg, whole=True) for arg in op.args]] for op in self.operations
            ]
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Call:
        operations = data.get("operations")
        return cls(
            tuple(codec.decode(arg) for arg in data["args"]),
            {name: codec.decode(value) for name, value in data.get("kwargs", {}).items()},
            None
            if operations is None
            else tuple(Operation(m, tuple(codec.decode(arg) for arg in args)) for m, args in operations),
        )

    def show(self, name: str) -> str:
        """The call as a person would type it: `gcd(48, 18)`."""
        shown = [write_literal(arg) for arg in self.args]
        shown += [f"{k}={write_literal(v)}" for k, v in self.kwargs.items()]
        text = f"{name}({', '.join(shown)})"
        for op in self.operations or ():
            text += f"; {op.method}({', '.join(map(write_literal, op.args))})"
        return text

    @classmethod
    def of(cls, listed: Arguments) -> Call:
        """The call that a case or an input of a contract speaks of."""
        operations = listed.operations
        made = None if operations is None else tuple(Operation(op.method, op.args) for op in operations)
        return cls(listed.args, listed.kwargs, made)


IDLE = 400  # draws in a row that bring nothing new: the domain is used up


def generate_inputs(contract: Contract, n: int, seed: int) -> list[Call]:
    """`n` in-domain calls, the same for the same seed and none twice where the domain allows it.

    First the edges of the domain, then drawn ones. A longer list begins with the shorter one. Lists are drawn
    once and kept in the cache directory.
    """
    from skyt.contracts.drawing.cache import cached

    def draw() -> list[Call]:
        from skyt.contracts.drawing import draw as drawing

        calls = _distinct(
            drawing.inside(contract, seed),
            n,
            lambda call: in_domain(contract, call) and affordable(contract, call),
        )
        count = len(calls)
        return calls + [calls[i % count] for i in range(n - count)] if count else []

    return cached(contract, "inside", n, seed, draw)


def generate_outside(contract: Contract, n: int, seed: int) -> list[Call]:
    """Calls of the right types that break a precondition; empty where the domain has none to break."""
    from skyt.contracts.drawing.cache import cached

    def draw() -> list[Call]:
        from skyt.contracts.drawing import draw as drawing

        return _distinct(drawing.outside(contract, seed), n, lambda call: not in_domain(contract, call))

    return cached(contract, "outside", n, seed, draw)


def _distinct(stream: Iterator[Call | None], n: int, wanted: Callable[[Call], bool]) -> list[Call]:
    calls: dict[str, Call] = {}
    idle = 0
    while len(calls) < n and idle < IDLE:
        call = next(stream)
        idle += 1
        if call is not None and wanted(call) and calls.setdefault(repr(call), call) is call:
            idle = 0
    return list(calls.values())


def in_domain(contract: Contract, call: Call) -> bool:
    """Whether the types and bounds of the contract admit this call."""
    domain, entry = contract.domain, contract.entry_point
    if not _admits(entry.parameters, domain.parameters, call.args, call.kwargs):
        return False
    if entry.kind == "function":
        return call.operations is None
    return call.operations is not None and all(
        op.method in domain.methods
        and _admits(entry.method(op.method).parameters, domain.methods[op.method], op.args, {})
        for op in call.operations
    )


def _admits(
    parameters: tuple[Parameter, ...], specs: dict[str, Spec], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Whether values by place and by name are those of the parameters, and no necessary one is missing."""
    values = by_name(parameters, args, kwargs)
    return (
        passed(parameters, values) == (args, kwargs)
        and all(p.name in values or p.default is not None for p in parameters)
        and all(specs[name].fits(value) for name, value in values.items())
    )


def by_name(
    parameters: Sequence[Parameter], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by the names of their parameters; those that it leaves out are not there."""
    placed = (p.name for p in parameters if not p.keyword_only)
    return {**dict(zip(placed, args, strict=False)), **kwargs}


def passed(
    parameters: Sequence[Parameter], values: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Values as a call passes them: by place up to the first that is left out, keyword-only ones by name."""
    placed = takewhile(values.__contains__, (p.name for p in parameters if not p.keyword_only))
    named = (p.name for p in parameters if p.keyword_only and p.name in values)
    return tuple(values[name] for name in placed), {name: values[name] for name in named}


def bound(contract: Contract, call: Call) -> tuple[Any, ...]:
    """A value for every parameter in order: the contract's default for those that the call leaves out."""
    parameters = contract.entry_point.parameters
    values = by_name(parameters, call.args, call.kwargs)
    defaults = {p.name: None if p.default is None else read_literal(p.default) for p in parameters}
    return tuple(values.get(name, default) for name, default in defaults.items())


def affordable(contract: Contract, call: Call) -> bool:
    """Whether a call stays within the sizes the contract wants to be generated."""
    specs = contract.domain.parameters
    values = by_name(contract.entry_point.parameters, call.args, call.kwargs)
    if not all(specs[name].affordable(value) for name, value in values.items() if name in specs):
        return False
    return len(call.operations or ()) <= contract.domain.max_operations
