"""A contract's constraints while the program runs: what it may not import, call or reach ends its process.

Reading the text finds what is written; this finds what happens. The program gets

- a dict of builtins of its own, in which `exec`, `eval`, `compile` and forbidden functions end the process
  and `__import__` hands out only allowed modules, as copies that lead to no other module;
- builtin types whose forbidden methods (`list.sort`) end the process unless the standard library calls them;
- no way from an object at hand to the real builtins and modules: frames, `__globals__`, `__closure__`,
  `__subclasses__` and the like work for the standard library only. What the library then gets is the
  program's own, or has nothing in it: a program can have C code call what it likes while a function of the
  library is on top of the stack, so who asks is not enough.

This is a constraint, not a wall: a program that corrupts its interpreter can undo it. The walls are built by
`lockdown`. Loaded by the jail, installed in the child, with nothing but the standard library.
"""

from __future__ import annotations

import abc
import builtins
import dis
import gc
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

PROGRAM = "<program>"
FREE_IMPORTS = frozenset({"typing", "__future__"})
DYNAMIC = frozenset({"exec", "eval", "compile"})
# Attributes that lead from an object to the namespaces around it, and the types that have them.
LEADS_OUT: dict[type, tuple[str, ...]] = {
    types.FunctionType: ("__globals__", "__builtins__", "__closure__", "__code__"),
    types.BuiltinFunctionType: ("__self__",),
    types.FrameType: ("f_back", "f_globals", "f_builtins", "f_locals", "f_code"),
    types.TracebackType: ("tb_frame",),
    types.GeneratorType: ("gi_frame", "gi_code"),
    types.CoroutineType: ("cr_frame", "cr_code"),
    types.AsyncGeneratorType: ("ag_frame", "ag_code"),
    type: ("__subclasses__",),
}
_EVENTS = frozenset({
    "sys._getframe", "sys._current_frames", "sys._current_exceptions", "sys.settrace", "sys.setprofile",
    "gc.get_objects", "gc.get_referrers", "gc.get_referents", "code.__new__",
})  # fmt: skip
# What a test does not have and a user's machine has: files and somebody who types.
_SYSTEM = frozenset({"open", "builtins.input", "os.listdir", "os.scandir", "socket.__new__", "os.system"})
_LOADS = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_RUNS_TEXT = frozenset({"collections", "harness"})
_USED_BY = {"_strptime": frozenset({"time", "datetime"})}  # what C code imports when the program calls it
_NAMESPACES = ("globals", "locals", "vars", "dir")
_KEPT_BACK = frozenset({"__builtins__", "__loader__", "__spec__", "__cached__", "__file__"})

Forbid = Callable[[str], Any]


