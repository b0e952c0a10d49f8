"""Calls made from the constants in two programs: they reach branches that chance would not.

A back door such as `if n == 40` or `if len(xs) == 50` is written down in one of the programs. Its numbers and
their neighbours become arguments, elements, and sizes of containers and texts; its strings become arguments
and parts of them; and all of it is combined across parameters, so that `n == 40 and m == 7` and
`len(xs) == n` are met too. Only calls inside the contract's domain are made, at any size that the domain
allows, up to `MAX_SIZE`.
"""

from __future__ import annotations

import ast
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from skyt.contracts.contract import Contract
from skyt.contracts.domain import Call, Operation, affordable, bound, in_domain
from skyt.contracts.kinds.containers import ListSpec
from skyt.contracts.kinds.material import MAX_SIZE, Constants, Material
from skyt.contracts.kinds.numbers import IntSpec
from skyt.contracts.kinds.texts import StrSpec
from skyt.contracts.specs import Spec
from skyt.text.parsing import parse

MAX_NEAR = 300
MAX_FAR = 60
_MAX_EACH = 150  # values for one parameter
_COMBINED = 4  # numbers of one comparison
_SMALL = (1, 2, 3, 5)
_LONG, _DEEP = 300, 1100  # sizes that are always tried: any, and where a program calls itself
_IDLE = 150  # calls in a row that bring nothing new: the constants are used up


@dataclass(frozen=True)
class Harvest:
    """Calls within the sizes that the contract wants generated, and beyond them, the cheapest first."""

    near: tuple[Call, ...] = ()
    far: tuple[Call, ...] = ()


def constants(programs: Iterable[str]) -> Constants:
    exact: dict[int, None] = {}
    floats: dict[float, None] = {}
    strings: dict[str, None] = {}
    for program in programs:
        try:
            tree = parse(program)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in ast.walk(tree):
            value = _folded(node)
            if type(value) is int:
                exact.setdefault(value)
            elif type(value) is float:
                floats.setdefault(value)
            elif type(value) is str:
                strings |= dict.fromkeys([value, *_variants(value)])
            elif isinstance(node, ast.Compare):
                exact |= dict.fromkeys(_solutions(node))
    near = {m: None for n in exact for m in (n, n - 1, n + 1, -n)}
    return Constants(tuple(exact), tuple(near), tuple(floats), tuple(strings))


def _recursive(program: str) -> bool:
    """Whether a function of the program names itself."""
    try:
        functions = [node for node in ast.walk(parse(program)) if isinstance(node, ast.FunctionDef)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(part, ast.Name) and part.id == f.name for f in functions for part in ast.walk(f))


def _variants(text: str) -> list[str]:
    """The text backwards, which a program may turn round before it compares, and a character's neighbours."""
    if len(text) != 1:
        return [text[::-1]]
    return [chr(n) for n in (ord(text) - 1, ord(text) + 1) if 0 <= n < 0x110000 and not 0xD800 <= n < 0xE000]


def _solutions(comparison: ast.Compare) -> Iterator[int]:
    """What an unknown may be where a comparison combines it with two numbers: `x ^ 23130 == 4660`."""
    found = [_folded(node) for node in ast.walk(comparison)]
    numbers = list(dict.fromkeys(n for n in found if type(n) is int and abs(n) <= 10**12))
    for a, b in itertools.combinations(numbers[:_COMBINED], 2):
        yield from (a + b, a - b, b - a, a ^ b, a * b)


def _folded(node: ast.AST) -> Any:
    """The value of a constant, or of arithmetic on two: `10 ** 4`, `1 << 8`."""
    if isinstance(node, ast.Constant):
        return node.value
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _folded(node.left), _folded(node.right)
    if type(left) is not int or type(right) is not int or max(abs(left), abs(right)) > 10**6:
        return None
    match node.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Pow() if 0 <= right <= 64 and abs(left) <= 64:
            return left**right
        case ast.BitXor():
            return left ^ right
        case ast.LShift() if 0 <= right <= 64:
            return left << right
    return None


