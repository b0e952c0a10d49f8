"""The calls on which two programs are compared.

Oracle cases, the contract's generated inputs (boundary, structure-aware, random, mutated), and calls made
from the constants in the two programs, which reach branches that chance would not. Then calls outside the
domain.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from skyt.contracts.contract import Case, Contract
from skyt.contracts.domain import Call, Operation, affordable, generate_inputs, generate_outside, in_domain
from skyt.text.parsing import parse

MAX_HARVESTED = 200
OUTSIDE = 60


@dataclass(frozen=True)
class Battery:
    """Calls inside the domain, in the order in which they are tried, and calls outside."""

    inside: tuple[Call, ...]
    outside: tuple[Call, ...]


@lru_cache(maxsize=64)
def _shared(key: str, n: int, seed: int, holder: _Holder) -> tuple[tuple[Call, ...], tuple[Call, ...]]:
    contract = holder.contract
    cases = tuple(_call(case) for case in contract.oracle.cases)
    listed = tuple(_call(case) for case in contract.out_of_domain.calls)
    inside = (*cases, *generate_inputs(contract, n, seed))
    return inside, (*listed, *generate_outside(contract, OUTSIDE, seed))


@dataclass(frozen=True)
class _Holder:
    """A contract as part of a cache key, by its hash."""

    contract: Contract

    def __hash__(self) -> int:
        return hash(self.contract.hash)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Holder) and other.contract.hash == self.contract.hash


def battery(contract: Contract, n: int, seed: int) -> Battery:
    """At least `n` generated calls; the same for the same contract, number and seed."""
    inside, outside = _shared(contract.hash, n, seed, _Holder(contract))
    return Battery(inside, outside)


def harvested(contract: Contract, programs: tuple[str, str], seed: int) -> list[Call]:
    """In-domain calls made from the constants that occur in the programs, and from their neighbours."""
    rng = random.Random(f"harvest:{contract.id}:{seed}")
    constants = list(dict.fromkeys(v for program in programs for v in _constants(program)))
    if not constants:
        return []
    base = generate_inputs(contract, 40, seed)
    found: dict[str, Call] = {}
    for _ in range(4 * MAX_HARVESTED):
        call = _with_constant(rng.choice(base), rng.choice(constants), rng)
        if call is not None and in_domain(contract, call) and affordable(contract, call):
            found.setdefault(repr(call), call)
        if len(found) >= MAX_HARVESTED:
            break
    return list(found.values())


def _constants(program: str) -> Iterator[Any]:
    try:
        tree = parse(program)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) in (int, str):
            value = node.value
            yield value
            if isinstance(value, int) and abs(value) < 10**6:
                yield from (value - 1, value + 1, -value)


def _with_constant(call: Call, constant: Any, rng: random.Random) -> Call | None:
    """The call with one value replaced by, or mixed with, a constant of the same type."""
    if call.operations:
        ops = list(call.operations)
        at = rng.randrange(len(ops))
        args = _mixed(ops[at].args, constant, rng)
        if args is None:
            return None
        ops[at] = Operation(ops[at].method, args)
        return Call(call.args, call.kwargs, tuple(ops))
    args = _mixed(call.args, constant, rng)
    return None if args is None else Call(args, call.kwargs, call.operations)


def _mixed(args: tuple[Any, ...], constant: Any, rng: random.Random) -> tuple[Any, ...] | None:
    if not args:
        return None
    at = rng.randrange(len(args))
    mixed = _mix(args[at], constant, rng)
    return None if mixed is None else (*args[:at], mixed, *args[at + 1 :])


def _mix(value: Any, constant: Any, rng: random.Random) -> Any:
    """A value with the constant in it; None where it does not fit. Inside a container, at one place."""
    if isinstance(value, str) and isinstance(constant, str):
        cut = rng.randrange(len(value) + 1)
        return rng.choice(
            [constant, value[:cut] + constant + value[cut:], constant + value, value + constant]
        )
    if type(value) is int and type(constant) is int:
        return constant
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        other = _mix(key, constant, rng) if rng.random() < 0.5 else None
        mixed = _mix(value[key], constant, rng) if other is None else value[key]
        return None if mixed is None else value | {key if other is None else other: mixed}
    if isinstance(value, list) and any(isinstance(item, list | dict) for item in value):
        at = rng.randrange(len(value))
        mixed = _mix(value[at], constant, rng)
        return None if mixed is None else [*value[:at], mixed, *value[at + 1 :]]
    if isinstance(value, list) and type(constant) is int and all(type(v) is int for v in value):
        cut = rng.randrange(len(value) + 1)
        grown = [*value[:cut], constant, *value[cut:]]
        return sorted(grown) if value == sorted(value) and rng.random() < 0.5 else grown
    return None


def _call(case: Case) -> Call:
    operations = case.operations
    ops = None if operations is None else tuple(Operation(op.method, tuple(op.args)) for op in operations)
    return Call(tuple(case.args), {}, ops)
