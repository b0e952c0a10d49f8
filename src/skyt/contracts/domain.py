"""The input domain of a contract: calls inside it, generated from a seed, and the test of membership."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from skyt.contracts import codec
from skyt.contracts import values as shapes
from skyt.contracts.contract import Contract
from skyt.contracts.membership import fits
from skyt.contracts.show import show
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
        data: dict[str, Any] = {"args": [codec.encode(arg) for arg in self.args]}
        if self.kwargs:
            data["kwargs"] = {name: codec.encode(value) for name, value in self.kwargs.items()}
        if self.operations is not None:
            data["operations"] = [
                [op.method, [codec.encode(arg) for arg in op.args]] for op in self.operations
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
        parts = [_shown(arg) for arg in self.args] + [f"{k}={_shown(v)}" for k, v in self.kwargs.items()]
        text = f"{name}({', '.join(parts)})"
        for op in self.operations or ():
            text += f"; {op.method}({', '.join(_shown(arg) for arg in op.args)})"
        return text


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # an integer of more digits than Python converts
        return show(codec.dumps(value))


def generate_inputs(contract: Contract, n: int, seed: int) -> list[Call]:
    """`n` in-domain calls, the same for the same seed and none twice where the domain allows it.

    First the boundaries, then structure-aware and random ones, and mutations of earlier calls. A longer list
    begins with the shorter one.
    """
    rng = random.Random(f"{contract.id}:{seed}")
    calls: list[Call] = []
    seen: set[str] = set()

    def add(call: Call) -> None:
        key = repr(call)
        if key not in seen and len(calls) < n and in_domain(contract, call) and affordable(contract, call):
            seen.add(key)
            calls.append(call)

    for call in _boundary_calls(contract, rng):
        add(call)
    misses = 0
    while len(calls) < n and misses < 20 * n + 200:
        before = len(calls)
        add(mutate(rng.choice(calls), rng) if calls and rng.random() < 0.25 else _random_call(contract, rng))
        misses += len(calls) == before
    while calls and len(calls) < n:  # a domain smaller than n: go round again
        calls.append(calls[len(calls) % len(seen)])
    return calls


def generate_outside(contract: Contract, n: int, seed: int) -> list[Call]:
    """Calls of the right types that break a precondition; empty where the domain has none to break."""
    rng = random.Random(f"outside:{contract.id}:{seed}")
    calls: list[Call] = []
    seen: set[str] = set()
    for _ in range(30 * n):
        call = _random_call(contract, rng, widen=True)
        if len(calls) < n and repr(call) not in seen and not in_domain(contract, call):
            seen.add(repr(call))
            calls.append(call)
    return calls


def in_domain(contract: Contract, call: Call) -> bool:
    """Whether the contract speaks about this call."""
    domain = contract.domain
    if call.kwargs or not _fit(domain.parameters, call.args):
        return False
    if contract.entry_point.kind == "function":
        return call.operations is None
    return call.operations is not None and all(
        op.method in domain.methods and _fit(domain.methods[op.method], op.args) for op in call.operations
    )


def affordable(contract: Contract, call: Call) -> bool:
    """Whether a call stays within the sizes the contract wants to be generated."""
    domain = contract.domain
    if not all(shapes.affordable(s, v) for s, v in zip(domain.parameters.values(), call.args, strict=True)):
        return False
    return len(call.operations or ()) <= domain.max_operations


def mutate(call: Call, rng: random.Random) -> Call:
    """A call near an earlier one. It may leave the domain: callers ask `in_domain`."""
    if call.operations and rng.random() < 0.9:
        return Call(call.args, call.kwargs, _mutate_operations(call.operations, rng))
    if not call.args:
        return call
    args = list(call.args)
    at = rng.randrange(len(args))
    args[at] = shapes.mutate_value(args[at], rng)
    return Call(tuple(args), call.kwargs, call.operations)


def _mutate_operations(operations: tuple[Operation, ...], rng: random.Random) -> tuple[Operation, ...]:
    ops = list(operations)
    at = rng.randrange(len(ops))
    match rng.randrange(4):
        case 0:
            del ops[at]
        case 1:
            ops.insert(rng.randrange(len(ops) + 1), ops[at])
        case 2:
            other = rng.randrange(len(ops))
            ops[at], ops[other] = ops[other], ops[at]
        case _ if ops[at].args:
            donors = [op.args for op in ops if len(op.args) == len(ops[at].args)]
            ops[at] = Operation(ops[at].method, rng.choice(donors))
    return tuple(ops)


def _fit(specs: dict[str, Spec], args: tuple[Any, ...]) -> bool:
    return len(args) == len(specs) and all(
        fits(spec, value) for spec, value in zip(specs.values(), args, strict=True)
    )


def _boundary_calls(contract: Contract, rng: random.Random) -> list[Call]:
    """The boundary values of all parameters combined; a random choice where the combinations are many."""
    options = [shapes.boundary(spec) for spec in contract.domain.parameters.values()]
    combinations: list[tuple[Any, ...]] = [()]
    for values in options:
        combinations = [(*head, value) for head in combinations for value in values]
    if len(combinations) > 60:
        rng.shuffle(combinations)
        combinations = combinations[:60]
    if contract.entry_point.kind == "function":
        return [Call(args) for args in combinations]
    return [
        Call(args, {}, _operations(contract, args, rng, length))
        for args in combinations
        for length in (0, 3, 12)
    ]


def _random_call(contract: Contract, rng: random.Random, *, widen: bool = False) -> Call:
    args = _draw(contract.domain.parameters, rng, widen)
    if contract.entry_point.kind == "function":
        return Call(args)
    length = rng.randint(1, contract.domain.max_operations)
    return Call(args, {}, _operations(contract, args, rng, length))


def _draw(specs: dict[str, Spec], rng: random.Random, widen: bool) -> tuple[Any, ...]:
    """One value per parameter. A parameter that draws from another comes after it."""
    drawn: dict[str, Any] = {}
    for name, spec in sorted(specs.items(), key=lambda item: getattr(item[1], "draw_from", None) is not None):
        source = drawn.get(getattr(spec, "draw_from", None) or "")
        if source and rng.random() < 0.7:
            drawn[name] = shapes.draw_near(source, rng)
        else:
            drawn[name] = shapes.draw(spec, rng, widen=widen)
    return tuple(drawn[name] for name in specs)


def _operations(
    contract: Contract, args: tuple[Any, ...], rng: random.Random, length: int
) -> tuple[Operation, ...]:
    """A sequence with few distinct values per parameter name, so that calls affect each other."""
    few = max([2, *(arg for arg in args if type(arg) is int and arg < 12)]) + rng.choice((1, 2, 3))
    pools: dict[str, list[Any]] = {}
    for specs in contract.domain.methods.values():
        for name, spec in specs.items():
            pool = pools.setdefault(name, [])
            pool += [shapes.draw(spec, rng) for _ in range(few - len(pool))]
    names = list(contract.domain.methods)
    weights = [rng.uniform(0.3, 1.0) for _ in names]
    operations = []
    for method in rng.choices(names, weights, k=length):
        specs = contract.domain.methods[method]
        operations.append(Operation(method, tuple(rng.choice(pools[name]) for name in specs)))
    return tuple(operations)
