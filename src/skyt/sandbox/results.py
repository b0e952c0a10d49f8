"""What comes out of the sandbox: one result a call, as text that is compared and decoded, never executed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from skyt.contracts import codec

Kind = Literal["value", "raise", "timeout", "crash", "unrun", "unloaded"]
_OPAQUE = '{"o":'


@dataclass(frozen=True, slots=True)
class CallResult:
    """The outcome of one call.

    `value`: `text` is the value's encoding and `args_after` that of the arguments if the call changed them.
    `raise`: `text` is the exception's class name. `timeout`, `crash`: the call did not end by itself.
    `unloaded`: the program could not be loaded or lacks the entry point (`text` says why). `unrun`: an
    earlier call ended the process. For a class the value is the list of its operations' outcomes.
    """

    kind: Kind
    text: str = ""
    args_after: str = ""

    @property
    def comparable(self) -> bool:
        """Whether equality means anything: opaque objects and calls without an end equal nothing."""
        return (self.kind == "value" and _OPAQUE not in self.text + self.args_after) or self.kind == "raise"

    @property
    def value(self) -> Any:
        """The decoded value; ValueError where there is none or a forged one."""
        if self.kind != "value":
            raise ValueError(f"no value: {self.show()}")
        return codec.loads(self.text)

    def show(self) -> str:
        """For people: `6`, `raises ValueError`, `ran out of time`."""
        if self.kind == "value":
            return _show(self.text) + (
                f" (arguments now {_show(self.args_after)})" if self.args_after else ""
            )
        words = {
            "raise": f"raises {self.text}",
            "timeout": "ran out of time",
            "crash": f"ended its process ({self.text})",
            "unloaded": f"did not load ({self.text})",
            "unrun": "was not run",
        }
        return words[self.kind]


def same(first: CallResult, second: CallResult) -> bool:
    """Equal values of equal types and equal changes to the arguments, or exceptions of the same class."""
    return first == second and first.comparable


def expected(value: Any) -> CallResult:
    """The result that a call returning this value gives."""
    return CallResult("value", codec.dumps(value))


def parse(output: bytes, count: int, ending: CallResult) -> list[CallResult]:
    """Results from a child's output, padded with how it ended where lines are missing or malformed."""
    lines = output.split(b"\n")
    lines.pop()  # what follows the last newline is unfinished
    lines = lines[1:]  # the first says that the request was read
    if not lines:
        return [ending] * count
    loaded = _loaded(lines[0])
    if loaded is not None:
        return [loaded] * count
    results: list[CallResult] = []
    for line in lines[1 : count + 1]:
        result = _result(line)
        results.append(result)
        if result.kind in ("timeout", "crash"):
            break
    missing = count - len(results)
    if missing:
        stopped = bool(results) and results[-1].kind in ("timeout", "crash")
        results += [CallResult("unrun") if stopped or i else ending for i in range(missing)]
    return results


def _loaded(line: bytes) -> CallResult | None:
    kind, _, reason = line.partition(b"\t")
    if kind != b"L":
        return CallResult("crash", "malformed output")
    try:
        text = json.loads(reason)
    except (ValueError, RecursionError):
        return CallResult("crash", "malformed output")
    if text is None:
        return None
    return CallResult("timeout") if text == "timeout" else CallResult("unloaded", str(text)[:100])


def _result(line: bytes) -> CallResult:
    try:
        parts = line.decode("ascii").split("\t")
        if parts[0] == "v" and len(parts) == 3:
            return CallResult("value", parts[1], parts[2])
        if parts[0] == "x" and len(parts) == 2:
            return CallResult("raise", str(json.loads(parts[1]))[:100])
        if parts == ["t"]:
            return CallResult("timeout")
    except (ValueError, RecursionError):
        pass
    return CallResult("crash", "malformed output")


def _show(text: str) -> str:
    try:
        shown = repr(codec.loads(text))
    except ValueError:
        shown = text
    return shown if len(shown) <= 200 else shown[:197] + "..."
