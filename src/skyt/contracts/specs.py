"""Input domains: what values each parameter takes."""

from __future__ import annotations

import re
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
    """Finite floating-point numbers. `sample_min` and `sample_max` only bound what is generated."""

    type: Literal["float"] = "float"
    min: float | None = None
    max: float | None = None
    sample_min: float | None = None
    sample_max: float | None = None

    @property
    def sample_range(self) -> tuple[float, float]:
        low = self.min if self.sample_min is None else self.sample_min
        high = self.max if self.sample_max is None else self.sample_max
        low = min(-1e3, 0.0 if high is None else high) if low is None else low
        return low, max(1e3, low) if high is None else high

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> FloatSpec:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"nothing lies between {self.min} and {self.max}")
        return self


class BoolSpec(ConfigModel):
    type: Literal["bool"] = "bool"


class NoneSpec(ConfigModel):
    type: Literal["none"] = "none"


class _Sized(ConfigModel):
    """Values with a length. `sample_length` only bounds what is generated."""

    min_length: int = pydantic.Field(default=0, ge=0)
    max_length: int | None = None
    sample_length: int = pydantic.Field(default=40, ge=0)

    @pydantic.model_validator(mode="after")
    def _some_length(self) -> _Sized:
        if self.max_length is not None and self.max_length < self.min_length:
            raise ValueError(f"no length lies between {self.min_length} and {self.max_length}")
        return self

    @property
    def sample_lengths(self) -> tuple[int, int]:
        """The least and the greatest length that is generated."""
        most = self.sample_length if self.max_length is None else min(self.sample_length, self.max_length)
        return self.min_length, max(self.min_length, most)


class StrSpec(_Sized):
    """Strings over an alphabet, or those that a regular expression matches as a whole (neither given: all of
    Unicode but surrogates).

    `shape` says what structured strings to generate beside random ones, and `sample_alphabet` which
    characters to generate them from: neither narrows the domain.
    """

    type: Literal["str"] = "str"
    alphabet: str | None = None
    sample_alphabet: str | None = None
    regex: str | None = None
    shape: Literal["text", "brackets", "palindrome"] = "text"

    @pydantic.model_validator(mode="after")
    def _one_description(self) -> StrSpec:
        if self.alphabet is not None and self.regex is not None:
            raise ValueError("give `alphabet` or `regex`, not both")
        if self.alphabet == "" and self.min_length:
            raise ValueError("an empty alphabet has only the empty string")
        if self.regex is not None:
            try:
                re.compile(self.regex)
            except re.error as error:
                raise ValueError(f"{self.regex!r} is not a regular expression: {error}") from None
        return self


class BytesSpec(_Sized):
    type: Literal["bytes"] = "bytes"


class ListSpec(_Sized):
    """Lists of one kind of element, in ascending order when `sorted`, without repeats when `distinct`."""

    type: Literal["list"] = "list"
    elements: Spec
    sorted: bool = False
    distinct: bool = False

    @pydantic.model_validator(mode="after")
    def _comparable(self) -> ListSpec:
        if self.sorted and not orderable(self.elements):
            raise ValueError(f"a list of {self.elements.type} cannot be sorted")
        if self.distinct and not hashable(self.elements):
            raise ValueError(f"a list of {self.elements.type} cannot be distinct")
        return self


class TupleSpec(_Sized):
    """Tuples: a list of specs, one for each place, or one spec for all places and a length."""

    type: Literal["tuple"] = "tuple"
    elements: tuple[Spec, ...] | Spec

    @pydantic.model_validator(mode="after")
    def _fixed_have_no_length(self) -> TupleSpec:
        if isinstance(self.elements, tuple) and (self.min_length or self.max_length is not None):
            raise ValueError("a tuple with a spec for each place has that length")
        return self


