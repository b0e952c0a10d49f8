"""Input domains: what values each parameter takes."""

from __future__ import annotations

from typing import Annotated

import pydantic

from homeostat.core.config import ConfigModel
from skyt.contracts.kinds.choices import OptionalSpec, UnionSpec
from skyt.contracts.kinds.containers import FrozensetSpec, ListSpec, SetSpec, TupleSpec
from skyt.contracts.kinds.kind import Kind
from skyt.contracts.kinds.mappings import DictSpec, RecordSpec
from skyt.contracts.kinds.numbers import BoolSpec, FloatSpec, GivenSpec, Identifier, IntSpec, NoneSpec
from skyt.contracts.kinds.texts import BytesSpec, StrSpec

__all__ = [
    "BoolSpec",
    "BytesSpec",
    "DictSpec",
    "Domain",
    "FloatSpec",
    "FrozensetSpec",
    "GivenSpec",
    "Identifier",
    "IntSpec",
    "Kind",
    "ListSpec",
    "NoneSpec",
    "OptionalSpec",
    "RecordSpec",
    "SetSpec",
    "Spec",
    "StrSpec",
    "TupleSpec",
    "UnionSpec",
]

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
    _model.model_rebuild(_types_namespace={"Spec": Spec, "Annotated": Annotated, "pydantic": pydantic})


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
