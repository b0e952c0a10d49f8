"""The names that the rules know: builtins, methods and modules, by what they do. No other name is in the
language."""

from __future__ import annotations

UNKNOWN = "*"

# Builtins without effects but their result; they may raise, and read what they are given.
PURE_BUILTINS = frozenset(
    [
        *("len", "abs", "min", "max", "sum", "sorted", "range", "enumerate", "zip", "reversed", "str", "int"),
        *("float", "bool", "list", "tuple", "set", "dict", "frozenset", "ord", "chr", "isinstance", "all"),
        *("any", "repr", "divmod", "round", "pow", "map", "filter", "next"),
    ]
)
BUILTINS = PURE_BUILTINS

# Builtins that give an iterator, and what goes through one at once.
LAZY = frozenset(
    [
        *("map", "filter", "zip", "enumerate", "reversed", "itertools.groupby", "itertools.combinations"),
        *("itertools.accumulate", "itertools.zip_longest", "itertools.chain", "itertools.permutations"),
        *("itertools.product", "itertools.takewhile", "itertools.dropwhile"),
    ]
)
CONSUMERS = frozenset(
    [
        *("sum", "any", "all", "list", "tuple", "set", "sorted", "min", "max", "dict", "frozenset", "next"),
        *("collections.Counter", "collections.deque", "collections.OrderedDict", "math.prod"),
    ]
)
CONSUMING_METHODS = frozenset({"join", "extend", "update"})
VIEWS = frozenset({"keys", "values", "items"})

# Calls after which nobody else holds what was passed.
OWNERS = frozenset(
    [
        *("len", "sum", "sorted", "min", "max", "str", "list", "tuple", "set", "dict", "any", "all"),
        *("bool", "print"),
    ]
)

PURE_METHODS = frozenset(
    [
        *("lower", "upper", "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "join", "replace"),
        *("startswith", "endswith", "isalnum", "isalpha", "isdigit", "isspace", "islower", "isupper"),
        *("isnumeric", "isdecimal", "find", "rfind", "index", "count", "keys", "values", "items", "get"),
        *("copy", "casefold", "title", "capitalize", "swapcase", "translate", "zfill", "isascii", "ljust"),
        *("rjust", "center", "removeprefix", "removesuffix", "group", "partition", "most_common"),
        *("intersection", "union", "difference", "symmetric_difference", "issubset", "issuperset"),
        *("isdisjoint", "encode", "decode", "format", "fromkeys", "maketrans"),
        *("sub", "match", "search", "fullmatch", "findall"),
    ]
)
MUTATORS = frozenset(
    [
        *("append", "pop", "extend", "insert", "remove", "clear", "sort", "reverse", "add", "discard"),
        *("update", "popitem", "move_to_end", "setdefault", "appendleft", "popleft", "extendleft", "rotate"),
    ]
)
METHODS = {**dict.fromkeys(PURE_METHODS, "reads"), **dict.fromkeys(MUTATORS, "changes")}

MODULE_MEMBERS: dict[str, frozenset[str]] = {
    "re": frozenset({"sub", "split", "findall", "match", "search", "fullmatch", "compile", "escape"}),
    "math": frozenset(
        {"sqrt", "isqrt", "gcd", "lcm", "floor", "ceil", "factorial", "prod", "comb", "pi", "inf"}
    ),
    "string": frozenset(
        {"ascii_lowercase", "ascii_uppercase", "ascii_letters", "digits", "punctuation", "whitespace"}
    ),
    "collections": frozenset({"OrderedDict", "deque", "defaultdict", "Counter"}),
    "itertools": frozenset({n.partition(".")[2] for n in LAZY if n.startswith("itertools.")}),
    "functools": frozenset(),
    "unicodedata": frozenset({"normalize"}),
    "operator": frozenset(),
    "heapq": frozenset(),
    "bisect": frozenset(),
}
MAKERS = frozenset(
    {"collections.OrderedDict", "collections.deque", "collections.defaultdict", "collections.Counter"}
)

# Methods of a str that cannot raise when given so many texts: (least, most).
TOTAL_STR_METHODS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("lower", "upper", "casefold", "title", "capitalize", "swapcase"), (0, 0)),
    **dict.fromkeys(("isalnum", "isalpha", "isdigit", "isspace", "islower", "isupper"), (0, 0)),
    **dict.fromkeys(("isnumeric", "isdecimal", "isascii"), (0, 0)),
    **dict.fromkeys(("strip", "lstrip", "rstrip"), (0, 1)),
    **dict.fromkeys(("startswith", "endswith", "removeprefix", "removesuffix"), (1, 1)),
    **dict.fromkeys(("find", "rfind", "count"), (1, 1)),
    "replace": (2, 2),
}
