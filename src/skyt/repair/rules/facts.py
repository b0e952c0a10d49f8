"""Facts: what the contract guarantees of every in-domain call, in the form that rules ask for.

A rule never guesses: where a fact is missing, the rule that needs it does not fire.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from skyt.contracts.contract import Contract
from skyt.contracts.contract import Facts as ParameterFacts
from skyt.contracts.contract import Parameter as ContractParameter
from skyt.repair.rules.analysis.types import ANY, Type, parse_type


@dataclass(frozen=True)
class Parameter:
    """One parameter of the entry point: its type, and bounds on its value (or on its length)."""

    name: str
    type: Type = ANY
    min: int | None = None
    max: int | None = None
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
        """Where the contract speaks about calls outside the domain, nothing is known of a parameter."""
        entry, free = contract.entry_point, contract.out_of_domain.policy == "any"
        named = any(p.keyword_only for p in entry.parameters)
        return Facts(
            kind=entry.kind,
            name=entry.name,
            parameters=_parameters(contract.facts(), entry.parameters, free),
            methods={m.name: _parameters(contract.facts(m.name), m.parameters, free) for m in entry.methods},
            returns=parse_type(entry.returns) if entry.gives == "value" else ANY,
            public=entry.public_names,
            out_of_domain_free=free,
            positional=contract.constraints.naming == "lenient" and not named,
        )

    def without_bounds(self, used: set[str]) -> Facts:
        """The facts without bounds on the parameters of what the program itself may call: they are promised
        of other callers only. It uses names, and attributes (`.name`)."""
        if used.isdisjoint({self.name, ".__init__", *("." + n for n in self.methods)}):
            return self
        methods = {n: tuple(map(_unbounded, ps)) if "." + n in used else ps for n, ps in self.methods.items()}
        free = tuple(map(_unbounded, self.parameters)) if {self.name, ".__init__"} & used else self.parameters
        return replace(self, parameters=free, methods=methods)

    def of(self, function: str) -> tuple[Parameter, ...]:
        """The parameters of a public function or method (`__init__` is the constructor)."""
        if self.kind == "class":
            return self.parameters if function == "__init__" else self.methods.get(function, ())
        return self.parameters if function == self.name else ()


def _unbounded(parameter: Parameter) -> Parameter:
    return replace(parameter, min=None, max=None, nonempty=False)


def _parameters(
    facts: dict[str, ParameterFacts], parameters: tuple[ContractParameter, ...], promised: bool
) -> tuple[Parameter, ...]:
    """The parameters that every call passes by position: about others nothing is known."""
    always = [p.name for p in parameters if p.default is None and not p.keyword_only]
    return tuple(_parameter(name, facts[name]) if promised else Parameter(name) for name in always)


def _parameter(name: str, fact: ParameterFacts) -> Parameter:
    whole = fact.type == "int"
    return Parameter(
        name=name,
        type=parse_type(fact.annotation),
        min=int(fact.min) if whole and fact.min is not None else None,
        max=int(fact.max) if whole and fact.max is not None else None,
        nonempty=fact.type in {"str", "list"} and fact.min_length > 0,
    )
