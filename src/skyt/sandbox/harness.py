"""What runs beside a stranger's program, in a forked child that is thrown away after it.

The harness carries values in and out and puts the contract's constraints in force. It judges no result: the
program can do to this process whatever Python can do, so everything said here is said in the program's name.
Loaded by the jail, with nothing but the standard library.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import json
import os
import random
import signal
import sys
import types
from typing import Any

PROGRAM = "<program>"
FILE = "/home/user/solution.py"
_BUILTIN = frozenset(kind for kind in vars(builtins).values() if isinstance(kind, type))
_CHANGEABLE = (list, dict, set)


class Watch:
    """A profile function: whether a function of the program was called while it was running already."""

    def __init__(self) -> None:
        self.running: list[Any] = []
        self.recursed = False

    def __call__(self, frame: Any, event: str, _argument: Any) -> None:
        if event not in ("call", "return") or (code := frame.f_code).co_filename != FILE:
            return
        if event == "call":
            if code in self.running:
                self.recursed = True
                sys.setprofile(None)
            self.running.append(code)
        elif self.running:
            self.running.pop()

    def start(self) -> None:
        sys.setprofile(self)

    def stop(self) -> bool:
        """Whether there was recursion, or the program has seen to it that this cannot be told."""
        disturbed = sys.getprofile() is not self
        sys.setprofile(None)
        return self.recursed or disturbed


class Kept:
    """Results that have been given, to see whether later calls change them."""

    def __init__(self, text: Any) -> None:
        self.results: list[tuple[Any, str]] = []
        self.text = text

    def add(self, value: Any) -> None:
        if _changeable(value):
            self.results.append((value, self.text(value)))

    def changed(self) -> bool:
        return any(self.text(value) != text for value, text in self.results)


class Reads(list):  # type: ignore[type-arg]
    """A list that counts how often its elements are read, also through its slices."""

    def __init__(self, values: Any, count: list[int]) -> None:
        super().__init__(values)
        self.__count = count

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return Reads(super().__getitem__(at), self.__count)
        self.__count[0] += 1
        return super().__getitem__(at)

    def __iter__(self) -> Any:
        for value in super().__iter__():
            self.__count[0] += 1
            yield value


def _reading_all(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._Reads__count[0] += len(self)
        return getattr(list, name)(self, *args, **kwargs)

    return method


for _method in ("__contains__", "__reversed__", "__eq__", "__add__", "__mul__", "index", "count", "sort"):
    setattr(Reads, _method, _reading_all(_method))


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

    `L` loaded or not, `v` value and changed arguments, `x` exception, `f` a broken constraint. Texts are
    ASCII JSON, so tabs and newlines can only be separators.
    """
    os.write(out, b"R\n")  # the request has been read; the jail can go on even if this process dies now
    head, calls_text = body.split(b"\n", 1)
    job = json.loads(head)
    calls = json.loads(calls_text)
    write, leave, dumps, decode = os.write, os._exit, codec.to_json, codec.decode
    setitimer, profile = signal.setitimer, signal.ITIMER_PROF
    form, apart = job["form"], job["apart"]

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
        emit("f", dumps(what[:100]))
        leave(0)

    # The system ends the process when the CPU time of a call is used up: no code of Python's runs that could
    # fail, or be caught.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    if not apart:
        random.seed(0)
    settle.asyncio.set_event_loop_policy(settle.Policy())
    module = _module(job["module"], apart)
    sys.setrecursionlimit(sys.getrecursionlimit() + _depth())
    watch, kept = Watch(), Kept(lambda value: dumps(encode(value)))
    if job["rules"] is not None:
        if apart:
            enforcer.start_apart(forbid)
        else:
            enforcer.start(module.__dict__, **job["rules"], forbid=forbid)
    setitimer(profile, call_seconds)
    try:
        program = compile(job["code"], FILE if apart else PROGRAM, "exec", dont_inherit=True)
        exec(program, module.__dict__)  # noqa: S102
        setitimer(profile, 0)
    except BaseException as error:
        setitimer(profile, 0)
        return emit("L", dumps(_name(error)))
    entry = module.__dict__.get(job["name"])
    if entry is None or (job["kind"] == "class") != isinstance(entry, type) or not callable(entry):
        return emit("L", dumps("no entry point"))
    emit("L", "null")
    if job["watched"]:
        watch.start()

    for call in calls:
        setitimer(profile, call_seconds)
        try:
            args = _spread(call["spread"], codec) if "spread" in call else [decode(a) for a in call["args"]]
            kwargs = {name: decode(value) for name, value in call.get("kwargs", {}).items()}
            operations, reads = call.get("operations"), [0]
            if job["reads"]:
                entry(*[Reads(a, reads) if type(a) is list else a for a in args], **kwargs)
                result, after = reads[0], None
            elif operations is None:
                value = entry(*args, **kwargs)
                result = settle.settled(value, encode, _outcome)
                if apart:
                    kept.add(value)
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
    if apart:
        recursed = job["watched"] and watch.stop()
        emit("v", dumps({"d": [["recursed", recursed], ["changed", kept.changed()]]}), "")
    return None


def _module(name: str, apart: bool) -> types.ModuleType:
    """Where the program is loaded; `apart` with what the interpreter gives a file that is run or imported."""
    module = sys.modules[name] = types.ModuleType(name)
    if apart:
        loader = importlib.machinery.SourceFileLoader(name, FILE)
        vars(module).update(__file__=FILE, __loader__=loader, __cached__=None)
        if name == "__main__":
            vars(module).update(__annotations__={}, __builtins__=builtins)
        else:
            spec = importlib.machinery.ModuleSpec(name, loader, origin=FILE)
            vars(module).update(__spec__=spec, __package__="")
    return module


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
    """The name of an exception's class. One that is not builtin says which builtin it is a kind of."""
    kind = type(error)
    name = str(type.__dict__["__name__"].__get__(kind))[:100]
    base = next(known for known in type.__dict__["__mro__"].__get__(kind) if known in _BUILTIN)
    whose = " of the program" if hasattr(builtins, name) else ""
    return name if base is kind else f"{name}{whose} ({base.__name__})"
