"""Constraints are read off the program's text."""

from __future__ import annotations

import ast

import pytest

from skyt.contracts.contract import Constraints, EntryPoint, load_contract
from skyt.oracle.constraints import is_recursive, violations

F = EntryPoint(kind="function", name="f")


@pytest.mark.parametrize(
    "code",
    [
        "def f(n):\n    return f(n - 1)",
        "def f(n):\n    return g(n)\ndef g(n):\n    return f(n)",
        "def f(n):\n    def walk(k):\n        return walk(k - 1)\n    return walk(n)",
        "def f(n):\n    return list(map(f, n))",
        "f = lambda n: f(n - 1)",
        "def f(n):\n    return h(n)\ndef h(n):\n    return h(n)",
    ],
)
def test_recursion_is_seen_directly_through_helpers_and_by_reference(code: str) -> None:
    assert is_recursive(ast.parse(code), F)


@pytest.mark.parametrize(
    "code",
    [
        "def f(n):\n    return n",
        "def f(n):\n    f = [0, 1]\n    return f[n]",
        "def f(n):\n    return n\ndef g(n):\n    return g(n)",
        "def f(n):\n    def g(k):\n        return k\n    return g(n)",
        "def f(f):\n    return f(1)",
    ],
)
def test_local_names_and_unreached_functions_are_not_recursion(code: str) -> None:
    assert not is_recursive(ast.parse(code), F)


def test_methods_that_call_each_other_in_a_circle_are_recursive() -> None:
    entry = load_contract("lru_cache").entry_point
    circle = """
class LRUCache:
    def get(self, k):
        return self.put(k)
    def put(self, k):
        return self.get(k)
"""
    assert is_recursive(ast.parse(circle), entry)
    assert not is_recursive(ast.parse(circle.replace("self.get(k)", "k")), entry)


def test_imports_outside_the_list_and_dynamic_code_are_violations() -> None:
    tree = ast.parse(
        "import os.path\nfrom typing import List\nfrom re import sub\ndef f(n):\n    import json\n    exec(n)"
    )
    assert violations(tree, F, Constraints(imports=("re",))) == [
        "imports json, which the contract does not allow",
        "imports os, which the contract does not allow",
        "calls exec, which the contract does not allow",
    ]


def test_forbidden_call_is_the_builtin_not_a_helper_of_that_name() -> None:
    rules = Constraints(forbidden_calls=("sort",))
    helper = ast.parse("def f(n):\n    def sort(a):\n        return a\n    return sort(n)")
    method = ast.parse("def f(n):\n    n.sort()\n    return n")
    assert violations(helper, F, rules) == []
    assert violations(method, F, rules) == ["calls sort, which the contract does not allow"]


def test_strict_naming_binds_parameters_and_lenient_does_not() -> None:
    gcd, cache = load_contract("gcd").entry_point, load_contract("lru_cache").entry_point
    strict = Constraints(naming="strict")
    tree = ast.parse("def gcd(x, y):\n    return x")
    assert violations(tree, gcd, Constraints()) == []
    assert violations(tree, gcd, strict) == ["names the parameters of gcd x, y, not as in the contract"]
    assert violations(ast.parse("def gcd(a, b, c=0):\n    return a"), gcd, strict) == []
    methods = ast.parse("class LRUCache:\n    def get(self, k):\n        return k")
    assert violations(methods, cache, strict) == [
        "names the parameters of get self, k, not as in the contract"
    ]


def test_recursion_required_and_forbidden() -> None:
    loop, recursive = ast.parse("def f(n):\n    return n"), ast.parse("def f(n):\n    return f(n)")
    assert violations(loop, F, Constraints(recursion="required")) == [
        "is not recursive, which the contract requires"
    ]
    assert violations(recursive, F, Constraints(recursion="forbidden")) == [
        "is recursive, which the contract forbids"
    ]
    assert violations(loop, F, Constraints()) == violations(recursive, F, Constraints()) == []


def test_a_compiled_pattern_is_not_dynamic_code() -> None:
    tree = ast.parse("import re\nWORD = re.compile('a+')\ndef f(n):\n    return WORD.findall(n)")
    assert violations(tree, F, Constraints(imports=("re",))) == []
