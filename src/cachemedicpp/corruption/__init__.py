"""The corruption family: six types and a wrapper, masks, the mixture `Pi`, and deterministic draws.

A new type is one file with a registered class and one import here. Your own types need no change here:
register them with `register` (docs/howto/corruption.md).

May use cache.
"""

from cachemedicpp.corruption import (
    bitflipish_sparse,
    contiguous_overwrite,
    dropout_zero,
    gaussian,
    orthogonal_rotation,
    quant_noise,
)
from cachemedicpp.corruption.base import REGISTRY, Corruption, Site, fraction, register, under
from cachemedicpp.corruption.family import CorruptionFamily, Event, Injection, Plan
from cachemedicpp.corruption.masks import Mask
from cachemedicpp.corruption.streams import Stream, sequence_keys
from cachemedicpp.corruption.targeted import Targeted

__all__ = [
    "REGISTRY",
    "Corruption",
    "CorruptionFamily",
    "Event",
    "Injection",
    "Mask",
    "Plan",
    "Site",
    "Stream",
    "Targeted",
    "bitflipish_sparse",
    "contiguous_overwrite",
    "dropout_zero",
    "fraction",
    "gaussian",
    "orthogonal_rotation",
    "quant_noise",
    "register",
    "sequence_keys",
    "under",
]
