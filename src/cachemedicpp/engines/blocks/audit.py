"""Blocks that no fingerprint vouches for, judged against their tokens.

What a store, another engine or an earlier run wrote may be intact and still be another text's, another
position's, another layout's. `cachemedicpp.audit` sees that: by an operator's statistics, or exactly by the
model itself, which recomputes one token of every block.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from cachemedicpp.engines.blocks.paged import PagedCache


class Auditor:
    """`folder` holds an operator G that was calibrated with tokens, or the model."""

    def __init__(self, folder: str) -> None:
        if (Path(folder) / "config.json").is_file():
            from transformers import AutoModelForCausalLM

            self._judge: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=torch.float32, local_files_only=True
            )
        else:
            from cachemedicpp.repair.base import load_repair

            self._judge = load_repair(Path(folder))

    def foreign(self, cache: PagedCache, blocks: Sequence[int], tokens: Sequence[int]) -> dict[int, str]:
        """Of the first blocks of a request, those that cannot be of its tokens, and why."""
        from transformers import DynamicCache

        from cachemedicpp.auditing import audit

        size, state = cache.size, DynamicCache()
        K, V = (torch.cat(x, 2).float() for x in zip(*map(cache.kv, blocks), strict=True))  # [L, H, T, d]
        finite = (K.isfinite() & V.isfinite()).all(-1).all(1).all(0)  # [T]
        broken = {int(at) // size for at in (~finite).nonzero().flatten()}
        for layer, (k, v) in enumerate(zip(K, V, strict=True)):
            state.update(k.nan_to_num(0, 0, 0)[None], v.nan_to_num(0, 0, 0)[None], layer)
        found = audit(self._judge, state, torch.tensor([tokens[: len(blocks) * size]], device=K.device))
        why = {blocks[index]: "not finite" for index in broken}
        for one in found.findings():
            for index in range(one["first"] // size, one["last"] // size + 1):
                said = f"not of its tokens: {len(one['layers'])} layers, score {one['score']:g}"
                why.setdefault(blocks[index], said)
        return why
