"""A distance that gets stuck on request: a stand-in for any work on the trusted side that does not end."""

from __future__ import annotations

import signal
import time

from skyt.text.distance import Distance, Measured, get_distance, register


def _stuck(a: str, b: str) -> Measured:
    if "STUCK_FOR_GOOD" in a:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # not even a signal gets through
        time.sleep(3600)
    if "STUCK" in a:
        time.sleep(3600)
    return get_distance("levenshtein").function(a, b)


register(Distance("stuck", "1", _stuck))
