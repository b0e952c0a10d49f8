"""Names of builtins and methods, by what is known of their effects."""

from __future__ import annotations

UNKNOWN = "*"


PURE_BUILTINS = frozenset(
    [
        "len",
        "abs",
        "min",
        "max",
        "sum",
        "sorted",
        "range",
        "enumerate",
        "zip",
        "reversed",
        "str",
        "int",
        "float",
        "bool",
        "list",
        "tuple",
        "set",
        "dict",
        "frozenset",
        "ord",
        "chr",
        "isinstance",
        "all",
        "any",
        "repr",
        "divmod",
        "round",
        "pow",
        "type",
        "map",
        "filter",
        "hash",
        "issubclass",
        "callable",
    ]
)


OWNERS = frozenset(
    [
        "len",
        "sum",
        "sorted",
        "min",
        "max",
        "str",
        "list",
        "tuple",
        "set",
        "dict",
        "any",
        "all",
        "bool",
        "print",
    ]
)


PURE_METHODS = frozenset(
    [
        "lower",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "split",
        "rsplit",
        "splitlines",
        "join",
        "replace",
        "startswith",
        "endswith",
        "isalnum",
        "isalpha",
        "isdigit",
        "isspace",
        "islower",
        "isupper",
        "isnumeric",
        "isdecimal",
        "find",
        "rfind",
        "index",
        "count",
        "keys",
        "values",
        "items",
        "get",
        "copy",
        "encode",
        "decode",
        "format",
        "casefold",
        "title",
        "capitalize",
        "swapcase",
        "translate",
        "zfill",
        "isascii",
        "ljust",
        "rjust",
        "center",
        "removeprefix",
        "removesuffix",
        "isidentifier",
        "group",
        "groups",
    ]
)


MUTATORS = frozenset(
    [
        "append",
        "pop",
        "extend",
        "insert",
        "remove",
        "clear",
        "sort",
        "reverse",
        "add",
        "discard",
        "update",
        "popitem",
        "move_to_end",
        "setdefault",
        "appendleft",
        "popleft",
        "extendleft",
        "rotate",
    ]
)


PURE_MODULES = frozenset({"math", "re", "string", "operator", "unicodedata", "itertools", "functools"})


MAKERS = frozenset(
    {"collections.OrderedDict", "collections.deque", "collections.defaultdict", "collections.Counter"}
)


TOTAL_STR_METHODS = frozenset(
    [
        "lower",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "replace",
        "casefold",
        "isalnum",
        "isalpha",
        "isdigit",
        "isspace",
        "islower",
        "isupper",
        "startswith",
        "endswith",
        "title",
        "capitalize",
        "swapcase",
    ]
)
