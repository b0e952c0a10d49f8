"""Input domains: what values each parameter takes."""

from __future__ import annotations

import pkgutil
from functools import reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
from typing_extensions import TypeAliasType

from homeostat.core.config import ConfigModel
from skyt.contracts import kinds
from skyt.contracts.kinds.kind import KINDS, Kind

for _module in pkgutil.iter_modules(kinds.__path__, f"{kinds.__name__}."):
    if not _module.name.endswith(".shapes"):  # which loads hypothesis
        import_module(_module.name)

if TYPE_CHECKING:
    Spec = Kind
else:
    _any = Annotated[
        reduce(or_, (KINDS[name] for name in sorted(KINDS))), pydantic.Field(discriminator="type")
    ]
    Spec = TypeAliasType("Spec", _any)
    for _kind in KINDS.values():
        _kind.model_rebuild(_types_namespace={**vars(import_module(_kind.__module__)), "Spec": Spec})


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

    def coerced(self, args: tuple[Any, ...], kwargs: dict[str, Any], method: str | None = None) -> Any:
        """Arguments with lists made tuples and sets where their specs say so."""
        specs = self.parameters if method is None else self.methods.get(method, {})
        placed = [spec.coerced(value) for spec, value in zip(specs.values(), args, strict=False)]
        named = {k: specs[k].coerced(v) if k in specs else v for k, v in kwargs.items()}
        return (*placed, *args[len(placed) :]), named
