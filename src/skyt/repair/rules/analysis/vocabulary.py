"""The names that the rules know: builtins, methods and modules, by what they do. No other name is in the
language."""

from __future__ import annotations

from skyt.repair.rules.analysis.trees import words

UNKNOWN = "*"

# Builtins without effects but their result; they may raise, and read what they are given.
BUILTINS = PURE_BUILTINS = words(
    "len abs min max sum sorted range enumerate zip reversed str int float bool list tuple set dict "
    "frozenset ord chr isinstance all any repr divmod round pow map filter next"
)

# What gives an iterator, and what goes through one at once.
LAZY = words(
    "map filter zip enumerate reversed itertools.groupby itertools.combinations itertools.accumulate "
    "itertools.zip_longest itertools.chain itertools.permutations itertools.product itertools.takewhile "
    "itertools.dropwhile"
)
MAKERS = words("collections.OrderedDict collections.deque collections.defaultdict collections.Counter")
CONSUMERS = (MAKERS - {"collections.defaultdict"}) | words(
    "sum any all list tuple set sorted min max dict frozenset next math.prod"
)
CONSUMING_METHODS = words("join extend update")
VIEWS = words("keys values items")

# Calls after which nobody else holds what was passed.
OWNERS = words("len sum sorted min max str list tuple set dict any all bool print")

# Calls that look at what they are given, and not into its elements.
SHALLOW = words(
    "len list tuple set dict frozenset range enumerate zip reversed bool isinstance keys values items get "
    "copy deque OrderedDict next"
)

# Methods of str that cannot raise, by the texts that they take, and what they give.
TEXT_QUESTIONS = words(
    "isalnum isalpha isdigit isspace islower isupper isnumeric isdecimal isascii startswith endswith"
)
TEXT_TO_TEXT = words(
    "lower upper strip lstrip rstrip replace join casefold title capitalize swapcase translate format zfill "
    "ljust rjust center removeprefix removesuffix"
)
TAKES_TEXTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(words("lower upper casefold title capitalize swapcase"), (0,)),
    **dict.fromkeys(TEXT_QUESTIONS - words("startswith endswith"), (0,)),
    **dict.fromkeys(words("strip lstrip rstrip"), (0, 1)),
    **dict.fromkeys(words("startswith endswith removeprefix removesuffix find rfind count"), (1,)),
    "replace": (2,),
}

PURE_METHODS = words(
    "split rsplit splitlines partition find rfind index count get copy group most_common intersection union "
    "difference symmetric_difference issubset issuperset isdisjoint encode decode fromkeys maketrans sub "
    "match search fullmatch findall"
).union(VIEWS, TEXT_QUESTIONS, TEXT_TO_TEXT)
MUTATORS = words(
    "append pop extend insert remove clear sort reverse add discard update popitem move_to_end setdefault "
    "appendleft popleft extendleft rotate"
)

MODULE_MEMBERS: dict[str, frozenset[str]] = {
    "re": words("sub split findall match search fullmatch compile escape"),
    "math": words("sqrt isqrt gcd lcm floor ceil factorial prod comb pi inf"),
    "string": words("ascii_lowercase ascii_uppercase ascii_letters digits punctuation whitespace"),
    "collections": words("OrderedDict deque defaultdict Counter"),
    "itertools": frozenset(n.partition(".")[2] for n in LAZY if n.startswith("itertools.")),
    "unicodedata": words("normalize"),
    **dict.fromkeys(words("functools operator heapq bisect"), frozenset[str]()),
}
