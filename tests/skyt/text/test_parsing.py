"""Parsing from several threads at once."""

import gc
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from skyt.text.parsing import parse, parse_expression

PROGRAM = "\n".join(f"def f{i}(xs):\n    return [(x + {i}) * 2 for x in xs if x > {i}]" for i in range(60))


class Garbage:
    """A cycle whose end runs Python code: where CPython may hand over to another thread in mid-tree."""

    def __init__(self) -> None:
        self.cycle = self

    def __del__(self) -> None:
        sum(range(50))


@pytest.fixture
def restless():
    """Threads that take turns as often as they can, and a collector that is always about to run."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("restless")
def test_threads_do_not_disturb_each_others_trees():
    def definitions(_: int) -> int:
        [Garbage() for _ in range(20)]
        return len(parse(PROGRAM).body)

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(definitions, range(120))) == {60}


def test_warnings_of_the_parsed_text_are_dropped():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse("print('\\d')")
        parse_expression("1 is 1")
