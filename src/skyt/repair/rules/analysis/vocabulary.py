"""The names that the rules know: builtins, methods and modules, by what they do. No other name is in the
language. A call has its name from `called_name`: `len`, `math.gcd`, `.append`."""

from __future__ import annotations

import ast

from skyt.repair.rules.analysis.trees import words

UNKNOWN = "*"

# Builtins without effects but their result; they may raise, and read what they are given.
BUILTINS = words(
    "len abs min max sum sorted range enumerate zip reversed str int float bool list tuple set dict "
    "frozenset ord chr isinstance all any repr divmod round pow map filter next"
)
MODULE_MEMBERS: dict[str, frozenset[str]] = {
    "re": words("sub split findall match search fullmatch compile escape"),
    "math": words("sqrt isqrt gcd lcm floor ceil factorial prod comb pi inf"),
    "string": words("ascii_lowercase ascii_uppercase ascii_letters digits punctuation whitespace"),
    "collections": words("OrderedDict deque defaultdict Counter"),
    "itertools": words(
        "groupby combinations accumulate zip_longest chain permutations product takewhile dropwhile"
    ),
    "unicodedata": words("normalize"),
    **dict.fromkeys(words("functools operator heapq bisect"), frozenset[str]()),
}
MEMBERS = frozenset(f"{module}.{name}" for module, names in MODULE_MEMBERS.items() for name in names)

# What gives an iterator, and what goes through one at once.
LAZY = words("map filter zip enumerate reversed") | {m for m in MEMBERS if m.startswith("itertools.")}
CONSUMERS = words(
    "sum any all list tuple set sorted min max dict frozenset next math.prod collections.OrderedDict "
    "collections.deque collections.Counter .join .extend .update"
)

VIEWS = words("keys values items")
TEXT_QUESTIONS = words(
    "isalnum isalpha isdigit isspace islower isupper isnumeric isdecimal isascii startswith endswith"
)
TEXT_TO_TEXT = words(
    "lower upper strip lstrip rstrip replace join casefold title capitalize swapcase translate format zfill "
    "ljust rjust center removeprefix removesuffix"
)
PURE_METHODS = words(
    "split rsplit splitlines partition find rfind index count get copy group most_common intersection union "
    "difference symmetric_difference issubset issuperset isdisjoint encode decode fromkeys maketrans sub "
    "match search fullmatch findall"
).union(VIEWS, TEXT_QUESTIONS, TEXT_TO_TEXT)
PURE = BUILTINS | MEMBERS | {"." + name for name in PURE_METHODS}
MUTATORS = words(
    "append pop extend insert remove clear sort reverse add discard update popitem move_to_end setdefault "
    "appendleft popleft extendleft rotate"
)


def called_name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in MODULE_MEMBERS:
            return f"{module}.{name}"
        case ast.Attribute(attr=name):
            return "." + name
    return ""
