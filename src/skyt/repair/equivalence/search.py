# mypy: ignore-errors
# ruff: noqa: S102, S110, SIM105
"""What looks for inputs that reach the branches of a program; runs inside the sandbox, beside the program.

The program comes with probes (see `branches`): every comparison tells its operands, every test its outcome.
From calls that reach a comparison others are made that come closer to its boundary: a number, a size or a
character is changed by a step and then by the secant, and a value that the comparison has seen is replaced by
the one it is compared with. Only the standard library is used.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

STEPS, ALL_STEPS = 5_000, 200_000  # probes of one call, and of all
ITEMS = 50  # of a generator
LEAVES = 5  # places of a call that are changed
SECANTS = 5
KEPT = 60  # suggestions

OPERATORS = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt,
    "GtE": operator.ge, "Is": operator.is_, "IsNot": operator.is_not,
    "In": lambda a, b: a in b, "NotIn": lambda a, b: a not in b,
}  # fmt: skip


class Stop(BaseException):
    """A call that takes too long."""


class Trace:
    """What one call reached: outcomes of probes, and the first operands of each comparison."""

    def __init__(self, steps: int = STEPS) -> None:
        self.outcomes: set[tuple[int, Any]] = set()
        self.operands: dict[int, list[tuple[str, Any, Any]]] = {}
        self.left = self.given = min(steps, STEPS)

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Stop

    def compare(self, probe: int, left: Any, name: str, right: Any) -> Any:
        self.step()
        result = OPERATORS[name](left, right)
        self.outcomes.add((probe, bool(result)))
        seen = self.operands.setdefault(probe, [])
        if len(seen) < 6:
            seen.append((name, left, right))
        if number(left) and number(right) and abs(left - right) <= 1:
            self.outcomes.add((probe, f"boundary {left - right}"))
        return result

    def test(self, probe: int, value: Any) -> Any:
        self.step()
        self.outcomes.add((probe, bool(value)))
        return value

    def mark(self, probe: int) -> None:
        self.step()
        self.outcomes.add((probe, True))


def number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and abs(value) < 1e300)


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """The paths to numbers, texts and lists inside a value."""
    if type(value) in (int, float, str):
        yield path
    elif type(value) in (list, tuple):
        if type(value) is list:
            yield path
        for at, item in enumerate(value):
            yield from places(item, (*path, at))
    elif type(value) is dict:
        for key, item in value.items():
            yield from places(item, (*path, key))


def places_of(call: Any) -> list[tuple[Any, ...]]:
    """The places of a call that may be changed."""
    args, kwargs, operations = call
    values = [((0, i), value) for i, value in enumerate(args)]
    values += [((1, name), value) for name, value in kwargs.items()]
    for i, (_, given) in enumerate(operations or ()):
        values += [((2, i, 1, j), value) for j, value in enumerate(given)]
    return [path for start, value in values for path in places(value, start)][: 4 * LEAVES]


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with another one at this place."""
    if not path:
        return new
    first, *rest = path
    if type(value) is dict:
        return {**value, first: put(value[first], tuple(rest), new)}
    made = list(value)
    made[first] = put(value[first], tuple(rest), new)
    return made if type(value) is list else tuple(made)


