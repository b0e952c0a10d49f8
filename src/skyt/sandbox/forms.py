# mypy: ignore-errors
# ruff: noqa
"""What stands for `typing` in a program whose imports are limited: forms that annotations need.

The library's own `typing` calls what it is given from its own frames, and so hands its namespace to whoever
calls `globals` through it. This source runs under the program's builtins, in a namespace of its own that has
nothing else in it, and imports nothing.
"""


class _Form:
    """A name of `typing`, with or without parameters; `kinds` are what `isinstance` and a call take it for."""

    def __init__(self, name, *kinds, has=()):
        self._name, self._kinds, self._has = name, kinds, has

    def __repr__(self):
        return f"typing.{self._name}"

    def __getitem__(self, _item):
        return self

    def __or__(self, _other):
        return self

    __ror__ = __or__

    def __call__(self, *arguments, **named):
        if len(self._kinds) != 1:
            raise TypeError(f"Cannot instantiate {self!r}")
        return self._kinds[0](*arguments, **named)

    def __instancecheck__(self, instance):
        return self.__subclasscheck__(type(instance))

    def __subclasscheck__(self, kind):
        if self._has:
            return all(hasattr(kind, name) for name in self._has)
        if not self._kinds:
            raise TypeError(f"{self!r} cannot be used with isinstance()")
        return issubclass(kind, self._kinds)

    def __mro_entries__(self, _bases):
        return self._kinds[:1]


class Generic:
    """A base class that takes parameters."""

    def __class_getitem__(cls, _item):
        return cls


class Protocol(Generic):
    """A base class that names methods."""


class _TypedDict(dict):
    def __init_subclass__(cls, total=True):
        pass


class _Record(type):
    """Makes a class with annotations into a tuple with named items."""

    def __new__(kind, name, bases, space):
        if not bases:
            return type.__new__(kind, name, bases, space)
        fields = tuple(space.get("__annotations__", {}))
        defaults = {field: space.pop(field) for field in fields if field in space}
        return _record(name, fields, defaults, space)


class _RecordBase(metaclass=_Record):
    """Stands among the bases of a class until it is made."""


class _NamedTuple(_Form):
    def __mro_entries__(self, _bases):
        return (_RecordBase,)

    def __call__(self, name, fields=(), **named):
        annotations = {**{field: kind for field, kind in fields}, **named}
        return _record(name, tuple(annotations), {}, {"__annotations__": annotations})


def _record(name, fields, defaults, space):
    def make(cls, *values, **named):
        given = {**defaults, **{field: value for field, value in zip(fields, values)}, **named}
        if (
            len(values) > len(fields)
            or [f for f in fields if f not in given]
            or [f for f in given if f not in fields]
        ):
            raise TypeError(f"{name}() takes {', '.join(fields)}")
        return tuple.__new__(cls, [given[field] for field in fields])

    def show(self):
        return f"{name}({', '.join(f'{f}={v!r}' for f, v in zip(fields, self))})"

    def item(at):
        return property(lambda self: tuple.__getitem__(self, at))

    members = {field: item(at) for at, field in enumerate(fields)}
    members |= {"__slots__": (), "_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
    members |= {"__new__": make, "__repr__": show}
    members["_asdict"] = lambda self: {field: value for field, value in zip(fields, self)}
    members["_replace"] = lambda self, **named: make(type(self), **{**self._asdict(), **named})
    members["_make"] = classmethod(lambda cls, values: make(cls, *values))
    return type(name, (tuple,), {**members, **space})


def _same(thing):
    return thing


def cast(_kind, value):
    return value


def TypeVar(name, *_bounds, **_options):
    return _Form(name)


ParamSpec = TypeVarTuple = TypeVar


def NewType(_name, _kind):
    return _same


def get_type_hints(thing, *_spaces, **_options):
    return {**getattr(thing, "__annotations__", {})}


def get_origin(_kind):
    return None


def get_args(_kind):
    return ()


def no_type_check_decorator(decorator):
    return decorator


def assert_never(value):
    raise AssertionError(f"Expected code to be unreachable, but got: {value!r}")


overload = final = no_type_check = runtime_checkable = override = reveal_type = _same
TYPE_CHECKING = False
NamedTuple = _NamedTuple("NamedTuple")
TypedDict = _Form("TypedDict", _TypedDict)
List, Dict, Set, FrozenSet = (
    _Form("List", list),
    _Form("Dict", dict),
    _Form("Set", set),
    _Form("FrozenSet", frozenset),
)
Tuple, Type, Text = _Form("Tuple", tuple), _Form("Type", type), str
Sequence = _Form("Sequence", list, tuple, str, range, bytes)
MutableSequence, ByteString = _Form("MutableSequence", list, bytearray), _Form("ByteString", bytes, bytearray)
Mapping = MutableMapping = _Form("Mapping", dict, dict)
AbstractSet, MutableSet = _Form("AbstractSet", set, frozenset), _Form("MutableSet", set, set)
Iterable, Callable, Sized = (
    _Form("Iterable", has=["__iter__"]),
    _Form("Callable", has=["__call__"]),
    _Form("Sized", has=["__len__"]),
)
Iterator = _Form("Iterator", has=["__iter__", "__next__"])
Collection = _Form("Collection", has=["__iter__", "__len__", "__contains__"])
Container, Reversible = _Form("Container", has=["__contains__"]), _Form("Reversible", has=["__reversed__"])
Hashable, Generator = (
    _Form("Hashable", has=["__hash__"]),
    _Form("Generator", has=["send", "throw", "__next__"]),
)
(
    Any, Union, Optional, Literal, ClassVar, Final, Annotated, NoReturn, Never, Self, LiteralString, TypeAlias,
    TypeGuard, Concatenate, Required, NotRequired, Unpack, AnyStr, Deque, DefaultDict, OrderedDict, Counter,
    ChainMap, Awaitable, Coroutine, AsyncIterable, AsyncIterator, AsyncGenerator, ContextManager,
    AsyncContextManager, SupportsInt, SupportsFloat, SupportsComplex, SupportsBytes, SupportsAbs,
    SupportsRound, SupportsIndex, Pattern, Match, IO, TextIO, BinaryIO, KeysView, ValuesView, ItemsView,
) = map(_Form, (
    "Any Union Optional Literal ClassVar Final Annotated NoReturn Never Self LiteralString TypeAlias "
    "TypeGuard Concatenate Required NotRequired Unpack AnyStr Deque DefaultDict OrderedDict Counter "
    "ChainMap Awaitable Coroutine AsyncIterable AsyncIterator AsyncGenerator ContextManager "
    "AsyncContextManager SupportsInt SupportsFloat SupportsComplex SupportsBytes SupportsAbs "
    "SupportsRound SupportsIndex Pattern Match IO TextIO BinaryIO KeysView ValuesView ItemsView"
).split())  # fmt: skip
