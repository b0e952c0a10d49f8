"""Facts: what the contract guarantees of every in-domain call, in the form that rules ask for.

A rule never guesses. Types, bounds and public names come from here (or are inferred from the program
itself); where a fact is missing, the rule that needs it does not fire.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from skyt.contracts.contract import Contract
from skyt.contracts.contract import Facts as ParameterFacts
from skyt.contracts.contract import Parameter as ContractParameter
from skyt.repair.rules.analysis.types import ANY, Type, kind, parse_type


@dataclass(frozen=True)
class Parameter:
    """One parameter of the entry point: its type, and bounds on its value (or on its length)."""

    name: str
    type: Type = ANY
    min: int | None = None
    max: int | None = None
    ascii: bool = False
    nonempty: bool = False  # a str or list that has at least one element


@dataclass(frozen=True)
class Facts:
    """What rules may assume about the program's callers.

    `out_of_domain_free`: nothing is promised outside the domain, so code that only runs there may go.
    `positional`: callers pass arguments by position, so parameter names are private.
    """

    kind: Literal["function", "class"] = "function"
    name: str = ""
    parameters: tuple[Parameter, ...] = ()
    methods: dict[str, tuple[Parameter, ...]] = field(default_factory=dict)
    returns: Type = ANY
    public: frozenset[str] = frozenset()
    out_of_domain_free: bool = False
    positional: bool = True

    @staticmethod
    def from_contract(contract: Contract) -> Facts:
        """Where the contract speaks about calls outside the domain, facts that they break are not facts."""
        entry = contract.entry_point
        parameters = _parameters(contract.facts(), entry.parameters)
        methods = {m.name: _parameters(contract.facts(m.name), m.parameters) for m in entry.methods}
        named = any(p.keyword_only for p in entry.parameters)
        if contract.out_of_domain.policy != "any":
            parameters = tuple(
                _without_domain(p, [c.args[i] for c in contract.out_of_domain.calls if i < len(c.args)])
                for i, p in enumerate(parameters)
            )
            methods = {name: tuple(Parameter(p.name) for p in ps) for name, ps in methods.items()}
        return Facts(
            kind=entry.kind,
            name=entry.name,
            parameters=parameters,
            methods=methods,
            returns=parse_type(entry.returns) if entry.gives == "value" else ANY,
            public=entry.public_names,
            out_of_domain_free=contract.out_of_domain.policy == "any",
            positional=contract.constraints.naming == "lenient" and not named,
        )

    def without_bounds(self, names: set[str]) -> Facts:
        """The facts without bounds on the parameters of these methods (`__init__` is the constructor)."""
        if not names & {"__init__", *self.methods}:
            return self
        free = {n: tuple(map(_unbounded, ps)) for n, ps in self.methods.items() if n in names}
        kept = self.unbounded() if "__init__" in names else self
        return replace(kept, methods={**self.methods, **free})

    def unbounded(self) -> Facts:
        """The facts without bounds on the parameters of the function or constructor."""
        return replace(self, parameters=tuple(map(_unbounded, self.parameters)))

    def of(self, function: str) -> tuple[Parameter, ...]:
        """The parameters of a public function or method (`__init__` is the constructor)."""
        if self.kind == "class":
            return self.parameters if function == "__init__" else self.methods.get(function, ())
        return self.parameters if function == self.name else ()


def _unbounded(parameter: Parameter) -> Parameter:
    return replace(parameter, min=None, max=None, nonempty=False)


def _parameters(
    facts: dict[str, ParameterFacts], parameters: tuple[ContractParameter, ...]
) -> tuple[Parameter, ...]:
    """The parameters that every call passes by position: about others nothing is known."""
    always = [p.name for p in parameters if p.default is None and not p.keyword_only]
    return tuple(_parameter(name, facts[name]) for name in always)


def _without_domain(parameter: Parameter, seen: list[Any]) -> Parameter:
    """A parameter whose type still holds for the out-of-domain arguments seen, without bounds."""
    kept = all(type(value).__name__ == kind(parameter.type) for value in seen)
    return Parameter(parameter.name, parameter.type if kept else ANY)


def _parameter(name: str, fact: ParameterFacts) -> Parameter:
    whole = fact.type == "int"
    return Parameter(
        name=name,
        type=parse_type(fact.annotation),
        min=int(fact.min) if whole and fact.min is not None else None,
        max=int(fact.max) if whole and fact.max is not None else None,
        ascii=fact.alphabet is not None and fact.alphabet.isascii(),
        nonempty=fact.type in {"str", "list"} and fact.min_length > 0,
    )