class Search:
    """The search through the inputs of one program."""

    def __init__(
        self, program: str, name: str, probes: dict[int, str], constants: Any, bounds: Any, budget: int
    ) -> None:
        self.trace = Trace()
        self.space: dict[str, Any] = {
            "__name__": "program",
            "_compare_": lambda *given: self.trace.compare(*given),
            "_test_": lambda *given: self.trace.test(*given),
            "_mark_": lambda probe: self.trace.mark(probe),
        }
        exec(compile(program, "<program>", "exec", dont_inherit=True), self.space)
        self.entry, self.probes, self.constants = self.space[name], probes, constants
        self.bounds, self.left = bounds, budget
        self.steps = ALL_STEPS
        self.reached: set[tuple[int, Any]] = set()
        self.nearest: dict[tuple[int, int], tuple[float, Any]] = {}
        self.examples: dict[int, list[tuple[Any, Any, Any]]] = {}
        self.found: list[Any] = []

    def run(self, call: Any) -> Trace:
        self.left -= 1
        self.trace = trace = Trace(self.steps)
        args, kwargs, operations = copy.deepcopy(call)
        try:
            value = self.entry(*args, **kwargs)
            for method, given in operations or ():
                try:
                    getattr(value, method)(*given)
                except Exception:
                    pass
            if hasattr(type(value), "__next__"):
                for _ in zip(range(ITEMS), value, strict=False):
                    pass
        except BaseException:
            pass
        self.steps -= trace.given - max(0, trace.left)
        return trace

    def note(self, call: Any, trace: Trace) -> bool:
        """Whether the call reached something new."""
        for probe, seen in trace.operands.items():
            for _, left, right in seen:
                examples = self.examples.setdefault(probe, [])
                if len(examples) < 8:
                    examples.append((call, left, right))
                if number(left) and number(right):
                    for goal in (0, 1, -1):
                        away = abs(left - right - goal)
                        if away < self.nearest.get((probe, goal), (float("inf"),))[0]:
                            self.nearest[probe, goal] = (away, call)
        new = trace.outcomes - self.reached
        self.reached |= new
        return bool(new)

    def attempt(self, call: Any) -> Trace | None:
        """Run a call that was made up, and keep it if it reached something new."""
        if self.left <= 0 or self.steps <= 0 or not self.fits(call):
            return None
        trace = self.run(call)
        if self.note(call, trace) and len(self.found) < KEPT:
            self.found.append(call)
        return trace

    def fits(self, call: Any) -> bool:
        for value, (low, high, inner_low, inner_high) in zip(call[0], self.bounds, strict=False):
            if number(value) and not ((low is None or value >= low) and (high is None or value <= high)):
                return False
            if type(value) is list:
                for item in value:
                    if number(item) and (
                        (inner_low is not None and item < inner_low)
                        or (inner_high is not None and item > inner_high)
                    ):
                        return False
        return True

    def goals(self) -> list[tuple[int, int]]:
        """Boundaries that were approached and not met, the nearest first."""
        open_ = [goal for goal in self.nearest if (goal[0], f"boundary {goal[1]}") not in self.reached]
        return sorted(open_, key=lambda goal: self.nearest[goal][0])

    def approach(self, probe: int, goal: int) -> None:
        _, call = self.nearest[probe, goal]
        for path in places_of(call):
            value = at(call, path)
            for start, make, most in self.variables(value):
                if (probe, f"boundary {goal}") in self.reached:
                    return
                self.secant(
                    probe, goal, start, lambda new, path=path, make=make: put(call, path, make(new)), most
                )

    def variables(self, value: Any) -> Any:
        """What is a number in a value: itself, its size with one filling or another, its last character."""
        if number(value):
            yield value, lambda new: new, 1e30
        elif type(value) is str:
            for fill in [value[-1:] or "a", *(c for c in self.constants if type(c) is str and c)][:LEAVES]:
                yield (
                    len(value),
                    lambda new, fill=fill: (value + fill * max(0, new - len(value)))[: max(0, new)],
                    2000,
                )
            if value:
                yield ord(value[-1]), lambda new: value[:-1] + chr(min(max(new, 32), 0xD000)), 0xD000
        elif type(value) is list:
            kind = type(value[0]) if value else None
            fills = [value[-1:], *([c] for c in self.constants if kind is None or type(c) is kind)]
            for fill in [fill for fill in fills if fill][:LEAVES]:
                yield (
                    len(value),
                    lambda new, fill=fill: (value + fill * max(0, new - len(value)))[: max(0, new)],
                    2000,
                )

    def secant(self, probe: int, goal: int, start: Any, make: Any, most: float) -> None:
        def away(trace: Trace | None) -> float | None:
            seen = [] if trace is None else trace.operands.get(probe, [])
            gaps = [left - right - goal for _, left, right in seen if number(left) and number(right)]
            return min(gaps, key=abs) if gaps else None

        step = 1
        x0, f0 = start, away(self.attempt(make(start)))
        x1 = start + step
        f1 = away(self.attempt(make(x1)))
        if f1 is None or f1 == f0:
            x1 = start * 2 + 16
            f1 = away(self.attempt(make(x1))) if x1 <= most else None
        for _ in range(SECANTS):
            if f0 is None or f1 is None or f0 == f1 or 0 in (f0, f1):
                return
            x2 = (
                x1 - f1 * (x1 - x0) / (f1 - f0)
                if type(start) is float
                else x1 - round_(f1 * (x1 - x0), f1 - f0)
            )
            if x2 in (x0, x1) or abs(x2) > most:
                return
            x0, f0 = x1, f1
            x1, f1 = x2, away(self.attempt(make(x2)))

    def substitute(self, probe: int) -> None:
        """Put what an operand is compared with in the place of the operand."""
        for call, left, right in self.examples.get(probe, []):
            pairs = [(left, right), (right, left)]
            if type(right) in (list, tuple, set, frozenset, dict, str) and self.probes[probe] in (
                "In",
                "NotIn",
            ):
                pairs += [(left, item) for item in list(right)[:8]]
            for old, new in pairs:
                for path in places_of(call):
                    for value in exchanged(at(call, path), old, new):
                        if self.left > 0:
                            self.attempt(put(call, path, value))

    def outcomes(self) -> set[tuple[int, Any]]:
        return {
            (probe, one)
            for probe, kind in self.probes.items()
            for one in ((True,) if kind == "mark" else (True, False))
        }

    def all(self, calls: list[Any], outside: list[Any]) -> Any:
        for call in calls:
            self.note(call, self.run(call))
        wanted = self.outcomes()
        tried: set[Any] = set()
        for _ in range(4):
            before = len(self.reached), len(tried)
            for goal in self.goals():
                start = (goal, self.nearest[goal][0])
                if start not in tried and self.left > 0:
                    tried.add(start)
                    self.approach(*goal)
            for probe, kind in self.probes.items():
                if kind not in ("mark", "test") and not {(probe, True), (probe, False)} <= self.reached:
                    self.substitute(probe)
            if (len(self.reached), len(tried)) == before or self.left <= 0:
                break
        inside = self.reached & wanted
        for call in outside:
            self.note(call, self.run(call))
        never = len((self.reached & wanted) - inside)  # reached outside the domain alone
        return len(inside), len(wanted) - never, self.found


