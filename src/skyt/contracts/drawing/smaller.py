"""The smallest call that still shows something, found by hypothesis from one that does.

A call is written as a row of small choices: keep this item or not, how far from zero is this number. Zero is
always the simpler choice, so what hypothesis shrinks is the call itself, wherever it came from: drawn, listed
in a contract, or made from constants of a program.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.database import InMemoryExampleDatabase, choices_to_bytes
from hypothesis.errors import HypothesisException

from skyt.contracts.contract import Contract, Parameter
from skyt.contracts.domain import Call, Operation, in_domain
from skyt.contracts.membership import fits
from skyt.contracts.specs import (
    BoolSpec,
    BytesSpec,
    DictSpec,
    FloatSpec,
    GivenSpec,
    IntSpec,
    ListSpec,
    NoneSpec,
    OptionalSpec,
    RecordSpec,
    Spec,
    StrSpec,
    TupleSpec,
    UnionSpec,
    parts,
)

TRIES = 250
_KEY = b"call"

Choose = Callable[[int, int], int]  # what the given call chose and the greatest choice -> this call's choice


def smallest(contract: Contract, call: Call, shows: Callable[[Call], bool], tries: int = TRIES) -> Call:
    """The smallest in-domain call found for which `shows` is true; at most `tries` are tried.

    `call` itself must show it. It comes back where nothing smaller does, or where it is outside the domain.
    """
    if not in_domain(contract, call):
        return call
    taken: list[int] = []

    def as_given(chosen: int, most: int) -> int:
        if most:  # hypothesis makes no choice where there is one possibility
            taken.append(chosen)
        return chosen

    best, known = call, {repr(call): True}
    if repr(_call(contract, call, as_given)) != repr(call) or not taken:
        return call

    def tried(candidate: Call) -> bool:
        nonlocal best
        key = repr(candidate)
        if key not in known:
            known[key] = len(known) <= tries and in_domain(contract, candidate) and shows(candidate)
        if known[key] and weight(candidate) <= weight(best):
            best = candidate
        return known[key]

    @st.composite
    def near(draw: Any) -> Call:
        return _call(contract, call, lambda _chosen, most: draw(st.integers(0, most)))

    database = InMemoryExampleDatabase()
    # Under the first key hypothesis expects what has been shrunk already.
    database.save(_KEY + b".secondary", choices_to_bytes(taken))
    chosen = settings(
        database=database,
        phases=(Phase.reuse, Phase.shrink),
        deadline=None,
        max_examples=tries,
        suppress_health_check=list(HealthCheck),
    )
    with contextlib.suppress(HypothesisException):  # the budget ended in the middle: the best so far stands
        find(near(), tried, settings=chosen, database_key=_KEY)
    return best


def weight(call: Call) -> tuple[int, int]:
    """How large a call looks: the number of its operations, and the length of its text."""
    return len(call.operations or ()), len(call.show(""))


def _call(contract: Contract, call: Call, choose: Choose) -> Call:
    domain, entry = contract.domain, contract.entry_point
    placed = [p for p in entry.parameters if not p.keyword_only]
    args = _placed(placed, domain.parameters, call.args, choose)
    by_name = {p.name: p for p in entry.parameters}
    kwargs = {
        name: _value(domain.parameters[name], value, choose)
        for name, value in call.kwargs.items()
        if by_name[name].default is None or choose(1, 1)
    }
    if call.operations is None:
        return Call(args, kwargs)
    operations = []
    for op in call.operations:
        if choose(1, 1):
            specs = domain.methods[op.method]
            given = _placed(list(entry.method(op.method).parameters), specs, op.args, choose)
            operations.append(Operation(op.method, given))
    return Call(args, kwargs, tuple(operations))


def _placed(
    parameters: list[Parameter], specs: dict[str, Spec], values: tuple[Any, ...], choose: Choose
) -> tuple[Any, ...]:
    made = []
    for parameter, value in zip(parameters, values, strict=False):
        if parameter.default is not None and not choose(1, 1):
            break  # it and those after it are left out
        made.append(_value(specs[parameter.name], value, choose))
    return tuple(made)


def _value(spec: Spec, value: Any, choose: Choose) -> Any:
    """The value, or a simpler one."""
    if isinstance(spec, IntSpec):
        return _towards(value, spec.min, spec.max, choose)
    if isinstance(spec, FloatSpec):
        return _decimal(spec, value, choose)
    if isinstance(spec, BoolSpec):
        return bool(choose(int(value), 1))
    if isinstance(spec, NoneSpec | GivenSpec):
        return value
    if isinstance(spec, OptionalSpec):
        return None if value is None or not choose(1, 1) else _value(spec.of, value, choose)
    if isinstance(spec, UnionSpec):
        return _value(next(option for option in spec.of if fits(option, value)), value, choose)
    if isinstance(spec, RecordSpec):
        return {name: _value(spec.fields[name], item, choose) for name, item in value.items()}
    if isinstance(spec, TupleSpec) and isinstance(spec.elements, tuple):
        return tuple(_value(part, item, choose) for part, item in zip(spec.elements, value, strict=True))
    if isinstance(spec, DictSpec):
        return {
            _value(spec.keys, key, choose): _value(spec.values, item, choose)
            for key, item in value.items()
            if choose(1, 1)
        }
    if isinstance(spec, StrSpec):
        return "".join(_letter(spec, letter, choose) for letter in value if choose(1, 1))
    if isinstance(spec, BytesSpec):
        return bytes(choose(byte, 255) for byte in value if choose(1, 1))
    items = list(value) if isinstance(spec, ListSpec | TupleSpec) else sorted(value, key=repr)
    made = [_value(parts(spec)[0], item, choose) for item in items if choose(1, 1)]
    if isinstance(spec, ListSpec):
        return sorted(made) if spec.sorted else made
    return {"tuple": tuple, "set": set, "frozenset": frozenset}[spec.type](made)


def _decimal(spec: FloatSpec, value: float, choose: Choose) -> float:
    """A number with fewer decimals, or nearer to the simplest with as many."""
    exact = next((n for n in range(3) if repr(round(value * 10**n) / 10**n) == repr(value)), 3)
    decimals = choose(exact, 3)
    if decimals == 3:
        return value
    unit = float(10**decimals)
    low = None if spec.min is None else math.ceil(spec.min * unit)
    high = None if spec.max is None else math.floor(spec.max * unit)
    return _towards(round(value * unit), low, high, choose) / unit


def _letter(spec: StrSpec, letter: str, choose: Choose) -> str:
    """The letter or an `a`; of an alphabet an earlier one, and under a pattern an earlier one of its kind."""
    if spec.alphabet is not None:
        place = spec.alphabet.index(letter)
        return spec.alphabet[choose(place, place)]
    for first, last in ("09", "az", "AZ"):
        if spec.regex is not None and first <= letter <= last:
            place = ord(letter) - ord(first)
            return chr(ord(first) + choose(place, place))
    return letter if choose(int(letter != "a"), 1) else "a"


def _towards(value: int, low: int | None, high: int | None, choose: Choose) -> int:
    """A number between the simplest of the domain and this one."""
    simple = max(0, low) if low is not None else 0
    simple = min(simple, high) if high is not None else simple
    distance = choose(abs(value - simple), abs(value - simple))
    return simple + distance if value > simple else simple - distance
