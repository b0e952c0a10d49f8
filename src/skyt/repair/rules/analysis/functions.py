"""What is known of one function."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from skyt.repair.rules.analysis.values.types import Type
from skyt.repair.rules.facts import Parameter


@dataclass
class FunctionInfo:
    """One function of the program with the types of its variables."""

    node: ast.FunctionDef
    owner: ast.ClassDef | None
    public: bool
    env: dict[str, Type] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()
    assigned: dict[str, list[ast.expr | None]] = field(default_factory=dict)
    binding: list[ast.AST] = field(default_factory=list)  # nodes that say something about types, in order
    owned: frozenset[str] = frozenset()
    captured: frozenset[str] = frozenset()
    nonnegative: frozenset[str] = frozenset()

    @property
    def arguments(self) -> list[str]:
        return [x.arg for x in self.node.args.args]

    def bounds_of(self, name: str) -> tuple[int | None, int | None]:
        """Bounds of a parameter that is never assigned, from the contract; of a variable proven
        non-negative."""
        if name not in self.assigned:
            for parameter, argument in zip(self.parameters, self.value_arguments, strict=False):
                if argument == name:
                    return parameter.min, parameter.max
        return (0 if name in self.nonnegative else None), None

    @property
    def value_arguments(self) -> list[str]:
        """Arguments without `self`."""
        return self.arguments[1:] if self.owner is not None else self.arguments
