"""Generators: where outputs come from. All of them turn requests into texts, in any order, one at a time.

Hands out `make_generator` and the `Generator` protocol. May use text and contracts.
"""

from skyt.generators.base import Failure, Generation, GenerationError, Generator, Output, Request
from skyt.generators.factory import make_generator

__all__ = ["Failure", "Generation", "GenerationError", "Generator", "Output", "Request", "make_generator"]
