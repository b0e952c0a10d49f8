"""One judge in a process of its own: `python -m skyt.runs.judging.worker`, started by `process`.

It reads requests from standard input and writes answers to standard output, a line of JSON each. Before it
judges a sample it says what the sample's text is and how far that is from the canon, so that a sample which
takes too long is at least measured. SIGUSR1 ends the work on a sample; the judge itself goes on.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from homeostat.core.errors import UserError
from skyt.canon import Canon
from skyt.contracts.contract import Contract
from skyt.generators.base import Generation
from skyt.runs.canons import faults, new_canon
from skyt.runs.config import MeasureConfig
from skyt.runs.judging.assess import Assessor, prepare
from skyt.text.distance import Measured

_PR_SET_PDEATHSIG = 1


class Cut(BaseException):
    """The time for a sample is over. Not an `Exception`: nothing on the way may take it for a failure."""


class Judging:
    """Contracts and tools of one process."""

    def __init__(self, setup: dict[str, Any]) -> None:
        for name in setup["modules"]:  # a distance of the user's own registers itself when it is imported
            importlib.import_module(name)
        settings = MeasureConfig.model_validate(setup["settings"])
        self.contracts = {
            name: Contract.model_validate(contract) for name, contract in setup["contracts"].items()
        }
        self._assessors = {
            level: Assessor(settings.model_copy(update={"evidence": level})) for level in setup["evidence"]
        }

    def answer(self, request: dict[str, Any], first: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        contract = self.contracts[request["contract"]]
        assessor = self._assessors[request["evidence"]]
        canon = None if request["canon"] is None else Canon(**request["canon"])
        if request["task"] == "examine" and canon is not None:
            return {"faults": faults(canon, contract, assessor.verdict)}
        generation = Generation(contract.id, request["model"], request["temperature"], 0, request["text"])
        prepared = prepare(generation.raw_output, contract)
        far = Measured(1.0) if canon is None else assessor.distance(prepared.text, canon.normalized_code)
        measured = {"text": prepared.text, "parsed": prepared.parsed, "d": far.d, "method": far.method}
        first({"prepared": measured})
        if canon is None and request["may_fix"] and assessor.verdict(contract, prepared.text).compliant:
            canon = new_canon(
                contract,
                prepared.text,
                origin="first_compliant",
                model=generation.model,
                temperature=generation.temperature,
            )
        sample = assessor.judge_and_repair(generation, contract, canon)
        return {
            "sample": {name: value for name, value in sample.record.items() if name != "raw_output"},
            "timestamp": sample.timestamp,
            "canon": None if canon is None else asdict(canon),
        }

    def close(self) -> None:
        for assessor in self._assessors.values():
            assessor.__exit__(None, None, None)


def main() -> None:
    # Nothing but answers may go to standard output, whatever a module prints.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    working = False

    def cut(*_: object) -> None:
        nonlocal working
        if working:
            working = False
            raise Cut

    def send(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer, allow_nan=False).encode("ascii") + b"\n")
        answers.flush()

    def send_first(prepared: dict[str, Any]) -> None:
        nonlocal working
        working = False  # half an answer would be none
        send(prepared)
        working = True

    signal.signal(signal.SIGUSR1, cut)
    _die_with_the_parent()
    requests = map(json.loads, sys.stdin.buffer)
    setup = next(requests)
    with contextlib.suppress(OSError):
        os.nice(setup["niceness"])
    try:
        judging = Judging(setup)
    except UserError as error:
        send({"refused": str(error)})
        return
    send({"ready": True})
    for request in requests:
        answer: dict[str, Any]
        try:
            working = True
            answer = judging.answer(request, send_first)
            working = False
        except Cut:
            answer = {"cut": True}
        except UserError as error:
            working = False
            answer = {"refused": str(error)}
        except Exception as error:  # one sample's trouble must not end the judge
            working = False
            answer = {"failed": f"{type(error).__name__}: {error}"[:500]}
        send(answer)
    judging.close()


def _die_with_the_parent() -> None:
    """Also when the parent is killed while this process is busy. Without Linux, the pipe's end does it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    main()
