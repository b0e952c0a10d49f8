"""One text for every layout of a program, and never an exception."""

from __future__ import annotations

import ast
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyt.text.normalise import MAX_PARSED_CHARS, NORMALIZATION_VERSION, normalise

PLAIN = "def f(x):\n    return {'a': x}"


@pytest.mark.parametrize(
    "code",
    [
        PLAIN,
        'def f(x):\n    return {"a": x}',
        'def f(x):\n    """Doc."""\n    return {"a": x}',
        "def f( x ):\n\n\n    # why\n    return {  'a' : x ,}   # that\n\n",
        "def f(x):\r\n\treturn {'a':\\\r\n x}\r\n",
        '"""Module."""\ndef f(x): return {\'a\': (x)}',
        "\ufeffdef f(x):\n    'text as a comment'\n    return {'a': x}",
    ],
)
def test_comments_docstrings_formatting_and_quotes_go(code: str) -> None:
    normal = normalise(code)
    assert normal.parsed
    assert normal.text == PLAIN


def test_names_order_and_structure_stay() -> None:
    assert normalise("def f(y):\n    return {'a': y}").text != PLAIN
    assert normalise("a = 1\nb = 2").text != normalise("b = 2\na = 1").text


def test_body_that_was_only_a_docstring_becomes_pass() -> None:
    assert normalise('class E(Exception):\n    """Why."""').text == "class E(Exception):\n    pass"
    assert normalise("try:\n    f()\nfinally:\n    'x'").text == "try:\n    f()\nfinally:\n    pass"


def test_version_names_the_python_minor_version() -> None:
    assert f"py{sys.version_info.major}.{sys.version_info.minor}" in NORMALIZATION_VERSION


_HARD = {
    "syntax error": "def f(:",
    "nul": "x = 1\0",
    "lone surrogate": "x = '\ud800'",
    "deep parentheses": "(" * 100_000,
    "deep unary": "-" * 100_000 + "1",
    "long sum": "x = 1" + " + 1" * 100_000,
    "long attribute chain": "x" + ".a" * 50_000,
    "deep blocks": "".join(" " * i + "if x:\n" for i in range(150)) + " " * 150 + "pass",
    "huge number": "x = " + "9" * 10_000,
    "a megabyte": "x = 1\n" * 170_000,
    "a megabyte of nothing": " \t\n" * 350_000,
    "form feeds": "\f\v\x1c x",
}


@pytest.mark.parametrize("name", _HARD)
def test_what_cannot_be_parsed_gets_the_fallback_and_is_marked(name: str) -> None:
    started = time.monotonic()
    normal = normalise(_HARD[name])
    assert not normal.parsed
    assert normalise(normal.text).text == normal.text
    assert time.monotonic() - started < 10


def test_fallback_drops_blank_lines_trailing_blanks_and_comment_lines() -> None:
    normal = normalise("def f(:\r\n\r\n\r\n# why\r\n\treturn 1  \r\n")
    assert normal.text == "def f(:\n    return 1"


def test_expansion_beyond_the_limit_falls_back_too() -> None:
    code = "x=1;" * (MAX_PARSED_CHARS // 4 - 1) + "x=1"
    normal = normalise(code)
    assert normalise(normal.text).text == normal.text


@given(st.text())
def test_normalisation_never_raises_and_is_idempotent_on_any_text(text: str) -> None:
    normal = normalise(text)
    assert normalise(normal.text).text == normal.text
    normal.text.encode("utf-8")


_PIECES = [
    *(
        "def f(x):\n",
        "class A:\n",
        "if x:\n",
        "    ",
        "\t",
        "return x\n",
        "pass\n",
        "x = 1;\n",
        "# c\n",
        "#\ufeff\n",
    ),
    *("'''doc'''\n", "'__doc__'\n", '"getattr"\n', "'lineno'\n", "import inspect\n", "r'\\d'\n", "'a' 'b'\n"),
    *(
        "\ufeff",
        "\ud800",
        "\udfff",
        "\n",
        "\r\n",
        "\r",
        "\f",
        "\v",
        "\x00",
        "\x1c",
        "\x85",
        "\u2028",
        "\u00a0",
        "\\\n",
    ),
    *(
        "f'{x!r:>{3}}'\n",
        "f'{x=}'\n",
        "f'\\n{x}'\n",
        "with ((a, b)): pass\n",
        "(yield)\n",
        "*a, = b\n",
        "1e400\n",
    ),
]


@given(st.lists(st.sampled_from(_PIECES), max_size=14).map("".join))
@settings(max_examples=400)
def test_normalisation_is_idempotent_on_programs_and_what_is_nearly_one(text: str) -> None:
    normal = normalise(text)
    again = normalise(normal.text)
    assert (again.text, again.parsed) == (normal.text, normal.parsed)


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    'doc'\n    '__doc__'\n    return 1",
        "\v",
        "# c\n\ufeff# d\n\ud800x",
        "\ud800" * 300_000,
        "\t" * 100_001 + "x=1",
        "x=1\n" + " " * 120_000,
        "x\n" * 500_001,
        "y = " + "+".join(["1"] * 34_000),
    ],
    ids=range(8),
)
def test_normalisation_is_idempotent_on_what_it_once_was_not_and_beyond_its_limits(text: str) -> None:
    normal = normalise(text)
    again = normalise(normal.text)
    assert (again.text, again.parsed) == (normal.text, normal.parsed)


