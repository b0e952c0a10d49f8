"""Gates: fail a build when a run's figures leave their bounds.

A gate reads the metrics a run has on record and compares each with a limit. It says what it compared, in the
terminal and, where asked, as JUnit XML and Markdown. Exit codes: 0 within bounds, 1 drift, 2 a mistake.

May use report and the core.
"""

from homeostat.gate.checks import Check, judge

__all__ = ["Check", "judge"]
