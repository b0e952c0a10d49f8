"""Registries: every thing of one kind by its name, whoever defined it.

An entry is added by a file of the registry's own folder, by a file that the user imports, or by another
package through an entry point. It brings along what pages and figures show of it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pydantic
from pydantic_core import core_schema

from homeostat.core.config import ConfigModel
from homeostat.core.errors import UserError, nearest

T = TypeVar("T")


@dataclass(frozen=True)
class Shown:
    """How pages and figures show a name. `means`, or the glossary's `term`, explains it."""

    kind: str
    name: str
    means: str = ""
    term: str = ""
    colour: int | None = None  # a number of the palette; None: grey
    order: int = 100  # in legends and tables
    keys: tuple[str, ...] = ()  # its own settings

    def as_record(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value not in ("", None, ())}


SHOWN: dict[str, Shown] = {}  # of every entry that was added in this process


class Registry(Generic[T]):
    """The entries of one noun. Those of its own folder, and of other packages, are found at first use."""

    def __init__(self, noun: str, group: str, *folders: str) -> None:
        """`group`: the entry points of other packages, and a folder of its own beside the others."""
        self.noun, self._group, self._folders = noun, group, (group, *folders)
        self._entries: dict[str, tuple[int, T]] = {}
        self._complete = False

    def add(self, name: str, entry: T, shown: Shown, spelling: str | None = None) -> T:
        """Make `entry` known by `name`; records may call it by another `spelling`."""
        self._entries[name] = shown.order, entry
        SHOWN[spelling or name] = shown
        return entry

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise UserError(f"unknown {self.noun} {name!r}; {nearest(name, self)}")
        return self._entries[name][1]

    def __contains__(self, name: object) -> bool:
        self._find()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        """Names, in the order in which they are shown."""
        self._find()
        return iter(sorted(self._entries, key=lambda name: (self._entries[name][0], name)))

    def __len__(self) -> int:
        self._find()
        return len(self._entries)

    def items(self) -> Iterator[tuple[str, T]]:
        return ((name, self._entries[name][1]) for name in self)

    def remove(self, name: str) -> None:
        del self._entries[name]

    def _find(self) -> None:
        if self._complete:
            return
        self._complete = True
        for folder in self._folders:
            for module in pkgutil.iter_modules(import_module(folder).__path__, f"{folder}."):
                import_module(module.name)
        for entry in entry_points(group=self._group):
            entry.load()


class Named:
    """An annotation for the name of an entry: `Annotated[str, Named(REGISTRY)]`."""

    def __init__(self, registry: Registry[Any], fits: Callable[[Any], bool] = lambda entry: True) -> None:
        self._registry, self._fits = registry, fits

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, core_schema.str_schema())

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string", "enum": self._names()}

    def _names(self) -> list[str]:
        return [name for name, entry in self._registry.items() if self._fits(entry)]

    def _check(self, name: str) -> str:
        if name not in self._names():
            raise ValueError(f"unknown {self._registry.noun} {name!r}; {nearest(name, self._names())}")
        return name


class OpenConfig(ConfigModel):
    """A section with keys that belong to the entries of a registry, known when it is read."""

    model_config = pydantic.ConfigDict(extra="allow")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @classmethod
    def parts(cls) -> dict[str, Any]:
        """The keys that entries bring along: (type, field or default)."""
        raise NotImplementedError

    @classmethod
    def closed(cls) -> type[pydantic.BaseModel]:
        """The same section with all the keys that are known now."""
        own = {name: (field.annotation, field) for name, field in cls.model_fields.items()}
        fields: dict[str, Any] = {**own, **cls.parts()}
        return pydantic.create_model(cls.__name__, __base__=ConfigModel, __doc__=cls.__doc__, **fields)

    @classmethod
    def known_fields(cls) -> Mapping[str, pydantic.fields.FieldInfo]:
        return cls.closed().model_fields

    @pydantic.model_validator(mode="before")
    @classmethod
    def _with_parts(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        found = cls.closed().model_validate(raw)
        return {name: getattr(found, name) for name in type(found).model_fields}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        return handler(cls.closed().__pydantic_core_schema__)