_EXPRESSIONS = st.recursive(
    st.sampled_from(
        ["x", "1", "'a'", '"\\n"', "f'{x}'", 'f"{x!r:>{y}}"', "[]", "-1", "1j", "b'x'", "...", "1e400"]
    ),
    lambda inner: (
        st.builds("({} + {})".format, inner, inner)
        | st.builds("f({}, *{})".format, inner, inner)
        | st.builds("(lambda: {})".format, inner)
        | st.builds("[{} for x in {}]".format, inner, inner)
        | st.builds("({} if {} else {})".format, inner, inner, inner)
        | st.builds("not {}".format, inner)
    ),
    max_leaves=8,
)


@given(_EXPRESSIONS)
def test_normal_text_has_the_same_tree(expression: str) -> None:
    code = f"def f(x, y):\n    return {expression}"
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return
    normal = normalise(code)
    assert normal.parsed
    assert ast.dump(ast.parse(normal.text)) == ast.dump(tree)
    assert normalise(normal.text).text == normal.text


@pytest.mark.parametrize(
    "code",
    [
        "def f(x):\n\tif x:\n        return 1\n\treturn 2",  # tabs and blanks mixed
        "x = 1 + \\  \n    2",  # a blank after the backslash
        "x = '\ud800'",
        "\ufeff\ufeffx = 1",
        "x = 1\n" + "# why\n" * MAX_PARSED_CHARS,
    ],
    ids=["tabs", "backslash", "surrogate", "two marks", "long"],
)
def test_what_does_not_parse_does_not_parse_afterwards(code: str) -> None:
    normal = normalise(code)
    assert not normal.parsed and normal.problem
    again = normalise(normal.text)
    assert again == normal or (not again.parsed and again.text == normal.text)


@pytest.mark.parametrize(
    "use",
    [
        "f.__doc__",
        "getattr(f, name)",
        "vars(f)",
        "'{0.__doc__}'.format(f)",
        "template.format(f)",
        "attrgetter(name)(f)",
        "f.__getattribute__(name)",
        "globals()[name]",
        "f.__dict__",
    ],
)
def test_a_docstring_that_the_program_could_read_stays(use: str) -> None:
    code = f'def f(x):\n    """Doc."""\n    \'comment\'\n    return {use}'
    normal = normalise(code)
    assert '"""Doc."""' in normal.text and "comment" not in normal.text
    assert normalise(normal.text) == normal


@pytest.mark.parametrize("use", ["'{:.2f}'.format(x)", "x.__class__.__name__", "re.compile(x)", "str(x)"])
def test_a_docstring_that_nothing_could_read_goes(use: str) -> None:
    assert "Doc" not in normalise(f'def f(x):\n    """Doc."""\n    return {use}').text


@pytest.mark.parametrize(
    "code",
    [
        "def f(a, b):\n    with ((a, b)):  # a tuple is no context manager\n        return 1",
        "def f(e):\n\n    return e.__traceback__.tb_lineno",
        "import traceback\n\ndef f():\n    return traceback.format_exc()",
    ],
)
def test_text_that_would_mean_something_else_stays_as_it_came(code: str) -> None:
    assert normalise(code).text == code and normalise(code).parsed


@pytest.mark.parametrize(
    "code",
    [
        "x = f'{a!r:>{w}} {b:{c}} {{}}'",
        "def f():\n    x = yield\n    return (yield x), *x",
        "if (n := 3) > 2:\n    print(*[n], **{'a': (m := 1)})",
        "with (open(a) as b, c):\n    pass",
        "with (a, b) as c:\n    pass",
        "async def f():\n    return -(await g()) ** 2",
    ],
)
def test_the_normal_text_stands_for_the_same_tree(code: str) -> None:
    assert ast.dump(ast.parse(normalise(code).text)) == ast.dump(ast.parse(code))
