"""Random streams that depend on what they are for and on nothing else.

Every draw has its own generator, which runs on the CPU and is seeded by a hash of (seed, sequence, draw,
purpose). A sequence is therefore corrupted in the same way alone or in a batch, on any device and in any
process, and drawing more numbers for one purpose never shifts the numbers of another.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Stream:
    """A named place in the tree of random streams; `at` goes one level deeper."""

    path: tuple[str | int, ...]

    def at(self, *names: str | int) -> Stream:
        return replace(self, path=self.path + names)

    @property
    def seed(self) -> int:
        """The number this stream is seeded with: below 2**63, another for every path."""
        digest = hashlib.blake2b(repr(self.path).encode("utf-8"), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1

    def generator(self) -> torch.Generator:
        return torch.Generator("cpu").manual_seed(self.seed)

    def uniform(self, *shape: int) -> Tensor:
        """Uniform in [0, 1), float32 on the CPU."""
        return torch.rand(shape, generator=self.generator())

    def normal(self, *shape: int) -> Tensor:
        """Standard normal, float32 on the CPU."""
        return torch.randn(shape, generator=self.generator())


def sequence_keys(input_ids: Tensor, attention_mask: Tensor | None = None) -> list[str]:
    """A key for each sequence from its own token ids, padding left out: the same in any batch."""
    rows = input_ids.tolist()
    kept = attention_mask.tolist() if attention_mask is not None else [[1] * len(row) for row in rows]
    keys = []
    for row, mask in zip(rows, kept, strict=True):
        real = [token for token, keep in zip(row, mask, strict=True) if keep]
        keys.append(hashlib.blake2b(repr(real).encode("utf-8"), digest_size=8).hexdigest())
    return keys
