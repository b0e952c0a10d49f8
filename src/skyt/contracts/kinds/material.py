"""What two programs write down, from which calls are made that chance would not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

MAX_SIZE = 2000  # elements of a container, characters of a text, operations on an object


@dataclass(frozen=True)
class Constants:
    """Whole numbers as they stand, the same with their neighbours, other numbers, and strings."""

    exact: tuple[int, ...]
    numbers: tuple[int, ...]
    floats: tuple[float, ...]
    strings: tuple[str, ...]

    @property
    def sizes(self) -> list[int]:
        return [n for n in self.numbers if 1 < n <= MAX_SIZE]


@dataclass(frozen=True)
class Material:
    """Constants, the sizes of containers and texts to try, and the source of chance."""

    constants: Constants
    sizes: Sequence[int]
    rng: random.Random
