"""Results as values, for tests only: the programs in them are ours."""

from __future__ import annotations

from typing import Any

from skyt.contracts import codec
from skyt.sandbox import CallResult


def decoded(result: CallResult) -> Any:
    """The value of a result; an assertion fails where there is none."""
    assert result.kind == "value", result.show()
    return codec.loads(result.text)
