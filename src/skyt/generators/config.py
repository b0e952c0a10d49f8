"""The `generator:` section of a configuration: any of the kinds of generators in this folder.

A new kind is one file here, with a `Source` and what it makes.
"""

from __future__ import annotations

import pkgutil
from functools import reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from typing_extensions import TypeAliasType

from skyt import generators
from skyt.generators.base import SOURCES, Source

for _module in pkgutil.iter_modules(generators.__path__, f"{generators.__name__}."):
    if _module.name.rpartition(".")[2] not in ("config", "watch"):  # itself, and what needs torch
        import_module(_module.name)

if TYPE_CHECKING:
    GeneratorConfig = Source
else:
    _any = Annotated[reduce(or_, (SOURCES[name] for name in sorted(SOURCES))), Field(discriminator="kind")]
    GeneratorConfig = TypeAliasType("GeneratorConfig", _any)
