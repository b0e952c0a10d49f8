"""What is sent into the sandbox: a program, the calls to make to it, and what it may use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skyt.contracts import codec
from skyt.contracts.contract import EntryPoint
from skyt.contracts.domain import Call
from skyt.contracts.equality import EXACT, Equality
from skyt.sandbox.results import CallResult


@dataclass(frozen=True)
class Limits:
    """What one program may use for a batch of calls. CPU time decides: a busy machine changes no verdict.

    `result_bytes` bounds the line of one result, `output_bytes` everything that one program may write.
    """

    call_seconds: float = 1.0
    cpu_seconds: float = 5.0
    wall_seconds: float = 12.0
    memory_mb: int = 512
    result_bytes: int = 1 << 20
    output_bytes: int = 16 << 20

    def lasting(self, seconds: float | None) -> Limits:
        """The same with at least so much CPU time for the batch."""
        if seconds is None:
            return self
        wall = max(self.wall_seconds, 2 * seconds)
        return replace(self, cpu_seconds=max(self.cpu_seconds, seconds), wall_seconds=wall)


@dataclass(frozen=True)
class EncodedCalls:
    """Calls ready to be sent, to be reused for many programs."""

    count: int
    data: bytes


def encode_calls(calls: Iterable[Call]) -> EncodedCalls:
    encoded = [call.to_json() for call in calls]
    return EncodedCalls(len(encoded), _json(encoded))


def pass_on(rows: Iterable[tuple[Sequence[Any], Sequence[CallResult]]]) -> EncodedCalls:
    """Calls with values of ours, followed by values that other calls gave, which travel as texts.

    The receiving process decodes them; one that is not the text of a value makes its call fail there.
    """
    encoded = [
        {
            "args": [
                *(codec.encode(value, whole=True) for value in values),
                *({"e": result.text} for result in results),
            ]
        }
        for values, results in rows
    ]
    return EncodedCalls(len(encoded), _json(encoded))


def spread(results: Iterable[CallResult]) -> EncodedCalls:
    """Calls whose arguments are the items of the tuples that other calls gave, decoded where they arrive."""
    encoded = [{"spread": result.text} for result in results]
    return EncodedCalls(len(encoded), _json(encoded))


@dataclass(frozen=True)
class Rules:
    """What a program may not do, enforced while it runs: imports outside the list, and these names."""

    imports: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """One program, the calls to make to it, the form its results take, and the rules it must keep.

    `module` is the name that the program finds in `__name__`. A job `apart` runs as a user would run it: in
    an interpreter with a hash seed that nobody can know, as a file, with no rules in force but that it opens
    none. One more result says what was seen there: whether a result changed after it had been given and, if
    `watched`, whether a function of the program was called while it was running already. With `reads`, the
    results are how many elements of list arguments each call read.
    """

    code: str
    entry_point: EntryPoint
    calls: EncodedCalls
    equality: Equality = EXACT
    rules: Rules | None = None
    module: str = ""
    apart: bool = False
    watched: bool = False
    reads: bool = False

    @property
    def results(self) -> int:
        return self.calls.count + self.apart

    def body(self) -> bytes:
        head = {
            "code": self.code,
            "kind": self.entry_point.kind,
            "name": self.entry_point.name,
            "form": self.equality.form,
            "module": self.module or module_name(self.code),
            "apart": self.apart,
            "watched": self.watched,
            "reads": self.reads,
            "rules": self.rules and {"imports": self.rules.imports, "forbidden": self.rules.forbidden},
        }
        return _json(head) + b"\n" + self.calls.data


def module_name(code: str, kind: str = "") -> str:
    """A name for the module of a program, which the program cannot have known when it was written."""
    return f"solution_{hashlib.sha256((kind + code).encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _json(data: Any) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode("ascii")