def harvested(
    contract: Contract,
    programs: tuple[str, str],
    seed: int,
    base: Sequence[Call],
    most: tuple[int, int] = (MAX_NEAR, MAX_FAR),
) -> Harvest:
    """In-domain calls made from the programs' constants; the same for the same programs and seed.

    Constants are put into the calls of `base`; `most` bounds their number, near and far.
    """
    rng = random.Random(f"harvest:{contract.id}:{seed}")
    if not base:
        return Harvest()
    near: dict[str, Call] = {}
    far: dict[str, Call] = {}
    idle = 0
    beyond = [_LONG, _DEEP] if any(map(_recursive, programs)) else [_LONG]
    for call in _calls(contract, constants(programs), beyond, list(base), rng):
        idle += 1
        kept, room = (near, most[0]) if affordable(contract, call) else (far, most[1])
        if len(kept) < room and in_domain(contract, call) and kept.setdefault(repr(call), call) is call:
            idle = 0
        if idle > _IDLE or (len(near) >= most[0] and len(far) >= most[1]):
            break
    return Harvest(tuple(near.values()), tuple(sorted(far.values(), key=_size)))


def _calls(
    contract: Contract, found: Constants, beyond: Sequence[int], base: list[Call], rng: random.Random
) -> Iterator[Call]:
    specs = list(contract.domain.parameters.values())
    sizes = list(dict.fromkeys([*found.sizes, *_bounds(specs), *_SMALL]))
    base = [Call(bound(contract, call), {}, call.operations) for call in base]
    seen = [[call.args[i] for call in base] for i in range(len(specs))]
    source = Material(found, sizes, rng)
    each = [
        list(itertools.islice(spec.suggested(source, values), _MAX_EACH))
        for spec, values in zip(specs, seen, strict=True)
    ]
    streams = [
        _long(specs, beyond, base, rng),
        _exactly(specs, found, base, rng),
        _one_by_one(each, base, rng),
        _together(each, rng),
        _related(specs, found, sizes, base, rng),
    ]
    if contract.entry_point.kind == "class":
        streams.append(_sequences(contract, found, base, rng))
    # Round and round, so that no stream takes every place.
    for row in itertools.islice(itertools.zip_longest(*streams), 4 * MAX_NEAR):
        yield from (_as_passed(contract, call) for call in row if call is not None)


def _as_passed(contract: Contract, call: Call) -> Call:
    """The call with keyword-only parameters by name."""
    parameters = contract.entry_point.parameters
    if not any(p.keyword_only for p in parameters):
        return call
    pairs = list(zip(parameters, call.args, strict=True))
    placed = tuple(value for p, value in pairs if not p.keyword_only)
    return Call(placed, {p.name: value for p, value in pairs if p.keyword_only}, call.operations)


def _exactly(specs: list[Spec], found: Constants, base: list[Call], rng: random.Random) -> Iterator[Call]:
    """Every number and text as it is written, in every parameter and all combinations."""
    options: list[list[Any]] = []
    for spec in specs:
        listed = [v for v in (*found.exact, *found.floats, *found.strings) if spec.fits(v)]
        options.append(listed or [None])
    products = list(itertools.islice(itertools.product(*options), 4000))
    rng.shuffle(products)
    for values in products:
        start = rng.choice(base)
        args = tuple(old if new is None else new for new, old in zip(values, start.args, strict=True))
        yield Call(args, start.kwargs, start.operations)


def _long(specs: list[Spec], sizes: Sequence[int], base: list[Call], rng: random.Random) -> Iterator[Call]:
    """Containers and texts of these sizes, whatever the programs write down."""
    nothing = Constants((), (), (), ())
    for at, size in itertools.product(range(len(specs)), sizes):
        made = specs[at].suggested(Material(nothing, [size], rng), [call.args[at] for call in base])
        long = [value for value in made if hasattr(value, "__len__") and len(value) == size]
        start = rng.choice(base)
        for value in long[-1:]:
            yield Call((*start.args[:at], value, *start.args[at + 1 :]), start.kwargs, start.operations)


def _one_by_one(each: list[list[Any]], base: list[Call], rng: random.Random) -> Iterator[Call]:
    """One parameter made from constants, the others as generated."""
    for row in itertools.zip_longest(*each, fillvalue=None):
        for at, value in enumerate(row):
            if value is not None:
                start = rng.choice(base)
                yield Call((*start.args[:at], value, *start.args[at + 1 :]), start.kwargs, start.operations)


