"""Generators: where outputs come from. All of them turn requests into texts, in any order, one at a time.

Hands out the `Generator` protocol; `make()` of a configuration's section makes one. May use text and
contracts.
"""

from skyt.generators.base import Failure, Generation, GenerationError, Generator, Output, Request, Source

__all__ = ["Failure", "Generation", "GenerationError", "Generator", "Output", "Request", "Source"]
