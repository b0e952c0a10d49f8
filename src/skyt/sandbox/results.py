"""What comes out of the sandbox: one result per call, as text that is compared and shown, never decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from skyt.contracts.equality import EXACT, Equality
from skyt.contracts.show import show

Kind = Literal["value", "raise", "timeout", "crash", "forbidden", "unrun", "unloaded"]
ENDINGS = ("timeout", "crash", "forbidden")  # after these the process makes no further call
_OPAQUE = '{"o":'


@dataclass(frozen=True, slots=True)
class CallResult:
    """The outcome of one call.

    `value`: `text` is the value's encoding and `args_after` that of the arguments if the call changed them or
    what is in them, positional ones first.
    `raise`: `text` is the exception's class name; of one that is not builtin also the builtin class that it
    is a kind of. `timeout`, `crash`: the call did not end by itself.
    `forbidden`: the call did what the job's rules rule out (`text` says what). `unloaded`: the program could
    not be loaded or lacks the entry point (`text` says why). `unrun`: an earlier call ended the process. For
    a class the value is the list of its operations' outcomes.
    """

    kind: Kind
    text: str = ""
    args_after: str = ""

    @property
    def comparable(self) -> bool:
        """Whether equality means anything: opaque objects and calls without an end equal nothing."""
        if self.kind == "value":
            return _OPAQUE not in self.text and _OPAQUE not in self.args_after
        return self.kind == "raise"

    @property
    def raised(self) -> str | None:
        """The name of the class of the exception, if there was one."""
        return self.text.partition(" (")[0] if self.kind == "raise" else None

    @property
    def too_large(self) -> bool:
        """Whether a part of the value did not travel because of its size."""
        return self.kind == "value" and (
            '{"o":"too large"' in self.text or '{"o":"int too large"' in self.text
        )

    def show(self) -> str:
        """For people, in at most a few hundred characters: `6`, `raises ValueError`, `ran out of time`."""
        if self.kind == "value":
            return show(self.text) + (f" (arguments now {show(self.args_after)})" if self.args_after else "")
        words = {
            "raise": f"raises {self.text}",
            "timeout": "ran out of time",
            "crash": f"ended its process ({self.text})",
            "forbidden": f"{self.text}, which the contract does not allow",
            "unloaded": f"did not load ({self.text})",
            "unrun": "was not run",
        }
        return words[self.kind]


def outcome(shown: str) -> str:
    """What `CallResult.show` shows, with its verb: `returns 6`, `raises ValueError`, `ran out of time`."""
    verbs = ("raises ", "ran ", "ended ", "did ", "was ")
    return shown if shown.startswith(verbs) else f"returns {shown}"


def same(first: CallResult, second: CallResult, equality: Equality = EXACT) -> bool:
    """Equal values of equal types and equal changes to the arguments, or exceptions of the same class.

    Both results must come from runs with this equality.
    """
    if not (first.comparable and second.comparable) or first.kind != second.kind:
        return False
    if first.kind == "raise":
        return first.text == second.text
    return equality.equal(first.text, second.text) and equality.equal(first.args_after, second.args_after)


def expected(value: Any, equality: Equality = EXACT) -> CallResult:
    """The result that a call returning this value gives."""
    return CallResult("value", equality.dumps(value))