def _together(each: list[list[Any]], rng: random.Random) -> Iterator[Call]:
    if len(each) > 1 and all(each):
        for _ in range(2 * MAX_NEAR):
            yield Call(tuple(rng.choice(values) for values in each))


def _related(
    specs: list[Spec], found: Constants, sizes: list[int], base: list[Call], rng: random.Random
) -> Iterator[Call]:
    """A number that is a container's size, or one off, the container ending in what a program looks for."""
    wholes = [(i, spec) for i, spec in enumerate(specs) if isinstance(spec, IntSpec)]
    containers = [(i, spec) for i, spec in enumerate(specs) if isinstance(spec, ListSpec | StrSpec)]
    choices = []
    for (whole, number), (container, spec) in itertools.product(wholes, containers):
        drawn = [rng.choice(base).args[whole] for _ in range(6)]
        wanted = [n for n in dict.fromkeys([*sizes, *drawn]) if 0 < n <= MAX_SIZE and number.fits(n)]
        ends = _marks(spec, found) or [None]
        choices += [
            (whole, n, container, spec, n + off, end) for n in wanted for off in (0, 1) for end in ends
        ]
    rng.shuffle(choices)
    for whole, number_, container, spec, size, end in choices:
        args = list(rng.choice(base).args)
        args[whole], args[container] = number_, _ending(spec, size, end, rng)
        yield Call(tuple(args))


def _marks(spec: ListSpec | StrSpec, found: Constants) -> list[Any]:
    """The constants that can be elements of a list or stand in a text, as they are written."""
    inside = spec.elements if isinstance(spec, ListSpec) else spec
    return [v for v in (*found.exact, *found.floats, *found.strings) if inside.fits(v)]


def _ending(spec: ListSpec | StrSpec, size: int, end: Any, rng: random.Random) -> Any:
    """A list or text of one size, of one neutral element repeated, with this end."""
    if isinstance(spec, StrSpec):
        end = end or ""
        return ((spec.alphabet or "ab ")[0] * size)[: max(0, size - len(end))] + end[:size]
    edge = spec.elements.edges()
    neutral = [v for v in edge if v != end and v in (0, "", [], 1)] or edge
    values = [rng.choice(neutral)] * (size - 1)
    values.append(rng.choice(edge) if end is None else end)
    return sorted(values) if spec.sorted else values


def _sequences(contract: Contract, found: Constants, base: list[Call], rng: random.Random) -> Iterator[Call]:
    """Operations with constants among their arguments, and as many operations as a constant says."""
    numbers = [*found.numbers, *found.strings]
    for at in range(2 * MAX_NEAR):
        start = rng.choice(base)
        ops = list(start.operations or ())
        if not ops:
            continue
        if at % 4 == 0 and found.sizes:
            size = rng.choice(found.sizes)
            one = [rng.choice(ops)] if rng.random() < 0.5 else ops
            yield Call(start.args, {}, tuple(itertools.islice(itertools.cycle(one), size)))
        elif numbers:
            place = rng.randrange(len(ops))
            specs = list(contract.domain.methods[ops[place].method].values())
            args = tuple(
                rng.choice([v for v in numbers if spec.fits(v)] or [old])
                for spec, old in zip(specs, ops[place].args, strict=False)
            )
            ops[place] = Operation(ops[place].method, args)
            yield Call(start.args, {}, tuple(ops))


def _bounds(specs: list[Spec]) -> list[int]:
    """The least and greatest numbers of the domain, where they can be sizes."""
    ends = [
        n for spec in specs if isinstance(spec, IntSpec) for n in (spec.min, spec.max, *spec.sample_range)
    ]
    return [n for n in ends if n is not None and 1 < n <= 200]


def _size(call: Call) -> tuple[int, str]:
    """How much work a call promises: its largest number or length."""
    return max([0, *map(_extent, call.args), len(call.operations or ())]), repr(call)


def _extent(value: Any) -> int:
    if isinstance(value, dict):
        return max([len(value), *map(_extent, value), *map(_extent, value.values())])
    if isinstance(value, list | tuple | set | frozenset):
        return max([len(value), *map(_extent, value)])
    if isinstance(value, str | bytes):
        return len(value)
    return 0 if value is None else abs(int(value))
