"""The smallest call that still shows something, found by hypothesis from one that does.

A call is written as a row of small choices: keep this item or not, how far from zero is this number. Zero is
always the simpler choice, so what hypothesis shrinks is the call itself, wherever it came from: drawn, listed
in a contract, or made from constants of a program.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.database import InMemoryExampleDatabase, choices_to_bytes
from hypothesis.errors import HypothesisException

from skyt.contracts.contract import Contract, Parameter
from skyt.contracts.domain import Call, Operation, in_domain
from skyt.contracts.kinds.kind import Choose
from skyt.contracts.specs import Spec

TRIES = 250
_KEY = b"call"


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
        name: domain.parameters[name].smaller(value, choose)
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
        made.append(specs[parameter.name].smaller(value, choose))
    return tuple(made)
