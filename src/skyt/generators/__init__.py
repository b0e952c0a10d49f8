"""Generators: where outputs come from. All of them turn requests into texts, in any order, one at a time."""

from skyt.generators.base import Failure, Generation, GenerationError, Generator, Output, Request
from skyt.generators.factory import make_generator

__all__ = ["Failure", "Generation", "GenerationError", "Generator", "Output", "Request", "make_generator"]
