"""Values for one parameter: its boundaries, random draws, and small changes to a value."""

from __future__ import annotations

import random
from typing import Any

from skyt.contracts import strings as texts
from skyt.contracts.specs import BoolSpec, DictSpec, FloatSpec, IntSpec, ListSpec, Spec, StrSpec


def boundary(spec: Spec) -> list[Any]:
    """The values at the edges of a spec, smallest first; every one is in its domain."""
    if isinstance(spec, IntSpec):
        low, high = spec.sample_range
        middle = [v for v in (-2, -1, 0, 1, 2, 3, 4, 5, 9, 10) if low <= v <= high]
        return sorted({low, min(low + 1, high), *middle, *spec.interesting, max(high - 1, low), high})
    if isinstance(spec, FloatSpec):
        return [
            v for v in (spec.min, -1.0, -0.0, 0.0, 0.5, 1.0, spec.max) if v is not None and _within(spec, v)
        ]
    if isinstance(spec, BoolSpec):
        return [False, True]
    if isinstance(spec, ListSpec):
        edge = boundary(spec.elements)
        lists = [
            [],
            [edge[0]],
            [edge[-1]],
            edge[:2],
            edge[:2][::-1],
            edge[:3],
            [edge[-1]] * 2,
            edge,
            edge[::-1],
            edge[:2] * 3,
        ]
        return [_shaped(spec, values) for values in lists]
    if isinstance(spec, DictSpec):
        keys, values = boundary(spec.keys), boundary(spec.values)
        pairs = [(key, values[i % len(values)]) for i, key in enumerate(keys)]
        same = [(key, values[-1]) for key in keys[:3]]
        return [
            dict(some[: spec.max_length]) for some in ([], pairs[:1], pairs[:2], pairs[:2][::-1], same, pairs)
        ]
    short = ["", "a", "A", " ", "aa", "ab", "0", "-", "_", "aba", "Ab", "a b", "é", *texts.special(spec)]
    return [text for text in short if spec.alphabet is None or set(text) <= set(spec.alphabet)]


def draw(spec: Spec, rng: random.Random, *, widen: bool = False) -> Any:
    """One value, mostly small and structured. `widen` forgets the preconditions but keeps the type."""
    if isinstance(spec, IntSpec):
        return _integer(spec, rng, widen)
    if isinstance(spec, FloatSpec):
        low, high = (spec.min if spec.min is not None else -1e3), (spec.max if spec.max is not None else 1e3)
        return rng.uniform(low, high) if not widen else rng.uniform(-1e6, 1e6)
    if isinstance(spec, BoolSpec):
        return rng.random() < 0.5
    if isinstance(spec, ListSpec):
        return _list(spec, rng, widen)
    if isinstance(spec, DictSpec):
        return _dict(spec, rng)
    return texts.string(spec, rng)


def draw_near(source: int | list[int], rng: random.Random) -> int:
    """An element of a list or a neighbour of one; a number that shares factors with another."""
    if isinstance(source, list):
        return rng.choice(source) + rng.choice((0, 0, 0, 1, -1))
    divisors = [d for d in range(1, 13) if source % d == 0]
    return source // rng.choice(divisors) * rng.randint(1, 12)


def affordable(spec: Spec, value: Any) -> bool:
    """Whether a value is within the generated sizes: mutation must not lead to calls that never end."""
    if isinstance(spec, IntSpec):
        low, high = spec.sample_range
        return low <= value <= high or value in spec.interesting
    if isinstance(spec, ListSpec | DictSpec | StrSpec) and len(value) > 2 * spec.sample_length:
        return False
    if isinstance(spec, ListSpec) and isinstance(spec.elements, ListSpec | DictSpec):
        return all(affordable(spec.elements, item) for item in value)
    return not isinstance(spec, DictSpec) or all(affordable(spec.values, item) for item in value.values())


