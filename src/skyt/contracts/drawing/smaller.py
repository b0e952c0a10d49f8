"""The smallest call that still shows something, found by hypothesis from one that does.

A call is written as a row of small choices: keep this item or not, how far from zero is this number. Zero is
always the simpler choice, so what hypothesis shrinks is the call itself, wherever it came from: drawn, listed
in a contract, or made from constants of a program.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.control import BuildContext
from hypothesis.internal.conjecture.data import ConjectureData, ConjectureResult, Status
from hypothesis.internal.conjecture.engine import ConjectureRunner, RunIsComplete
from hypothesis.internal.escalation import InterestingOrigin

from skyt.contracts.contract import Contract, Parameter
from skyt.contracts.domain import Call, Operation, by_name, in_domain, passed
from skyt.contracts.kinds.kind import Choose
from skyt.contracts.specs import Spec

TRIES = 250
_SHOWN = InterestingOrigin(Exception, None, None, (), ())  # there is one thing to be shown


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

    best, verdicts = call, {repr(call): True}
    if repr(_call(contract, call, as_given)) != repr(call) or not taken:
        return call

    def tried(candidate: Call) -> bool:
        nonlocal best
        key = repr(candidate)
        if key not in verdicts:
            verdicts[key] = len(verdicts) <= tries and in_domain(contract, candidate) and shows(candidate)
        if verdicts[key] and weight(candidate) <= weight(best):
            best = candidate
        return verdicts[key]

    @st.composite
    def near(draw: Any) -> Call:
        return _call(contract, call, lambda _chosen, most: draw(st.integers(0, most)))

    def test(data: ConjectureData) -> None:
        with BuildContext(data, wrapped_test=test):
            candidate = data.draw(near())
        if tried(candidate):
            data.mark_interesting(_SHOWN)

    chosen = settings(database=None, max_examples=tries, suppress_health_check=list(HealthCheck))
    runner = ConjectureRunner(test, settings=chosen, random=random.Random(0))
    with contextlib.suppress(RunIsComplete):  # the budget ended in the middle: the best so far stands
        first = runner.cached_test_function(taken, extend="full")
        if isinstance(first, ConjectureResult) and first.status is Status.INTERESTING:
            runner.shrink(first, lambda data: data.status is Status.INTERESTING)
    return best


def weight(call: Call) -> tuple[int, int]:
    """How large a call looks: the number of its operations, and the length of its text."""
    return len(call.operations or ()), len(call.show(""))


def _call(contract: Contract, call: Call, choose: Choose) -> Call:
    domain, entry = contract.domain, contract.entry_point
    args, kwargs = _arguments(entry.parameters, domain.parameters, call.args, call.kwargs, choose)
    if call.operations is None:
        return Call(args, kwargs)
    operations = []
    for op in call.operations:
        if choose(1, 1):
            parameters = entry.method(op.method).parameters
            arguments, _ = _arguments(parameters, domain.methods[op.method], op.args, {}, choose)
            operations.append(Operation(op.method, arguments))
    return Call(args, kwargs, tuple(operations))


def _arguments(
    parameters: tuple[Parameter, ...],
    specs: dict[str, Spec],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    choose: Choose,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    values = by_name(parameters, args, kwargs)
    chosen = [p.name for p in parameters if p.name in values and (p.default is None or choose(1, 1))]
    return passed(parameters, {name: specs[name].smaller(values[name], choose) for name in chosen})