class Enforcer:
    """The rules of one jail: made once, before the first fork, and put in force in a child for its program.

    Until `start` everything made here lets everything pass. What is made beforehand costs a child nothing.
    """

    def __init__(
        self, modules: Iterable[types.ModuleType], offered: Iterable[str] = (), forms: str = ""
    ) -> None:
        self.active = self.busy = False
        self.calls: set[int] = set()  # frames of the library that are calling a forbidden method
        self.known: dict[tuple[int, int, str], bool] = {}  # by code and instruction
        self.namespace: dict[str, Any] = {}
        self.imports = self.forbidden = frozenset[str]()
        self.forbid: Forbid = print
        # The namespaces of the standard library and of the harness, by identity.
        self.trusted = frozenset(id(vars(module)) for module in modules)
        self.copies: dict[int, types.ModuleType] = {}
        self.frame = sys._getframe
        self.globals_of: Callable[[Any], dict[str, Any]] = vars(types.FrameType)["f_globals"].__get__
        self.locals_of: Callable[[Any], dict[str, Any]] = vars(types.FrameType)["f_locals"].__get__
        self.space_of: Callable[[Any], dict[str, Any]] = vars(types.FunctionType)["__globals__"].__get__
        self.code_of: Callable[[Any], types.CodeType] = vars(types.FrameType)["f_code"].__get__
        self.builtins = {name: value for name, value in vars(builtins).items() if name not in _KEPT_BACK}
        self.builtins |= {name: self._stub(name) for name in DYNAMIC}
        self.builtins |= {"__import__": self._importer()}
        self.builtins |= {name: self._of_own_frames(name) for name in _NAMESPACES}
        self.forms = compile(forms, "<typing>", "exec", dont_inherit=True)
        for name in offered:
            self.copy(sys.modules[name])
        for kind, names in LEADS_OUT.items():
            for name in names:
                self.guard(kind, name)
        sys._clear_type_cache()

    def start(
        self, namespace: dict[str, Any], imports: Iterable[str], forbidden: Iterable[str], forbid: Forbid
    ) -> None:
        """Put the rules in force for code that runs in `namespace`.

        `forbid` is told what happened, and does not return.
        """
        self.namespace, self.forbidden, self.forbid = namespace, frozenset(forbidden), forbid
        self.imports = FREE_IMPORTS | {name.partition(".")[0] for name in imports}
        namespace["__builtins__"] = self.builtins
        for name in self.forbidden & self.builtins.keys():
            known = self.builtins[name]
            self.builtins[name] = self._forbidden_type(known) if isinstance(known, type) else self._stub(name)
        if self.forbidden:
            self._sort_apart()
            for kind in vars(builtins).values():
                if isinstance(kind, type):
                    self.guard_methods(kind)
            sys._clear_type_cache()
        self.active = True
        sys.addaudithook(self.audit)

    def start_apart(self, forbid: Forbid) -> None:
        """Where a program runs as a user would run it: nothing is in force but that it looks for no files."""
        self.forbid = forbid
        sys.addaudithook(self.audit_system)

    def _stub(self, name: str) -> Callable[..., Any]:
        def stub(*_args: Any, **_kwargs: Any) -> Any:
            self.forbid(f"calls {name}")

        stub.__name__ = stub.__qualname__ = name
        return stub

    def _sort_apart(self) -> None:
        """`sorted` asks its new list for `sort`; where that is forbidden, another `sorted` does not."""
        sort = list.sort

        def sorted_(iterable: Any, /, *, key: Any = None, reverse: Any = False) -> list[Any]:
            made = [*iterable]
            sort(made, key=key, reverse=reverse)
            return made

        sorted_.__name__ = sorted_.__qualname__ = "sorted"
        vars(builtins)["sorted"] = sorted_
        if "sorted" not in self.forbidden:
            self.builtins["sorted"] = sorted_

    def _forbidden_type(self, kind: type) -> type:
        """Stands for a type whose call is forbidden: good for annotations and `isinstance`, not for calls."""
        forbid, name = self.forbid, kind.__name__

        class Uncallable(type):
            def __call__(cls, *_args: Any, **_kwargs: Any) -> Any:
                forbid(f"calls {name}")

            def __instancecheck__(cls, instance: Any) -> bool:
                return isinstance(instance, kind)

            def __subclasscheck__(cls, subclass: type) -> bool:
                return issubclass(subclass, kind)

            def __getitem__(cls, item: Any) -> Any:
                return cls

            def __or__(cls, other: Any) -> Any:
                return kind | other

            __ror__ = __or__

        return Uncallable(
            name, (), {"__init_subclass__": classmethod(lambda cls, **_: forbid(f"calls {name}"))}
        )

    def _of_own_frames(self, name: str) -> Callable[..., Any]:
        """A builtin that looks at its caller's namespace: that of the program, never one of the library.

        A library function that calls what it is given would otherwise hand its own namespace out.
        """
        real, frame, forbid = self.builtins[name], self.frame, self

        def caller(*arguments: Any) -> Any:
            if arguments and name in ("vars", "dir"):
                return real(*arguments)
            above = frame(1)
            space = forbid.globals_of(above)
            if space is not forbid.namespace:
                forbid.forbid(f"calls {name}")
            if name == "globals":
                return space
            found = forbid.locals_of(above)
            return sorted_(found) if name == "dir" else found

        sorted_ = sorted
        caller.__name__ = caller.__qualname__ = name
        return caller

    def _importer(self) -> Callable[..., Any]:
        real = builtins.__import__

        def importer(name: Any, _g: Any = None, _l: Any = None, fromlist: Any = (), level: int = 0) -> Any:
            plain = str.__str__(name)
            if level:
                self.forbid("imports a relative module")
            top = plain.partition(".")[0]
            if top not in self.imports and _USED_BY.get(top, frozenset()).isdisjoint(self.imports):
                self.forbid(f"imports {top}")
            return self.hand_out(real(plain, {"__name__": "program"}, None, fromlist, 0))

        importer.__name__ = importer.__qualname__ = "__import__"
        return importer

    def hand_out(self, module: types.ModuleType) -> types.ModuleType:
        """The copy of a module, with forbidden functions and methods replaced."""
        copy = self.copy(module)
        mine = vars(copy)
        if module is sys:
            mine["modules"] = self._modules()
        if self.forbidden:
            mine.update(
                {name: self._stub(name) for name in self.forbidden & mine.keys() if callable(mine[name])}
            )
            for kind in mine.values():
                if isinstance(kind, type):
                    self.guard_methods(kind)
            sys._clear_type_cache()
        return copy

    def _typing(self, module: types.ModuleType) -> types.ModuleType:
        """Forms for annotations, made under the program's builtins; see `forms.py`."""
        made = self.copies[id(module)] = types.ModuleType("typing")
        vars(made)["__builtins__"] = self.builtins
        types.FunctionType(self.forms, vars(made))()
        return made

    def copy(self, module: types.ModuleType) -> types.ModuleType:
        """A module without ways to others."""
        if id(module) not in self.copies and module.__name__ == "typing":
            return self._typing(module)
        if id(module) not in self.copies:
            copy = self.copies[id(module)] = types.ModuleType(module.__name__, module.__doc__)
            source = self.builtins if module is builtins else vars(module)
            vars(copy).update(
                (name, value)
                for name, value in source.items()
                if name not in _KEPT_BACK and not isinstance(value, types.ModuleType)
            )
            vars(copy)["__getattr__"] = self._module_getattr(module)
        return self.copies[id(module)]

    def _modules(self) -> dict[str, types.ModuleType]:
        """What stands for `sys.modules`: modules that may not be imported are not to be found there."""
        forbid = self.forbid

        class Modules(dict[str, types.ModuleType]):
            def __missing__(self, name: str) -> Any:
                forbid(f"reaches the module {name}")

        return Modules((name, self.copy(sys.modules[name])) for name in self.imports & sys.modules.keys())

    def _module_getattr(self, module: types.ModuleType) -> Callable[[str], Any]:
        """Submodules are handed out when they are asked for; other modules never."""

        def module_getattr(name: str) -> Any:
            value = vars(module).get(name)
            if not isinstance(value, types.ModuleType):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            inside = sys.modules.get(f"{module.__name__}.{name}") is value
            if not inside and value.__name__.partition(".")[0] not in self.imports:
                self.forbid(f"reaches the module {name}")
            return self.hand_out(value)

        return module_getattr

    def guard_methods(self, kind: type) -> None:
        for name in self.forbidden & vars(kind).keys():
            if callable(vars(kind)[name]):
                self.guard(kind, name, method=True)

    def guard(self, kind: type, name: str, *, method: bool = False) -> None:
        """Let only the standard library use an attribute of a type."""
        space = gc.get_referents(vars(kind))[0]
        original = space.get(name)
        if original is None or __name__ in (type(original).__module__, getattr(original, "__module__", "")):
            return  # not there, or guarded already
        enforcer = self

        if method:

            def guarded(*args: Any, **kwargs: Any) -> Any:
                if not enforcer.active:
                    return original(*args, **kwargs)
                frame = enforcer.caller_of(name)
                try:
                    return original(*args, **kwargs)
                finally:
                    enforcer.calls.discard(id(frame))

        elif name == "__subclasses__":

            def guarded(*args: Any, **kwargs: Any) -> Any:
                known = original(*args, **kwargs)
                if not enforcer.active:
                    return known
                enforcer.check(name)
                return known if isinstance(args[0], abc.ABCMeta) else []

        else:

            class Guarded:
                __slots__ = ()

                def __get__(self, instance: Any, owner: Any = None) -> Any:
                    if not enforcer.active:
                        return original.__get__(instance, owner)
                    enforcer.check(name)
                    return self if instance is None else enforcer.harmless(name, instance, original)

                def __set__(self, instance: Any, value: Any) -> None:
                    if enforcer.active:
                        enforcer.forbid(f"reaches {name}")
                    original.__set__(instance, value)

            space[name] = Guarded()
            return
        guarded.__name__ = guarded.__qualname__ = name
        space[name] = guarded

    def check(self, name: str) -> None:
        """Go on only if the code that asks belongs to the standard library and speaks of this name itself."""
        frame = self._frame(2)
        code = self.code_of(frame)
        named = name in code.co_names or name in code.co_consts
        if name == "__subclasses__":  # asked for by C code on behalf of `isinstance` with an abstract class
            named = self.globals_of(frame).get("__name__") == "abc"
        if not (named and self._trusts(frame)):
            self.forbid(f"reaches {name}")

    def harmless(self, name: str, instance: Any, original: Any) -> Any:
        """What the library gets: the program's own namespaces, none of others, and code that does nothing."""
        value = original.__get__(instance)
        if type(value) is types.CodeType:
            return _hollow(value)
        if name in ("__builtins__", "f_builtins"):
            return self.builtins
        if name in ("__globals__", "f_globals"):
            return value if value is self.namespace else {"__name__": value.get("__name__")}
        if name == "f_locals":
            return value if self.globals_of(instance) is self.namespace else {}
        if name == "__closure__":
            return value if self.space_of(instance) is self.namespace else None
        return None if type(value) is types.ModuleType else value

    def caller_of(self, name: str) -> types.FrameType:
        """The frame that calls a forbidden method: only the text of the library may, not C code that it
        calls, and not what runs meanwhile."""
        frame = self._frame(2)
        if id(frame) in self.calls or not self._trusts(frame) or not self._calls(frame, name):
            self.forbid(f"calls {name}")
        self.calls.add(id(frame))
        return frame

    def _calls(self, frame: types.FrameType, name: str) -> bool:
        """Whether the instruction that a frame is at is the call of a method of this name: it starts where
        the look-up of the name does."""
        code, at = self.code_of(frame), frame.f_lasti
        key = (id(code), at, name)
        if key not in self.known:
            starts = {
                step: step.positions[0::2]
                for step in dis.get_instructions(code)
                if step.offset <= at and step.positions
            }
            *_, here = starts.values()
            self.known[key] = any(
                step.opname in _LOADS and step.argval == name and start == here
                for step, start in starts.items()
            )
        return self.known[key]

    def _frame(self, above: int) -> types.FrameType:
        """A frame above the caller's, without an event. No error, and there may be one, leaves it at that."""
        self.busy = True
        try:
            return self.frame(above + 1)
        finally:
            self.busy = False

    def _trusts(self, frame: types.FrameType) -> bool:
        return id(self.globals_of(frame)) in self.trusted and self.code_of(frame).co_filename != PROGRAM

    def _may_run_text(self, frame: types.FrameType) -> bool:
        """Whether this part of the library makes functions from texts that a program cannot choose freely."""
        name = self.globals_of(frame).get("__name__")
        if (
            name == "dataclasses"
        ):  # field names go into its texts, which must run under the program's own rules
            known = self.locals_of(frame)
            space = known.get("globals") or vars(known.get("self")).get("globals")
            return space is self.namespace
        return name in _RUNS_TEXT

    def audit(self, event: str, _arguments: tuple[Any, ...]) -> None:
        """Called by the interpreter; what it does not care about passes."""
        if self.busy or (event != "exec" and event not in _EVENTS and event not in _SYSTEM):
            return
        frame = self._frame(1)
        if event == "exec":
            if not self._trusts(frame) or not self._may_run_text(frame):
                self.forbid("runs text as code")
        elif not self._trusts(frame):
            self.forbid(f"calls {event}")

    def audit_system(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if event in _SYSTEM and not self.busy and not self._trusts(self._frame(1)):
            self.forbid(f"calls {event}")


def _hollow(code: types.CodeType) -> types.CodeType:
    """The same signature and positions, and nothing that happens when it is run."""
    nothing = bytes((dis.opmap["LOAD_CONST"], 0, dis.opmap["RETURN_VALUE"], 0))
    still = bytes((dis.opmap["NOP"], 0)) * ((len(code.co_code) - len(nothing)) // 2)
    return code.replace(co_code=still + nothing, co_consts=(None,), co_names=(), co_exceptiontable=b"")
