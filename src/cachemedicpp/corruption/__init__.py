"""The corruption family: the types, masks, the mixture `Pi`, and deterministic draws.

A type is one file in this folder with a registered class. Types of your own are registered the same way, in a
file that you import or in a package with an entry point (docs/howto/corruption.md).

May use cache.
"""

from cachemedicpp.corruption.base import CORRUPTIONS, Corruption, Site, fraction, register, under
from cachemedicpp.corruption.family import CorruptionFamily, Event, Injection, Plan
from cachemedicpp.corruption.masks import Mask
from cachemedicpp.corruption.streams import Stream, sequence_keys

__all__ = [
    "CORRUPTIONS",
    "Corruption",
    "CorruptionFamily",
    "Event",
    "Injection",
    "Mask",
    "Plan",
    "Site",
    "Stream",
    "fraction",
    "register",
    "sequence_keys",
    "under",
]
