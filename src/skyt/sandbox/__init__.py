"""Running strangers' code: jailed, pre-forked, with results as plain data.

Hands out `SandboxPool` and `CallResult`. May use text and contracts.
"""

from skyt.sandbox.capability import Capability, capability
from skyt.sandbox.job import EncodedCalls, Job, Limits, Rules, encode_calls
from skyt.sandbox.keeper import UNSAFE_OPTION
from skyt.sandbox.pool import SandboxPool
from skyt.sandbox.results import CallResult, expected, same

__all__ = [
    "UNSAFE_OPTION",
    "CallResult",
    "Capability",
    "EncodedCalls",
    "Job",
    "Limits",
    "Rules",
    "SandboxPool",
    "capability",
    "encode_calls",
    "expected",
    "same",
]
