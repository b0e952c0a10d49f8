"""Audit: which blocks of a cache are not of their tokens, from statistics of text, or from the model itself.

`audit` offers it, `heal` recomputes what it names. Uses the rooms cache and repair.
"""

from cachemedicpp.auditing.audit import Audit, audit
from cachemedicpp.auditing.witness import heal

__all__ = ["Audit", "audit", "heal"]