def round_(over: Any, under: Any) -> int:
    """The quotient of two numbers, rounded to a whole one, also where they are large."""
    if type(over) is int and type(under) is int:
        return (2 * over + under) // (2 * under)
    return int(over / under) if abs(over / under) < 1e18 else 0


def exchanged(value: Any, old: Any, new: Any) -> Any:
    """What becomes of a value if a part of it that a comparison has seen is another."""
    if type(old) is type(new) is list:
        if type(value) is str and all(type(item) is str for item in new):
            yield "".join(new)
        if type(value) is list:
            start = next((i for i in range(len(value)) if value[i : i + len(old)] == old), len(value))
            yield from ([*value[:start], *new, *value[start + len(old) :]], new)
    if type(value) is int and type(new) is str and str(value) == old:
        yield from [int(new)] if new.lstrip("-").isdecimal() else []
    if type(value) is type(new) and type(value) in (int, float, str, list) and value == old:
        yield new
        if number(new):
            yield from (new - 1, new + 1)
    if type(value) is str and type(old) is type(new) is str:
        if value[::-1] == old:
            yield new[::-1]
        if value.strip() == old or value.lower() == old or value.upper() == old:
            yield new
        if old and old in value:
            yield from (value.replace(old, new), value.replace(old, new, 1), new)
        elif new not in value:
            yield from (value + new, new + value, new)
    if type(value) is list and type(new) in (int, float, str) and new not in value:
        if old in value:
            yield [new if item == old else item for item in value]
        elif not value or type(value[0]) is type(new):
            yield [*value, new]


def explore(program: Any, name: Any, settings: Any, calls: Any, outside: Any) -> Any:
    return Search(program, name, *settings).all(calls, outside)
