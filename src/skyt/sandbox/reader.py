"""Reading what a stranger's process writes, with limits enforced while reading.

A line longer than `line_bytes`, more than `output_bytes` altogether, or a line that is not of the expected
form ends the reading at once. Only the expected number of lines is ever kept, so the memory in use is bounded
by `output_bytes`, and the time by the bytes read: nothing is split, parsed or decoded beyond that.
"""

from __future__ import annotations

import json

from skyt.sandbox.results import ENDINGS, CallResult

_NAME_BYTES = 2048  # of a line that carries a name or a reason: 100 characters, escaped
_MALFORMED = CallResult("crash", "malformed output")


class Reader:
    """The results of one program, fed with the bytes it writes.

    The first line says that the request was read, the second whether the program was loaded; then comes one
    line per call. `problem` is set when the output breaks a limit or its form; nothing after that counts.
    """

    def __init__(self, count: int, line_bytes: int, output_bytes: int) -> None:
        self.count, self.line_bytes, self.output_bytes = count, line_bytes, output_bytes
        self.started = False
        self.problem = ""
        self._results: list[CallResult] = []
        self._for_all: CallResult | None = None  # the outcome of every call of a program that was not loaded
        self._loaded = False
        self._line = bytearray()
        self._total = 0

    @property
    def complete(self) -> bool:
        """Whether every call has its result, or can no longer get one."""
        if self.problem or self._for_all is not None:
            return True
        ended = bool(self._results) and self._results[-1].kind in ENDINGS
        return self._loaded and (ended or len(self._results) >= self.count)

    def feed(self, data: bytes) -> None:
        """Take in the next bytes. What follows the last expected line is counted and dropped."""
        allowed = data[: self.output_bytes - self._total]
        self._total += len(allowed)
        self._split(allowed)
        if len(allowed) < len(data):
            self._stop("too much output")

    def _split(self, data: bytes) -> None:
        at = 0
        while not self.complete:
            end = data.find(b"\n", at)
            piece = data[at:] if end < 0 else data[at:end]
            if len(self._line) + len(piece) >= self.line_bytes:
                self._stop("a line too long")
            elif end < 0:
                self._line += piece
                return
            else:
                line = bytes(self._line) + piece
                self._line.clear()
                self._take(line)
                at = end + 1
        self._line.clear()

    def results(self, ending: CallResult) -> list[CallResult]:
        """One result per call; how the process ended stands in for the first that is missing."""
        if self._for_all is not None:
            return [self._for_all] * self.count
        if not self._loaded:
            return [ending] * self.count
        results = self._results[: self.count]
        missing = self.count - len(results)
        if missing and not (results and results[-1].kind in ENDINGS):
            results.append(ending)
            missing -= 1
        return results + [CallResult("unrun")] * missing

    def _stop(self, problem: str) -> None:
        self.problem = self.problem or problem

    def _take(self, line: bytes) -> None:
        if not self.started:
            self.started = line == b"R"
            if not self.started:
                self._stop(_MALFORMED.text)
        elif not self._loaded:
            outcome = _loading(line)
            if outcome is None:
                self._loaded = True
            else:
                self._for_all = outcome
                self._stop_if_malformed(outcome)
        else:
            result = _result(line)
            self._results.append(result)
            self._stop_if_malformed(result)

    def _stop_if_malformed(self, result: CallResult) -> None:
        if result is _MALFORMED:
            self._stop(result.text)


def _loading(line: bytes) -> CallResult | None:
    """None if the program was loaded, or what every call comes to."""
    if line == b"L\tnull":
        return None
    kind, _, text = line.partition(b"\t")
    name = _name(text)
    if name is None or kind not in (b"L", b"f"):
        return _MALFORMED
    if kind == b"f":
        return CallResult("forbidden", name)
    return CallResult("unloaded", name)


def _result(line: bytes) -> CallResult:
    kind, _, rest = line.partition(b"\t")
    if not rest.isascii():
        return _MALFORMED
    if kind == b"v" and rest.count(b"\t") == 1:
        value, _, after = rest.partition(b"\t")
        return CallResult("value", value.decode("ascii"), after.decode("ascii"))
    name = _name(rest)
    if name is None or kind not in (b"x", b"f"):
        return _MALFORMED
    return CallResult("raise" if kind == b"x" else "forbidden", name)


def _name(text: bytes) -> str | None:
    """A short JSON string, or None."""
    if len(text) > _NAME_BYTES or not text.startswith(b'"'):
        return None
    try:
        return str(json.loads(text))[:100]
    except ValueError:
        return None
