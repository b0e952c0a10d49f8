"""Code comes out of whatever a model wraps around it."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyt.text.extract import extract_code

CODE = "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a"


@pytest.mark.parametrize(
    "text",
    [
        CODE,
        f"```python\n{CODE}\n```",
        f"```\n{CODE}\n```",
        f"~~~py\n{CODE}\n~~~",
        f"Here is the function:\n\n```python\n{CODE}\n```\n\nIt uses Euclid's algorithm.",
        f"```Python\n{CODE}\n```",
        f"```python\n{CODE}",
        f"Sure!\n```python\r\n{CODE}\r\n```".replace("\n", "\r\n").replace("\r\r", "\r"),
        f"1. First:\n\n   ```python\n   {CODE.replace(chr(10), chr(10) + '   ')}\n   ```\n",
        f"Here is the function:\n\n{CODE}",
        f"{CODE}\n\nThis function takes two numbers; it's fast.",
        f"Certainly!\n\n{CODE}\n\nLet me know if you need more.",
        f"```bash\npip install nothing\n```\n```python\n{CODE}\n```",
        f"```python\n{CODE}\n```\n\nUsage:\n\n```python\nprint(gcd(4, 6))\n```",
        f"```python title=x.py\n{CODE}\n```",
        f"````python\n{CODE}\n````",
        f"\ufeff{CODE}",
    ],
)
def test_the_same_code_comes_out_of_every_wrapping(text: str) -> None:
    assert ast.dump(ast.parse(extract_code(text))) == ast.dump(ast.parse(CODE))


def test_fences_that_define_what_is_used_are_joined() -> None:
    cache = "class LRUCache:\n    def __init__(self):\n        self.head = Node()"
    text = f"```python\nclass Node:\n    pass\n```\nand\n```python\n{cache}\n```"
    assert extract_code(text) == f"class Node:\n    pass\n\n{cache}"
    text = f"```python\n{cache}\n```\nwith\n```python\nclass Node:\n    pass\n```"
    assert extract_code(text) == f"{cache}\n\nclass Node:\n    pass"


def test_first_version_is_taken_and_alternatives_stay_out() -> None:
    first, other = "def f():\n    return 1", "def f():\n    x = 1\n    return x"
    fast = "def f_fast():\n    return 1"
    text = "\n".join(f"Version:\n```python\n{code}\n```" for code in (first, other, fast))
    assert extract_code(text) == first


def test_later_fence_that_holds_the_whole_program_wins_over_its_pieces() -> None:
    piece = "def merge(a, b):\n    return a + b"
    whole = f"{piece}\n\ndef merge_sort(a):\n    return merge(a, [])"
    assert extract_code(f"First:\n```python\n{piece}\n```\nAll:\n```python\n{whole}\n```") == whole


def test_test_functions_stay_out() -> None:
    text = f"```python\n{CODE}\n```\n```python\ndef test_gcd():\n    assert gcd(4, 6) == 2\n```"
    assert extract_code(text) == CODE


def test_usage_example_that_imports_the_answer_stays_out() -> None:
    text = f"```python\n{CODE}\n```\n```python\nfrom gcd import gcd\nprint(gcd(1, 2))\n```"
    assert extract_code(text) == CODE


def test_fence_marks_inside_a_longer_fence_are_content() -> None:
    text = '````python\ndef f():\n    return """\n```\n"""\n````'
    assert extract_code(text) == 'def f():\n    return """\n```\n"""'


def test_text_without_code_is_returned_as_it_is() -> None:
    assert extract_code("I cannot help with that.") == "I cannot help with that."
    assert extract_code("") == ""


@given(st.text(alphabet=st.sampled_from("`~ \npythondef f():\n\x00é1(")))
def test_extraction_never_raises(text: str) -> None:
    assert isinstance(extract_code(text), str)


@given(st.text(alphabet=st.sampled_from("` \npydef f():1")))
def test_extraction_is_idempotent_on_what_parses(text: str) -> None:
    code = extract_code(text)
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return
    assert extract_code(code) == code


def test_fences_inside_the_strings_of_a_program_are_none() -> None:
    code = 'def f():\n    return 1\n"""\nTitle\n~~~~~\n\nwords\n"""\nimport os'
    assert extract_code(f"\n{code}\n\n").strip() == code
