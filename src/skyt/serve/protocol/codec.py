"""JSON in and out, for text from strangers: strict, bounded in depth, never an exception we did not name."""

from __future__ import annotations

import json
import math
from typing import Any


class BadJsonError(ValueError):
    """Text that is not JSON, with a reason fit for the client."""


def read_json(data: bytes) -> Any:
    """Parse UTF-8 JSON; NaN and Infinity, invalid UTF-8 and nesting beyond Python's limit are refused."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise BadJsonError(f"invalid UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise BadJsonError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise BadJsonError("nested too deeply") from None
    except ValueError as error:
        raise BadJsonError(str(error).split("\n", 1)[0][:200]) from None


def write_json(value: Any) -> bytes:
    """ASCII JSON, so that lone surrogates in a model's text survive as escapes."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def _refuse(constant: str) -> Any:
    raise BadJsonError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise BadJsonError("a number is too large")
    return value