def mutate_value(value: Any, rng: random.Random) -> Any:
    """A value of the same type, one small step away."""
    if type(value) is int:
        return value + rng.choice((-1, 1, 2, -2, value, -value // 2))
    if type(value) is float:
        return value * rng.choice((0.5, -1.0, 2.0)) + rng.choice((0.0, 1.0))
    if type(value) is bool:
        return not value
    if type(value) is str:
        return "".join(texts.mutate_items(list(value), rng, lambda: texts.character(rng)))
    if type(value) is list:
        fresh = (lambda: mutate_value(rng.choice(value), rng)) if value else (lambda: 0)
        items = texts.mutate_items(value, rng, fresh)
        plain = not any(isinstance(item, list | dict) for item in items)
        return sorted(items) if plain and value == sorted(value) and rng.random() < 0.7 else items
    if type(value) is dict and value:
        return _mutate_dict(value, rng)
    return value


def _mutate_dict(value: dict[Any, Any], rng: random.Random) -> dict[Any, Any]:
    """Another value under a key, another key for a value, a pair less, or the pairs in another order."""
    items = list(value.items())
    at = rng.randrange(len(items))
    key, item = items[at]
    match rng.randrange(4):
        case 0:
            items[at] = (key, mutate_value(item, rng))
        case 1:
            items[at] = (mutate_value(key, rng), item)
        case 2:
            del items[at]
        case _:
            rng.shuffle(items)
    return dict(items)


def _within(spec: FloatSpec, value: float) -> bool:
    return (spec.min is None or value >= spec.min) and (spec.max is None or value <= spec.max)


def _integer(spec: IntSpec, rng: random.Random, widen: bool) -> int:
    low, high = spec.sample_range
    if widen:
        low, high = min(low, -200), max(high, 20)
        return rng.choice((rng.randint(low, high), rng.randint(low, min(high, 0)), 0, -1, -2))
    if spec.interesting and rng.random() < 0.1:
        return rng.choice(spec.interesting)
    if rng.random() < 0.5:  # near zero, or near the lower bound
        centre = min(max(0, low), high)
        return min(max(centre + rng.randint(-20, 20), low), high)
    if rng.random() < 0.5 and high > 16:  # every magnitude alike
        magnitude = int(2 ** rng.uniform(0, high.bit_length()))
        return min(max(magnitude * (-1 if low < 0 and rng.random() < 0.4 else 1), low), high)
    return rng.randint(low, high)


def _list(spec: ListSpec, rng: random.Random, widen: bool) -> list[Any]:
    longest = spec.sample_length if spec.max_length is None else min(spec.sample_length, spec.max_length)
    length = rng.choice((rng.randint(0, 4), rng.randint(0, 12), rng.randint(0, longest)))
    length = min(max(length, spec.min_length), longest)
    if rng.random() < 0.35:  # few distinct values: many duplicates
        pool = [draw(spec.elements, rng) for _ in range(rng.randint(1, 3))]
        values = [rng.choice(pool) for _ in range(length)]
    else:
        values = [draw(spec.elements, rng) for _ in range(length)]
    order = rng.random()
    if order < 0.3 and not isinstance(spec.elements, ListSpec | DictSpec):
        values.sort(reverse=order >= 0.15)
    return values if widen else _shaped(spec, values)


def _dict(spec: DictSpec, rng: random.Random) -> dict[Any, Any]:
    longest = spec.sample_length if spec.max_length is None else min(spec.sample_length, spec.max_length)
    length = max(min(rng.choice((rng.randint(0, 4), rng.randint(0, longest))), longest), spec.min_length)
    few = [draw(spec.values, rng) for _ in range(2)] if rng.random() < 0.35 else None
    return {
        draw(spec.keys, rng): draw(spec.values, rng) if few is None else rng.choice(few)
        for _ in range(length)
    }


def _shaped(spec: ListSpec, values: list[Any]) -> list[Any]:
    """The list with the spec's order and distinctness, and no longer than allowed."""
    values = list(dict.fromkeys(values)) if spec.distinct else list(values)
    if spec.max_length is not None:
        values = values[: spec.max_length]
    return sorted(values) if spec.sorted else values
