"""When two results are equal: decided on their encoded texts, which are never decoded to values.

Types are exact everywhere: 1, 1.0 and True are three values. NaN equals NaN. A contract compares dicts
without regard to their order unless it says `ordered: true`, does not tell 0.0 from -0.0, and compares floats
exactly or, with `atol` and `rtol`, as close as these allow. `equality: python` compares as `==` does (see
`skyt.contracts.plain`). `EXACT` tells apart whatever Python can tell
apart; it is for comparing two programs, not for judging one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from skyt.contracts import codec, plain

# A float or a complex number in an encoded text. Quotes inside strings are escaped there, so nothing else
# matches; a forged text that does can only be equal to a text that is not forged.
_NUMBER = re.compile(r'\{"(?:f":"([^"\\]{1,40})"|c":\["([^"\\]{1,40})","([^"\\]{1,40})"\])\}')


@dataclass(frozen=True)
class Equality:
    """What counts as equal. Texts must be encoded in the form that goes with it.

    `plain`: as Python's `==` has it, where a `Counter` equals a dict and 1 equals 1.0.
    """

    ordered: bool = True
    signed_zero: bool = True
    atol: float = 0.0
    rtol: float = 0.0
    plain: bool = False

    @property
    def form(self) -> dict[str, bool]:
        """The form of encoded texts that this equality compares, as options of `codec.encode`."""
        return {"ordered": self.ordered, "signed_zero": self.signed_zero, "subclasses": self.plain}

    def dumps(self, value: Any) -> str:
        """The text of a value in the form that this equality compares."""
        return codec.dumps(value, **self.form)

    def equal(self, first: str, second: str) -> bool:
        """Whether two texts are equal, or differ only in floats that are close enough.

        Linear in the length of the texts. Floats are paired by position; dicts and sets are in sorted order.
        """
        if first == second:
            return True
        if self.plain:
            return plain.same(first, second, self.atol, self.rtol)
        if not (self.atol or self.rtol) or ('"f":' not in first and '"c":' not in first):
            return False
        if _NUMBER.sub("#", first) != _NUMBER.sub("#", second):
            return False
        pairs = zip(_NUMBER.finditer(first), _NUMBER.finditer(second), strict=False)
        return all(self._close(one, other) for one, other in pairs)

    def _close(self, first: re.Match[str], second: re.Match[str]) -> bool:
        if (first[1] is None) != (second[1] is None):
            return False
        return all(
            one == other or self._near(one, other)
            for one, other in zip(first.groups(), second.groups(), strict=True)
        )

    def _near(self, first: str | None, second: str | None) -> bool:
        try:
            one, other = float.fromhex(first or ""), float.fromhex(second or "")
        except (ValueError, OverflowError):
            return False
        return math.isclose(one, other, rel_tol=self.rtol, abs_tol=self.atol)


EXACT = Equality()
