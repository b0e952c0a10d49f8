"""What runs beside a stranger's program, in a forked child that is thrown away after it.

The harness carries values in and out and puts the contract's constraints in force. It judges no result: the
program can do to this process whatever Python can do, so everything said here is said in the program's name.
Loaded by the jail, with nothing but the standard library.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import signal
import sys
import types
from typing import Any

_CHANGEABLE = (list, dict, set)


class Watch:
    """A profile function: whether a function of the program was called while it was running already."""

    def __init__(self) -> None:
        self.running: list[Any] = []
        self.recursed = False

    def __call__(self, frame: Any, event: str, _argument: Any) -> None:
        if event not in ("call", "return") or (code := frame.f_code).co_filename != "<program>":
            return
        if event == "call":
            if code in self.running:
                self.recursed = True
                sys.setprofile(None)
            self.running.append(code)
        elif self.running:
            self.running.pop()


def _depth() -> int:
    """How many frames there are below the program's own, which a program of a user does not have."""
    frame: types.FrameType | None = sys._getframe(1)
    count = 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count - 1


def serve(
    body: bytes,
    out: int,
    call_seconds: float,
    max_result: int,
    codec: Any,
    settle: Any,
    enforcer: Any = None,
) -> None:
    """Load the program, make the calls, write one line per call.

    `L` loaded or not, `v` value and changed arguments, `x` exception, `t` out of time, `f` a broken
    constraint. Texts are ASCII JSON, so tabs and newlines can only be separators.
    """
    os.write(out, b"R\n")  # the request has been read; the jail can go on even if this process dies now
    head, calls_text = body.split(b"\n", 1)
    job = json.loads(head)
    calls = json.loads(calls_text)
    write, leave, dumps, decode = os.write, os._exit, codec.to_json, codec.decode
    setitimer, profile = signal.setitimer, signal.ITIMER_PROF
    form = job["form"]

    def encode(value: Any) -> Any:
        return codec.encode(value, **form)

    def emit(kind: str, *parts: str) -> None:
        line = "\t".join((kind, *parts)) + "\n"
        if len(line) > max_result:
            line = 'v\t{"o":"too large"}\t\n'
        data = line.encode("ascii")
        while data:
            data = data[write(out, data) :]

    def forbid(what: str) -> None:
        """End the process: a program must not be able to catch it and go on."""
        setitimer(profile, 0)
        emit("f", dumps(what[:100]))
        leave(0)

    where = "load"

    def expire(_signal: int, _frame: Any) -> None:
        """The CPU time of one call is used up. A program must not be able to catch that and go on."""
        emit("L", dumps("timeout")) if where == "load" else emit("t")
        leave(0)

    signal.signal(signal.SIGPROF, expire)
    random.seed(0)
    settle.asyncio.set_event_loop_policy(settle.Policy())
    module = types.ModuleType(job["module"])
    sys.modules[job["module"]] = module
    sys.setrecursionlimit(sys.getrecursionlimit() + _depth())
    watch = Watch()
    if job["rules"] is not None:
        enforcer.start(module.__dict__, **job["rules"], forbid=forbid)
    setitimer(profile, call_seconds)
    try:
        exec(compile(job["code"], "<program>", "exec", dont_inherit=True), module.__dict__)  # noqa: S102
        setitimer(profile, 0)
    except BaseException as error:
        setitimer(profile, 0)
        return emit("L", dumps(_name(error)))
    entry = module.__dict__.get(job["name"])
    if entry is None or (job["kind"] == "class") != isinstance(entry, type) or not callable(entry):
        return emit("L", dumps("no entry point"))
    emit("L", "null")
    where = "calls"
    if job["watched"]:
        sys.setprofile(watch)

    for call in calls:
        setitimer(profile, call_seconds)
        try:
            args = _spread(call["spread"], codec) if "spread" in call else [decode(a) for a in call["args"]]
            kwargs = {name: decode(value) for name, value in call.get("kwargs", {}).items()}
            operations = call.get("operations")
            if operations is None:
                result = settle.settled(entry(*args, **kwargs), encode, _outcome)
                given = (*args, *kwargs.values())
                after = [encode(value) for value in given] if any(map(_changeable, given)) else None
            else:
                result = _operate(entry(*args, **kwargs), operations, encode, decode)
                after = None
            setitimer(profile, 0)
        except BaseException as error:
            setitimer(profile, 0)
            emit("x", dumps(_name(error)))
            continue
        changed = "" if after is None else _changed(dumps(after), call, codec, form)
        emit("v", dumps(result), changed)
    if job["watched"]:
        sys.setprofile(None)
        emit("v", dumps(watch.recursed), "")
    return None


def _spread(text: str, codec: Any) -> list[Any]:
    """The items of a tuple that another process gave as text: the arguments of this call."""
    items = codec.loads(text)
    if type(items) is not tuple:
        raise ValueError("not a tuple")
    return list(items)


def _changeable(value: Any) -> bool:
    """Whether a call could change this argument, or something in a tuple of them."""
    kind = type(value)
    return kind in _CHANGEABLE or (kind is tuple and any(map(_changeable, value)))


def _changed(after: str, call: Any, codec: Any, form: dict[str, bool]) -> str:
    """The text of the arguments after the call, those by name last; nothing where it is that from before."""
    before = call.get("args")
    if before is None:
        return ""
    before = [*before, *call.get("kwargs", {}).values()]
    if after == codec.to_json(before):
        return ""
    if after == codec.dumps([codec.decode(arg) for arg in before], **form):
        return ""
    return after


def _operate(target: Any, operations: list[Any], encode: Any, decode: Any) -> Any:
    """A sequence of method calls; each gives a value or the name of an exception."""
    outcomes = []
    for method, args in operations:
        try:
            outcomes.append(encode(getattr(target, method)(*[decode(arg) for arg in args])))
        except BaseException as error:
            outcomes.append(_outcome(error))
    return outcomes


def _outcome(error: BaseException) -> dict[str, str]:
    """An exception as part of a result."""
    return {"x": _name(error)}


def _name(error: BaseException) -> str:
    """The name of an exception's class; one of the program's own is not the builtin of that name."""
    kind = type(error)
    name = str(type.__dict__["__name__"].__get__(kind))[:100]
    return name if getattr(builtins, name, kind) is kind else f"{name} of the program"
