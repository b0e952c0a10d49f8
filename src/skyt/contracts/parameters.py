"""Input domains: what values each parameter takes, and the facts that follow from it."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from homeostat.core.config import ConfigModel

Identifier = Annotated[str, pydantic.Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class IntSpec(ConfigModel):
    """Integers. `min` and `max` are the domain; `sample_min` and `sample_max` only bound what is generated.

    `interesting` values are generated more often than others (squares of primes, say). `draw_from` names
    another parameter: from a list its elements and their neighbours are drawn half of the time, from an
    integer numbers that share factors with it.
    """

    type: Literal["int"] = "int"
    min: int | None = None
    max: int | None = None
    sample_min: int | None = None
    sample_max: int | None = None
    interesting: tuple[int, ...] = ()
    draw_from: Identifier | None = None

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> IntSpec:
        low, high = self.sample_range
        if low > high:
            raise ValueError(f"nothing lies between {low} and {high}")
        return self

    @property
    def sample_range(self) -> tuple[int, int]:
        low = self.sample_min if self.sample_min is not None else self.min
        high = self.sample_max if self.sample_max is not None else self.max
        if low is None:
            low = min(-1000, high if high is not None else 0)
        if high is None:
            high = max(1000, low)
        return max(low, self.min if self.min is not None else low), min(
            high, self.max if self.max is not None else high
        )


class FloatSpec(ConfigModel):
    """Finite floating-point numbers."""

    type: Literal["float"] = "float"
    min: float | None = None
    max: float | None = None


class BoolSpec(ConfigModel):
    type: Literal["bool"] = "bool"


class StrSpec(ConfigModel):
    """Strings over an alphabet (none given: all of Unicode but surrogates).

    `shape` says what structured strings to generate beside random ones: it never narrows the domain.
    """

    type: Literal["str"] = "str"
    alphabet: str | None = None
    min_length: int = 0
    max_length: int | None = None
    sample_length: int = 40
    shape: Literal["text", "brackets", "palindrome"] = "text"


class ListSpec(ConfigModel):
    """Lists of one kind of element, in ascending order when `sorted`, without repeats when `distinct`.

    Elements may be lists or dicts themselves; those have neither an order nor a test for repeats.
    """

    type: Literal["list"] = "list"
    elements: Spec
    min_length: int = 0
    max_length: int | None = None
    sample_length: int = 40
    sorted: bool = False
    distinct: bool = False

    @pydantic.model_validator(mode="after")
    def _comparable(self) -> ListSpec:
        if isinstance(self.elements, ListSpec | DictSpec) and (self.sorted or self.distinct):
            raise ValueError(f"a list of {self.elements.type}s can be neither sorted nor distinct")
        return self


class DictSpec(ConfigModel):
    """Dicts with one kind of key and one kind of value."""

    type: Literal["dict"] = "dict"
    keys: Annotated[IntSpec | StrSpec, pydantic.Field(discriminator="type")]
    values: Spec
    min_length: int = 0
    max_length: int | None = None
    sample_length: int = 12


Spec = Annotated[
    IntSpec | FloatSpec | BoolSpec | StrSpec | ListSpec | DictSpec, pydantic.Field(discriminator="type")
]
ListSpec.model_rebuild()
DictSpec.model_rebuild()


class Domain(ConfigModel):
    """The inputs the contract speaks about: a spec for each parameter, and for those of a class's methods."""

    parameters: dict[str, Spec]
    methods: dict[str, dict[str, Spec]] = pydantic.Field(default_factory=dict)
    max_operations: int = 40


class Facts(ConfigModel):
    """What every in-domain call guarantees of one parameter: the ground that rewriting rules stand on."""

    type: str
    min: int | float | None = None
    max: int | float | None = None
    min_length: int = 0
    max_length: int | None = None
    alphabet: str | None = None
    sorted: bool = False
    distinct: bool = False
    keys: Facts | None = None
    elements: Facts | None = None  # of a list its items, of a dict its values

    @property
    def annotation(self) -> str:
        """The type as it is written in Python: `dict[str, list[int]]`."""
        inside = [facts.annotation for facts in (self.keys, self.elements) if facts is not None]
        return f"{self.type}[{', '.join(inside)}]" if inside else self.type


def facts_of(spec: Spec) -> Facts:
    """The facts that a spec guarantees."""
    if isinstance(spec, DictSpec):
        return Facts(
            type="dict",
            min_length=spec.min_length,
            max_length=spec.max_length,
            keys=facts_of(spec.keys),
            elements=facts_of(spec.values),
        )
    if isinstance(spec, ListSpec):
        return Facts(
            type="list",
            min_length=spec.min_length,
            max_length=spec.max_length,
            sorted=spec.sorted,
            distinct=spec.distinct,
            elements=facts_of(spec.elements),
        )
    if isinstance(spec, StrSpec):
        return Facts(
            type="str", min_length=spec.min_length, max_length=spec.max_length, alphabet=spec.alphabet
        )
    if isinstance(spec, BoolSpec):
        return Facts(type="bool")
    return Facts(type=spec.type, min=spec.min, max=spec.max)


def conditions(name: str, facts: Facts) -> list[str]:
    """Facts about a variable as Python conditions."""
    lines = [f"isinstance({name}, {facts.type})"]
    lines += [f"{name} >= {facts.min}"] * (facts.min is not None)
    lines += [f"{name} <= {facts.max}"] * (facts.max is not None)
    lines += [f"len({name}) >= {facts.min_length}"] * bool(facts.min_length)
    lines += [f"len({name}) <= {facts.max_length}"] * (facts.max_length is not None)
    lines += [f"set({name}) <= set({facts.alphabet!r})"] * (facts.alphabet is not None)
    lines += [f"{name} == sorted({name})"] * facts.sorted
    lines += [f"len(set({name})) == len({name})"] * facts.distinct
    if facts.keys is not None:
        lines.append(_each(facts.keys, name))
    if facts.elements is not None:
        lines.append(_each(facts.elements, name if facts.keys is None else f"{name}.values()"))
    return lines


def _each(facts: Facts, source: str) -> str:
    return f"all({' and '.join(conditions('x', facts))} for x in {source})"
