"""What a contract expects of its entry point: cases, properties, equality, calls outside the domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pydantic

from homeostat.core.config import ConfigModel
from skyt.contracts.kinds.numbers import Identifier
from skyt.contracts.literals import Value
from skyt.text.parsing import parse, parse_expression


class OperationCase(ConfigModel):
    """One call of a method in a sequence: `[name, args]` with what it returns."""

    method: Identifier
    args: tuple[Value, ...] = ()
    returns: Value = None


class Arguments(ConfigModel):
    """One call. Values are plain YAML, or `{python: "(1, 2)"}`; `operations` is for classes.

    Where the contract says that a value is a tuple or a set, a list is read as one.
    """

    args: tuple[Value, ...] = ()
    kwargs: dict[Identifier, Value] = pydantic.Field(default_factory=dict)
    operations: tuple[OperationCase, ...] | None = None


class Case(Arguments):
    """A worked example: what a call returns, or the exception it raises. What an operation returns stands
    with the operation.

    For a generator `returns` is the list of its items, for a coroutine what it returns when it is awaited.
    """

    returns: Value = None
    raises: str | None = None
    note: str = ""


class Property(ConfigModel):
    """A statement about every in-domain call.

    Exactly one of these forms:
    - `reference`: Python source that defines the entry point itself; results must be equal.
    - `readings`: several such sources, where the prompt can be read in more than one way; the program must
      follow the same one everywhere.
    - `holds`: an expression over the parameters and `result`.
    - `then` with `holds`: call again with the arguments (a tuple) that `then` gives; its result is `again`.

    `when` is an expression over the parameters that limits a property to some of the calls; `setup` is Python
    source executed before the expressions. Contract code runs in the sandbox, too, in a process of its own,
    never beside the program it judges.
    """

    name: str
    reference: str | None = None
    readings: dict[str, str] | None = None
    holds: str | None = None
    then: str | None = None
    when: str | None = None
    setup: str = ""

    @pydantic.model_validator(mode="after")
    def _one_form(self) -> Property:
        forms = [self.reference, self.readings, self.holds]
        if sum(form is not None for form in forms) != 1:
            raise ValueError("give exactly one of `reference`, `readings`, `holds`")
        if self.then is not None and self.holds is None:
            raise ValueError("`then` needs `holds`")
        sources = [self.reference, *(self.readings or {}).values(), self.setup]
        for source in filter(None, sources):
            check_syntax(parse, source, "is not Python")
        for expression in filter(None, (self.holds, self.then, self.when)):
            check_syntax(parse_expression, expression.strip(), "is not an expression")
        return self


class OracleSpec(ConfigModel):
    """Cases, properties, how many inputs to generate, whether arguments may be changed, and what is equal.

    `inputs` are calls without results: the properties say what is right for them, as for generated ones.
    `tests` is the source of tests as pytest reads them, which must pass. `solution` is a program that
    complies: it judges nothing and is there to be changed a little, to see what the oracle notices.

    Results are equal by exact type and value. Dicts are compared without regard to order unless `ordered`.
    Floats are compared exactly, or within `atol` or `rtol` (the larger of `atol` and `rtol` times the larger
    magnitude, as in `math.isclose`). NaN equals NaN, and 0.0 equals -0.0.

    `equality: python` compares as `==` does: 1, 1.0 and True are equal, and so are a `Counter` and its dict.
    There, floats (and lists of floats) are within 1e-6, or all numbers within `atol`, plus 1e-7 of their
    size.
    """

    cases: tuple[Case, ...] = ()
    inputs: tuple[Arguments, ...] = ()
    properties: tuple[Property, ...] = ()
    tests: str = ""
    solution: str = ""
    generated: int = pydantic.Field(default=200, ge=0)
    mutates_arguments: bool = False
    ordered: bool = False
    equality: Literal["exact", "python"] = "exact"
    atol: float = pydantic.Field(default=0.0, ge=0, allow_inf_nan=False)
    rtol: float = pydantic.Field(default=0.0, ge=0, lt=1)
    seconds: float | None = pydantic.Field(
        default=None,
        gt=0,
        le=600,
        description="CPU time of one program for all calls, where the sandbox's own limit is less; "
        "a single call has 1 s",
    )

    @pydantic.model_validator(mode="after")
    def _judged(self) -> OracleSpec:
        if self.inputs and not self.properties:
            raise ValueError("`inputs` have no results: give a property, such as a reference, to judge them")
        return self

    @property
    def tried(self) -> int:
        """How many calls a program is judged on, at most."""
        return len(self.cases) + len(self.inputs) + (self.generated if self.properties else 0)

    @property
    def decides(self) -> bool:
        """Whether anything can be called compliant by it."""
        return bool(self.cases or self.tests or (self.properties and (self.inputs or self.generated)))


class OutOfDomain(ConfigModel):
    """What calls outside the domain must do.

    `any`: nothing is promised, so programs may differ there. `raises`: each call in `calls` must raise one of
    `exceptions`. `specified`: `calls` carry the result they must give.
    """

    policy: Literal["any", "raises", "specified"] = "any"
    exceptions: tuple[str, ...] = ("ValueError", "TypeError")
    calls: tuple[Case, ...] = ()

    @pydantic.model_validator(mode="after")
    def _calls_fit_policy(self) -> OutOfDomain:
        if (self.policy == "any") == bool(self.calls):
            raise ValueError("`calls` belong to the policies `raises` and `specified`, which need some")
        return self


def check_syntax(parser: Callable[[str], object], text: str, complaint: str) -> None:
    try:
        parser(text)
    except SyntaxError as error:
        raise ValueError(f"{text.strip().splitlines()[0]!r} {complaint}: {error.msg}") from None
