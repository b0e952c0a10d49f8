"""Audit: which blocks of a cache are not of their tokens, from statistics of text, or from the model itself.

`audit` offers it, `heal` recomputes what it names. Uses the rooms cache and repair.
"""

from cachemedicpp.audit.audit import Audit, audit
from cachemedicpp.audit.witness import heal

__all__ = ["Audit", "audit", "heal"]
