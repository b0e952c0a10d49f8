"""Calls drawn from a seed: the same for the same seed and version of hypothesis, on every machine.

Hypothesis's own tests mix in constants that it finds in the source files around it. That would make the calls
depend on where the package is installed, so the drawing here leaves them out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from hypothesis import strategies as st
from hypothesis.control import BuildContext
from hypothesis.errors import StopTest, UnsatisfiedAssumption
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.internal.conjecture.providers import HypothesisProvider

from skyt.contracts.contract import Contract, Parameter
from skyt.contracts.domain import Call, Operation, passed
from skyt.contracts.drawing.near import near
from skyt.contracts.kinds.kind import Kind
from skyt.contracts.kinds.numbers import GivenSpec, IntSpec

MOST_EDGES = 60
_NEAR = 3  # calls near a listed input for each one that is drawn


Values = st.SearchStrategy[Any]


class _Provider(HypothesisProvider):
    """Chance alone, without constants of the surrounding code."""

    def _maybe_draw_constant(self, *_args: Any, **_kwargs: Any) -> None:
        return None


def drawn(strategy: st.SearchStrategy[Any], seed: str) -> Iterator[Any]:
    """Values of a strategy without end; what is drawn at a place depends on the seed and the place alone."""
    number = 0
    while True:
        data = ConjectureData(random=random.Random(f"{seed}:{number}"), provider=_Provider)
        number += 1
        try:
            with BuildContext(data, wrapped_test=drawn):
                value = data.draw(strategy)
            yield value
        except (StopTest, UnsatisfiedAssumption):
            yield None  # nothing that passes the filters, or more choices than hypothesis allows


def inside(contract: Contract, seed: int) -> Iterator[Call | None]:
    """Calls with edges of the domain, then drawn ones, without end; most of them near the listed inputs,
    where there are some."""
    listed = near(contract, seed)
    if any(_only_given(spec) for spec in contract.domain.parameters.values()):
        yield from listed
        while True:
            yield None
    yield from _edge_calls(contract, random.Random(f"{contract.id}:{seed}"))
    for call in drawn(calls(contract), f"{contract.id}:{seed}"):
        yield call
        yield from islice(listed, _NEAR)


def _only_given(spec: Kind) -> bool:
    return isinstance(spec, GivenSpec) or any(map(_only_given, spec.parts))


def outside(contract: Contract, seed: int) -> Iterator[Call | None]:
    """Calls of the right types, whether or not they keep the preconditions, without end."""
    if any(_only_given(spec) for spec in contract.domain.parameters.values()):
        while True:
            yield None
    yield from drawn(calls(contract, lambda spec: spec.widened()), f"outside:{contract.id}:{seed}")


def calls(contract: Contract, change: Callable[[Kind], Kind] = lambda spec: spec) -> Values:
    """Whole calls of a contract's entry point."""
    entry, domain = contract.entry_point, contract.domain
    specs = {name: change(spec) for name, spec in domain.parameters.items()}
    arguments = _arguments(entry.parameters, specs, {name: spec.strategy() for name, spec in specs.items()})
    if entry.kind == "function":
        return arguments.map(lambda chosen: Call(*chosen))
    most = domain.max_operations
    return arguments.flatmap(
        lambda chosen: _operations(contract, chosen[0], most).map(lambda ops: Call(*chosen, ops))
    )


@st.composite
def _arguments(
    draw: Any, parameters: tuple[Parameter, ...], specs: dict[str, Kind], strategies: dict[str, Values]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Values by place and by name. A parameter that draws from another comes after it."""
    values: dict[str, Any] = {}
    for name, spec in sorted(specs.items(), key=lambda item: getattr(item[1], "draw_from", None) is not None):
        source = values.get(getattr(spec, "draw_from", None) or "")
        near = isinstance(spec, IntSpec) and bool(source) and draw(st.integers(0, 9)) < 7
        values[name] = draw(_near(source) if source and near else strategies[name])
    optional = [p.name for p in parameters if not p.keyword_only and p.default is not None]
    left_out = optional[len(optional) - draw(st.integers(0, len(optional))) :] if optional else []
    left_out += [p.name for p in parameters if p.keyword_only and p.default and not draw(st.booleans())]
    return passed(parameters, {name: value for name, value in values.items() if name not in left_out})


def _near(source: int | list[int]) -> Values:
    """An element of a list or a neighbour of one; a number that shares factors with another."""
    if isinstance(source, int):
        divisors = [d for d in range(1, 13) if source % d == 0]
        return st.tuples(st.sampled_from(divisors), st.integers(1, 12)).map(
            lambda by: source // by[0] * by[1]
        )
    return st.tuples(st.sampled_from(source), st.sampled_from([0, 0, 0, 1, -1])).map(sum)


@st.composite
def _operations(draw: Any, contract: Contract, args: tuple[Any, ...], most: int) -> tuple[Operation, ...]:
    """A sequence with few distinct values per parameter name, so that calls affect each other."""
    few = max([2, *(arg for arg in args if type(arg) is int and arg < 12)]) + draw(st.integers(1, 3))
    pools: dict[str, list[Any]] = {}
    for specs in contract.domain.methods.values():
        for name, spec in specs.items():
            pool = pools.setdefault(name, [])
            inside = spec.strategy()
            pool += [draw(inside) for _ in range(few - len(pool))]
    # Some sequences prefer some methods.
    names = [m for m in contract.domain.methods for _ in range(draw(st.integers(1, 3)))]
    length = draw(st.integers(0, most))
    made = []
    for _ in range(length):
        method = draw(st.sampled_from(names))
        chosen = [draw(st.sampled_from(pools[name])) for name in contract.domain.methods[method]]
        made.append(Operation(method, tuple(chosen)))
    return tuple(made)


def _edge_calls(contract: Contract, rng: random.Random) -> Iterator[Call | None]:
    """The edges of all parameters combined; a choice of them where the combinations are many."""
    parameters = contract.entry_point.parameters
    combinations: list[tuple[Any, ...]] = [()]
    for spec in contract.domain.parameters.values():
        options = spec.edges()
        if len(combinations) * len(options) > 20_000:
            options = rng.sample(options, max(1, 20_000 // len(combinations)))
        combinations = [(*head, value) for head in combinations for value in options]
    if len(combinations) > MOST_EDGES:
        rng.shuffle(combinations)
    for row in combinations[:MOST_EDGES]:
        args, kwargs = passed(parameters, dict(zip(contract.domain.parameters, row, strict=True)))
        if contract.entry_point.kind == "function":
            yield Call(args, kwargs)
            continue
        yield Call(args, kwargs, ())
        for most in (3, 12):
            operations = drawn(_operations(contract, args, most), f"{contract.id}:{most}:{row!r}")
            yield Call(args, kwargs, next(operations))
