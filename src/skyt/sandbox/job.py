"""What is sent into the sandbox: a program, the calls to make to it, and what it may use."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from skyt.contracts.contract import EntryPoint
from skyt.contracts.domain import Call


@dataclass(frozen=True)
class Limits:
    """What one program may use for a batch of calls. CPU time decides: a busy machine changes no verdict."""

    call_seconds: float = 1.0
    cpu_seconds: float = 5.0
    wall_seconds: float = 12.0
    memory_mb: int = 512
    result_bytes: int = 1 << 20
    output_bytes: int = 64 << 20


@dataclass(frozen=True)
class EncodedCalls:
    """Calls ready to be sent, to be reused for many programs."""

    count: int
    data: bytes


def encode_calls(calls: Iterable[Call]) -> EncodedCalls:
    encoded = [call.to_json() for call in calls]
    return EncodedCalls(len(encoded), json.dumps(encoded, separators=(",", ":")).encode("ascii"))


@dataclass(frozen=True)
class Job:
    """One program and the calls to make to it."""

    code: str
    entry_point: EntryPoint
    calls: EncodedCalls

    def body(self) -> bytes:
        head = {"code": self.code, "kind": self.entry_point.kind, "name": self.entry_point.name}
        return json.dumps(head).encode("ascii") + b"\n" + self.calls.data
