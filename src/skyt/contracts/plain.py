"""Python's own `==`, and closeness of numbers, decided on encoded texts.

`1`, `1.0` and `True` are equal, lists are not tuples, sets are frozensets, dicts have no order. With a
tolerance, numbers at any depth of lists and tuples may differ a little, as `numpy.allclose` sees it. Texts
are parsed as JSON and never become values: a dict or a set is put in order by the texts of its items.
"""

from __future__ import annotations

import json
import math
from typing import Any

RTOL = 1e-7  # of numbers that are compared with a tolerance
FLOATS = 1e-6  # the least tolerance where the expected result is a float, or a list or tuple of floats


def same(wanted: str, got: str, atol: float, rtol: float) -> bool:
    """Whether two encoded values are equal, or as close as the tolerances allow."""
    if wanted == got:
        return True
    try:
        one, other = json.loads(wanted), json.loads(got)
        if _key(one) == _key(other):
            return True
        atol = atol or (FLOATS if _floats(one) or _floats(other) else 0.0)
        return bool(atol or rtol) and _outer(one) == _outer(other) and _close(one, other, atol, rtol or RTOL)
    except (ValueError, TypeError, OverflowError, RecursionError):  # not the text of a value
        return False


def _key(data: Any) -> str:
    """A text that is the same for all values that are equal."""
    number = _number(data)
    if number is not None:
        return _number_key(number)
    if isinstance(data, list):
        return f"[{','.join(map(_key, data))}]"
    if not isinstance(data, dict):
        return json.dumps(data)
    ((tag, content),) = data.items()
    if tag == "t":
        return f"({','.join(map(_key, content))})"
    if tag in ("s", "z"):
        return f"{{{','.join(sorted(map(_key, content)))}}}"
    if tag == "d":
        return f"<{','.join(sorted(f'{_key(key)}:{_key(value)}' for key, value in content))}>"
    return json.dumps(data)


def _number(data: Any) -> Any:
    """The number that a text stands for; None for everything else."""
    if isinstance(data, bool | int):
        return int(data)
    if isinstance(data, dict) and len(data) == 1:
        ((tag, content),) = data.items()
        if tag == "i":
            return int(content, 16)
        if tag == "f":
            return float.fromhex(content)
        if tag == "c":
            return complex(*map(float.fromhex, content))
    return None


def _number_key(number: Any) -> str:
    if isinstance(number, complex):
        if number.imag:
            return f"{number.real.hex()}+{number.imag.hex()}j"
        number = number.real
    if isinstance(number, float):
        return hex(int(number)) if number.is_integer() else number.hex()
    return hex(number)


def _floats(data: Any) -> bool:
    items = _items(data)
    if items is None:
        return _outer(data) == "f"
    return bool(items) and all(_outer(item) == "f" for item in items)


def _outer(data: Any) -> str:
    """The type of a value, without its parts."""
    if isinstance(data, dict):
        return next(iter(data)) if "i" not in data else "int"
    return type(data).__name__


def _items(data: Any) -> list[Any] | None:
    if isinstance(data, dict):
        data = data.get("t")
    return data if isinstance(data, list) else None


def _close(one: Any, other: Any, atol: float, rtol: float) -> bool:
    first, second = _items(one), _items(other)
    if first is not None and second is not None:
        pairs = zip(first, second, strict=False)
        return len(first) == len(second) and all(_close(a, b, atol, rtol) for a, b in pairs)
    left, right = _number(one), _number(other)
    if left is None or right is None:
        return False
    return bool(left == right or abs(left - right) <= atol + rtol * max(abs(left), abs(right)) < math.inf)
