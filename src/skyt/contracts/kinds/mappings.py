"""Dicts: of one kind of key and one kind of value, or with the keys of a record."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pydantic

from skyt.contracts.facts import Facts
from skyt.contracts.kinds.kind import Choose, Kind, Read, SearchStrategy, Sized, rows, st, steps, usual_length
from skyt.contracts.kinds.material import Material
from skyt.contracts.kinds.numbers import IntSpec

if TYPE_CHECKING:
    from skyt.contracts.specs import Spec


class DictSpec(Sized):
    """Dicts with one kind of key and one kind of value."""

    values_of: ClassVar = dict
    mutable: ClassVar = True
    reasoned: ClassVar = True
    hints: ClassVar = ("dict", "Dict", "Mapping", "MutableMapping")
    type: Literal["dict"] = "dict"
    sample_length: int = pydantic.Field(default=12, ge=0)
    keys: Spec
    values: Spec

    @classmethod
    def described(cls, parts: list[ast.expr], values: list[Any] | None, read: Read) -> Kind | None:
        if len(parts) != 2:
            if values is None:
                return None
            parts = []
        keys = None if values is None else [key for value in values for key in value]
        items = None if values is None else [item for value in values for item in value.values()]
        hints = parts or (None, None)
        return cls(keys=read(hints[0], keys), values=read(hints[1], items), **usual_length(values))

    @pydantic.model_validator(mode="after")
    def _hashable(self) -> DictSpec:
        if not self.keys.hashable:
            raise ValueError(f"{self.keys.type} cannot be the key of a dict")
        return self

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.keys, self.values

    @property
    def facts(self) -> Facts:
        return super().facts.model_copy(update={"elements": self.values.facts})

    def fits(self, value: Any) -> bool:
        return self.fits_length(value) and all(
            self.keys.fits(key) and self.values.fits(item) for key, item in value.items()
        )

    def coerced(self, value: Any) -> Any:
        if type(value) is not dict:
            return value
        return {self.keys.coerced(key): self.values.coerced(item) for key, item in value.items()}

    def affordable(self, value: Any) -> bool:
        items = value.values() if isinstance(value, dict) else ()
        return super().affordable(value) and all(map(self.values.affordable, items))

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        """Dicts, many of whose keys have the same few values."""
        least, most = self.lengths(depth)
        keys, items = self.keys.strategy(depth + 1), self.values.strategy(depth + 1)

        def filled(inside: SearchStrategy[Any]) -> SearchStrategy[Any]:
            return st.one_of(
                [st.dictionaries(keys, inside, min_size=least, max_size=n) for n in steps(least, most)]
            )

        few = st.lists(items, min_size=1, max_size=2).flatmap(lambda pool: filled(st.sampled_from(pool)))
        return st.one_of(filled(items), filled(items), few)

    def candidates(self) -> list[Any]:
        keys, values = self.keys.edges(), self.values.edges() or [None]
        pairs = [(key, values[i % len(values)]) for i, key in enumerate(keys)]
        same = [(key, values[-1]) for key in keys[:3]]
        some: tuple[list[tuple[Any, Any]], ...] = ([], pairs[:1], pairs[:2], pairs[:2][::-1], same, pairs)
        return [dict(chosen[: self.max_length]) for chosen in some]

    def smaller(self, value: Any, choose: Choose) -> Any:
        return {
            self.keys.smaller(key, choose): self.values.smaller(item, choose)
            for key, item in value.items()
            if choose(1, 1)
        }

    @classmethod
    def varied(cls, value: Any, rng: random.Random, vary: Callable[[Any], Any]) -> Any:
        if not value:
            return value
        key = rng.choice(list(value))
        if rng.random() < 0.3:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: vary(value[key])}

    def _suggested(self, source: Material, drawn: list[Any]) -> Iterator[Any]:
        rng = source.rng
        keys = [key for value in drawn for key in value] or self.keys.edges()
        items = [item for value in drawn for item in value.values()] or self.values.edges()
        for key in islice(self.keys.suggested(source, keys), 20):
            yield {**rng.choice(drawn), key: rng.choice(items)}
        for item in islice(self.values.suggested(source, items), 20):
            yield {**rng.choice(drawn), rng.choice(keys): item}
        for size in source.sizes:
            low = self.keys.sample_range[0] if isinstance(self.keys, IntSpec) else None
            names = [f"k{i}" if low is None else low + i for i in range(size)]
            yield {name: rng.choice(items) for name in names}


class RecordSpec(Kind):
    """Dicts with exactly these string keys, each with values of its own kind."""

    mutable: ClassVar = True
    type: Literal["record"] = "record"
    fields: dict[str, Spec]

    @property
    def parts(self) -> tuple[Any, ...]:
        return tuple(self.fields.values())

    def fits(self, value: Any) -> bool:
        return (
            type(value) is dict
            and value.keys() == self.fields.keys()
            and all(part.fits(value[name]) for name, part in self.fields.items())
        )

    def coerced(self, value: Any) -> Any:
        if type(value) is not dict:
            return value
        return {k: self.fields[k].coerced(v) if k in self.fields else v for k, v in value.items()}

    def affordable(self, value: Any) -> bool:
        own = value.items() if isinstance(value, dict) else ()
        return all(self.fields[name].affordable(item) for name, item in own if name in self.fields)

    def strategy(self, depth: int = 0) -> SearchStrategy[Any]:
        fields = st.fixed_dictionaries({name: part.strategy(depth) for name, part in self.fields.items()})
        return fields.map(lambda values: {name: values[name] for name in self.fields})

    def candidates(self) -> list[Any]:
        return [dict(zip(self.fields, row, strict=True)) for row in rows(self.fields.values())]

    def smaller(self, value: Any, choose: Choose) -> Any:
        return {name: self.fields[name].smaller(item, choose) for name, item in value.items()}

    def _suggested(self, source: Material, drawn: list[Any]) -> Iterator[Any]:
        for name, part in self.fields.items():
            for item in islice(part.suggested(source, [value[name] for value in drawn]), 20):
                yield {**source.rng.choice(drawn), name: item}
