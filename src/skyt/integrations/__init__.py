"""skyt inside tools that people have: a scorer for Inspect, a provider and an assertion for promptfoo, a
provider for LiteLLM.

One file for each, imported only by that tool. All of them anchor answers as `skyt.wrap` does, so their stores
are ordinary run directories. May use the middleware alone.
"""

from __future__ import annotations

import atexit
from functools import cache

from homeostat.core.errors import UserError
from skyt.middleware import Anchored, Wrapped, wrap


@cache
def anchor(contract: str, store: str | None = None, evidence: str = "rewritten") -> Wrapped:
    """The one anchor of a contract and store in this process; its `anchor(text)` judges and repairs."""
    made = wrap(_asked, contract=contract, store=store, evidence=evidence)
    atexit.register(made.close)
    return made


def needed(contract: object, where: str) -> str:
    """The name of a contract, or one line that says where to put it."""
    if not isinstance(contract, str) or not contract:
        raise UserError(f"no contract: name one in {where}, e.g. gcd (`homeostat code contracts list`)")
    return contract


def scores(found: Anchored) -> dict[str, float]:
    """What the tools show of an answer; `compliant` and `repaired` are of the code that is handed on."""
    record = found.record
    return {
        "compliant": float(record["oracle_post"]["compliant"]),
        "equals_canon": float(record["d_pre"] == 0.0),
        "equals_canon_after_repair": float(record["d_post"] == 0.0),
        "distance": float(record["d_pre"]),
    }


def _asked(prompt: str) -> str:
    raise UserError("this anchor takes answers that a tool has asked for: use anchor(text)")
