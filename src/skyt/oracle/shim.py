"""What stands for pytest, and for the function under test, where tests judge a program's results.

The source of this file is put before the tests and runs in the sandbox, in a process of the contract's own.
The function is not there: what it gives is looked up in a table, and a call that is not in it yet ends the
test with the question. Only the standard library is used.
"""

from __future__ import annotations

import builtins
import copy
import inspect
import itertools
import math
import re
from typing import Any


class _AskError(BaseException):
    """A call whose result is not known yet."""


class _SkipError(BaseException):
    """A test that does not want to run."""


class _Function:
    """The function under test: what other processes found out about it."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, Any, Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key = repr((args, kwargs))
        if key not in self.known:
            raise _AskError(key, args, kwargs)
        kind, value, after = self.known[key]
        if kind == "raise":
            known = getattr(builtins, value, None)
            raise (
                known
                if isinstance(known, type) and issubclass(known, BaseException)
                else type(value, (Exception,), {})
            )
        if kind != "value":
            raise AssertionError(f"the call {value}")
        for old, new in zip(args, after or (), strict=False):
            if isinstance(old, list):
                old[:] = new
            elif isinstance(old, dict | set):
                old.clear()
                old.update(new)
        return copy.deepcopy(value)


class _Raises:
    def __init__(self, expected: Any, match: str | None = None) -> None:
        self.expected, self.match, self.value = expected, match, None

    def __enter__(self) -> _Raises:
        return self

    def __exit__(self, kind: Any, error: Any, _trace: Any) -> bool:
        if kind is None:
            raise AssertionError(f"did not raise {self.expected}")
        self.value = error
        return issubclass(kind, self.expected)  # the message of an exception is not known here


class _Approx:
    def __init__(
        self, expected: Any, rel: float | None = None, abs: float | None = None, nan_ok: bool = False
    ) -> None:
        self.expected, self.nan_ok = expected, nan_ok
        self.rel = 1e-6 if rel is None and abs is None else rel or 0.0
        self.abs = 1e-12 if abs is None else abs

    def __eq__(self, other: Any) -> bool:
        return self._near(self.expected, other)

    def _near(self, wanted: Any, got: Any) -> bool:
        if isinstance(wanted, dict):
            return (
                isinstance(got, dict)
                and wanted.keys() == got.keys()
                and all(self._near(value, got[key]) for key, value in wanted.items())
            )
        if isinstance(wanted, list | tuple):
            pairs = isinstance(got, list | tuple) and len(got) == len(wanted)
            return pairs and all(map(self._near, wanted, got))
        if wanted == got:
            return True
        if (
            isinstance(wanted, bool)
            or not isinstance(wanted, int | float)
            or not isinstance(got, int | float)
        ):
            return False
        if math.isnan(wanted):
            return self.nan_ok and math.isnan(got)
        return abs(wanted - got) <= max(self.rel * abs(wanted), self.abs) < math.inf


class _Mark:
    """`pytest.mark`: parameters count, and so do `skip` and `skipif`; other marks change nothing."""

    def parametrize(self, names: Any, values: Any, **_options: Any) -> Any:
        split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        rows = [_values(value, len(split)) for value in values]

        def mark(function: Any) -> Any:
            function.rows = [*getattr(function, "rows", []), (split, rows)]
            return function

        return mark

    def skip(self, *_args: Any, **_options: Any) -> Any:
        return self.skipif(True)

    def skipif(self, condition: Any, *_args: Any, **_options: Any) -> Any:
        def mark(function: Any) -> Any:
            function.skipped = bool(condition)
            return function

        return mark

    def __getattr__(self, _name: str) -> Any:
        return lambda *args, **_options: (
            args[0] if args and callable(args[0]) else (lambda function: function)
        )


def _values(value: Any, count: int) -> tuple[Any, ...]:
    value = value.values if isinstance(value, _Param) else value
    return (value,) if count == 1 and not isinstance(value, _Several) else tuple(value)


class _Several(tuple[Any, ...]):
    pass


class _Param:
    def __init__(self, *values: Any, **_options: Any) -> None:
        self.values = _Several(values)


class _Pytest:
    """The part of pytest that tests of a function use."""

    mark, raises, approx, param = _Mark(), _Raises, _Approx, _Param

    def fixture(self, function: Any = None, **_options: Any) -> Any:
        if function is None:
            return self.fixture
        function.fixture = True
        return function

    def skip(self, *_args: Any, **_options: Any) -> None:
        raise _SkipError

    def fail(self, reason: str = "", **_options: Any) -> None:
        raise AssertionError(reason)


def _ready(name: str, space: dict[str, Any]) -> Any:
    """The value of a fixture: what it returns, or first yields."""
    function = space[name]
    given = {need: _ready(need, space) for need in inspect.signature(function).parameters}
    made = function(**given)
    return next(made) if inspect.isgenerator(made) else made


def _cases(space: dict[str, Any], names: list[str]) -> Any:
    """Every test with every combination of its parameters, as a name and something to call."""
    for name in names:
        owner, _, method = name.rpartition(".")
        function = getattr(space[owner], method) if owner else space[name]
        if getattr(function, "skipped", False):
            continue
        marked = getattr(function, "rows", [])
        for chosen in itertools.product(*(rows for _, rows in marked)):
            given = {
                key: value
                for (split, _), row in zip(marked, chosen, strict=True)
                for key, value in zip(split, row, strict=True)
            }
            yield name, function, owner, given


def _outcome(space: dict[str, Any], function: Any, owner: str, given: dict[str, Any]) -> tuple[Any, ...]:
    """`()` if a test passes, its complaint if not, or the call it asks about."""
    try:
        given = copy.deepcopy(given)
        needs = [need for need in inspect.signature(function).parameters if need not in given]
        own = [space[owner]()] if owner else []
        fixtures = {need: _ready(need, space) for need in needs[len(own) :]}
        function(*own, **given, **fixtures)
    except _AskError as question:
        return ("ask", *question.args)
    except _SkipError:
        return ()
    except AssertionError as error:
        return ("fail", re.sub(r"\s+", " ", str(error))[:200])
    except Exception as error:
        return ("fail", type(error).__name__)
    return ()
