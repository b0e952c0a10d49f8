"""What a domain guarantees of one parameter: the ground that rewriting rules stand on.

A fact is given only where it is true of every in-domain value. Types that the rules do not know (tuples,
sets, unions and so on) have the type `any`, which is no fact.
"""

from __future__ import annotations

from homeostat.core.config import ConfigModel

UNKNOWN = "any"


class Facts(ConfigModel):
    """What every in-domain call guarantees of one parameter."""

    type: str
    min: int | float | None = None
    max: int | float | None = None
    min_length: int = 0
    max_length: int | None = None
    alphabet: str | None = None
    sorted: bool = False
    distinct: bool = False
    keys: Facts | None = None
    elements: Facts | None = None  # of a list its items, of a dict its values

    @property
    def annotation(self) -> str:
        """The type as it is written in Python: `dict[str, list[int]]`."""
        inside = [facts.annotation for facts in (self.keys, self.elements) if facts is not None]
        return f"{self.type}[{', '.join(inside)}]" if inside else self.type


def conditions(name: str, facts: Facts) -> list[str]:
    """Facts about a variable as Python conditions."""
    lines = [f"isinstance({name}, {facts.type})"] * (facts.type != UNKNOWN)
    lines += [f"{name} >= {facts.min}"] * (facts.min is not None)
    lines += [f"{name} <= {facts.max}"] * (facts.max is not None)
    lines += [f"len({name}) >= {facts.min_length}"] * bool(facts.min_length)
    lines += [f"len({name}) <= {facts.max_length}"] * (facts.max_length is not None)
    lines += [f"set({name}) <= set({facts.alphabet!r})"] * (facts.alphabet is not None)
    lines += [f"{name} == sorted({name})"] * facts.sorted
    lines += [f"len(set({name})) == len({name})"] * facts.distinct
    if facts.keys is not None:
        lines += _each(facts.keys, name)
    if facts.elements is not None:
        lines += _each(facts.elements, name if facts.keys is None else f"{name}.values()")
    return lines


def _each(facts: Facts, source: str) -> list[str]:
    inside = conditions("x", facts)
    return [f"all({' and '.join(inside)} for x in {source})"] if inside else []