class _Hashing(_Sized):
    """Sets of one kind of element."""

    sample_length: int = pydantic.Field(default=12, ge=0)
    elements: Spec

    @pydantic.model_validator(mode="after")
    def _hashable(self) -> _Hashing:
        if not hashable(self.elements):
            raise ValueError(f"{self.elements.type} cannot be in a set")
        return self


class SetSpec(_Hashing):
    type: Literal["set"] = "set"


class FrozensetSpec(_Hashing):
    type: Literal["frozenset"] = "frozenset"


class DictSpec(_Sized):
    """Dicts with one kind of key and one kind of value."""

    type: Literal["dict"] = "dict"
    sample_length: int = pydantic.Field(default=12, ge=0)
    keys: Spec
    values: Spec

    @pydantic.model_validator(mode="after")
    def _hashable(self) -> DictSpec:
        if not hashable(self.keys):
            raise ValueError(f"{self.keys.type} cannot be the key of a dict")
        return self


class RecordSpec(ConfigModel):
    """Dicts with exactly these string keys, each with values of its own kind."""

    type: Literal["record"] = "record"
    fields: dict[str, Spec]


class OptionalSpec(ConfigModel):
    """None, or a value of a spec."""

    type: Literal["optional"] = "optional"
    of: Spec


class GivenSpec(ConfigModel):
    """Values of any type, of which none can be generated: only the calls that a contract lists are made."""

    type: Literal["given"] = "given"


class UnionSpec(ConfigModel):
    """A value of any of several specs."""

    type: Literal["union"] = "union"
    of: Annotated[tuple[Spec, ...], pydantic.Field(min_length=1)]


Spec = Annotated[
    IntSpec
    | FloatSpec
    | BoolSpec
    | NoneSpec
    | StrSpec
    | BytesSpec
    | ListSpec
    | TupleSpec
    | SetSpec
    | FrozensetSpec
    | DictSpec
    | RecordSpec
    | OptionalSpec
    | UnionSpec
    | GivenSpec,
    pydantic.Field(discriminator="type"),
]
for _model in (ListSpec, TupleSpec, SetSpec, FrozensetSpec, DictSpec, RecordSpec, OptionalSpec, UnionSpec):
    _model.model_rebuild()


class Domain(ConfigModel):
    """The inputs the contract speaks about: a spec for each parameter, and for those of a class's methods.

    A parameter without a spec gets the one that its annotation says. `where` is an expression over the
    parameters that must be true of every call, and `setup` is Python source executed before it. Both run in
    the sandbox.
    """

    parameters: dict[str, Spec] = pydantic.Field(default_factory=dict)
    methods: dict[str, dict[str, Spec]] = pydantic.Field(default_factory=dict)
    max_operations: int = 40
    where: str | None = None
    setup: str = ""


def hashable(spec: Spec) -> bool:
    """Whether every value of a spec can be in a set."""
    if isinstance(spec, TupleSpec | OptionalSpec | UnionSpec):
        return all(hashable(part) for part in parts(spec))
    return not isinstance(spec, ListSpec | SetSpec | DictSpec | RecordSpec)


def orderable(spec: Spec) -> bool:
    """Whether any two values of a spec can be compared by size."""
    if isinstance(spec, ListSpec | TupleSpec):
        return all(orderable(part) for part in parts(spec))
    return isinstance(spec, IntSpec | FloatSpec | BoolSpec | StrSpec | BytesSpec)


def parts(spec: Spec) -> tuple[Spec, ...]:
    """The specs directly inside a spec."""
    if isinstance(spec, DictSpec):
        return spec.keys, spec.values
    if isinstance(spec, RecordSpec):
        return tuple(spec.fields.values())
    if isinstance(spec, TupleSpec | UnionSpec):
        inside = spec.elements if isinstance(spec, TupleSpec) else spec.of
        return inside if isinstance(inside, tuple) else (inside,)
    if isinstance(spec, OptionalSpec):
        return (spec.of,)
    return (spec.elements,) if isinstance(spec, ListSpec | SetSpec | FrozensetSpec) else ()
