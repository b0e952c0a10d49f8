"""Damage to blocks of a running engine's paged cache, on purpose.

Seven kinds are faults of memory and of bookkeeping; besides them every type of the corruption family that
needs no donor can be named, with the same formula, severities and random streams as everywhere else:

    bit       one bit of a stored number is flipped, for a share epsilon of the numbers
    stuck     a share epsilon of the numbers is stuck at one value
    nan       a share epsilon of the numbers is not a number
    swapped   two blocks are exchanged (a wrong block table)
    foreign   a block holds the content of another (a copy to the wrong place)
    stale     a block holds what it held before it was last rewritten (a lost write)
    zeroed    a block is empty (a transfer that never arrived)

A fault hits one or more blocks in a given share of the layers, at least one; what is drawn depends on the
seed, the name of the draw and the layer alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cachemedicpp.engines.blocks.paged import PagedCache
from homeostat.core.errors import UserError, nearest

ELEMENTS = ("bit", "stuck", "nan")
BLOCKS = ("swapped", "foreign", "stale", "zeroed")
_INTS = {2: torch.int16, 4: torch.int32}


@dataclass(frozen=True)
class Fault:
    """A kind of damage with its severity and the seed of its draws."""

    kind: str
    epsilon: float = 0.001
    layers: float = 1.0  # the share of layers that are hit
    seed: int = 0

    def check(self) -> None:
        known = (*ELEMENTS, *BLOCKS, *_family())
        if self.kind not in known:
            raise UserError(f"fault kind {self.kind!r}: {nearest(self.kind, known)}")
        if not 0 < self.layers <= 1 or not 0 <= self.epsilon <= 1e6:
            raise UserError(f"fault {self}: layers must be in (0, 1] and epsilon must not be negative")


def hit_layers(fault: Fault, layers: int, draw: str) -> list[int]:
    """The layers a fault hits, at least one."""
    from cachemedicpp.corruption.streams import Stream

    drawn = Stream((fault.seed, draw, 0)).at("layers").uniform(layers)
    count = max(1, round(fault.layers * layers))
    return sorted(drawn.argsort()[:count].tolist())


def damaged(fault: Fault, x: Tensor, draw: str, layer: int, tensor: str) -> Tensor:
    """`x` `[H, T, d]`, the keys or values of a block in one layer, after a fault to its numbers."""
    from cachemedicpp.corruption.streams import Stream

    stream = Stream((fault.seed, draw, 0)).at("noise").at(layer, tensor)
    if fault.kind not in ELEMENTS:
        return _corrupted(fault, x, stream, layer, tensor)
    hit = stream.at("hit").uniform(*x.shape) < fault.epsilon
    if fault.epsilon > 0 and not bool(hit.any()):  # a fault that hits nothing is none
        hit.view(-1)[int(stream.at("one").uniform(1) * hit.numel())] = True
    if fault.kind == "nan":
        return x.masked_fill(hit, float("nan"))
    if fault.kind == "stuck":
        return x.masked_fill(hit, float(x.abs().max()))
    words = x.contiguous().view(_INTS[x.element_size()])
    bits = (stream.at("bit").uniform(*x.shape) * (8 * x.element_size())).to(words.dtype)
    return (words ^ (torch.ones_like(words) << bits).where(hit, 0)).view(x.dtype)


def inject(
    cache: PagedCache, fault: Fault, blocks: Sequence[int], draw: str, donors: Sequence[Any] = ()
) -> int:
    """Damage blocks; returns how many numbers changed in them.

    `donors` has, for each block, the other block (swapped, foreign) or its remembered content (stale).
    """
    fault.check()
    changed = 0
    for number, block in enumerate(blocks):
        name, before = f"{draw}/{number}", cache.read(block)
        for layer in hit_layers(fault, len(cache), name):
            x = cache.layers[layer]
            if fault.kind == "zeroed":
                x[block] = 0
            elif fault.kind == "swapped":
                x[block], x[donors[number]] = x[donors[number]].clone(), x[block].clone()
            elif fault.kind == "foreign":
                x[block] = x[donors[number]].clone()
            elif fault.kind == "stale":
                x[block] = donors[number][layer].to(x)
            else:
                K, V = (every[layer] for every in cache.kv(block))
                cache.put_kv(
                    block, layer, damaged(fault, K, name, layer, "K"), damaged(fault, V, name, layer, "V")
                )
        words = _INTS[before.element_size()]
        changed += int((cache.read(block).view(words) != before.view(words)).sum())
    return changed


def _corrupted(fault: Fault, x: Tensor, stream: Any, layer: int, tensor: str) -> Tensor:
    from cachemedicpp.corruption import CORRUPTIONS, Site

    made = CORRUPTIONS[fault.kind]().at(fault.epsilon)
    mask = torch.ones(x.shape[:2], dtype=torch.bool)
    return made.apply(x.float(), mask, stream, Site(layer, tensor)).to(x.dtype)


def _family() -> list[str]:
    from cachemedicpp.corruption import CORRUPTIONS

    return [name for name, kind in CORRUPTIONS.items() if not kind.needs_donor]


class FaultInjector:
    """A worker extension of vLLM (`worker_extension_cls`): methods are called by `collective_rpc`.

    For experiments only: nothing starts it unless it is named when the engine is started.
    """

    def fault_cache(self) -> PagedCache:
        """The worker's paged cache."""
        from cachemedicpp.engines.vllm.layout import probe

        runner = self.model_runner  # type: ignore[attr-defined]
        if "_fault_cache" not in self.__dict__:
            config = runner.kv_cache_config
            group, blocks = config.kv_cache_groups[0], config.num_blocks
            size = group.kv_cache_spec.block_size
            layers = runner.compilation_config.static_forward_context
            order = probe(layers[group.layer_names[0]], runner.kv_caches[0], blocks, size)
            named = {str(i): cache for i, cache in enumerate(runner.kv_caches)}
            self._fault_cache = PagedCache(named, blocks, size, order)
        return self._fault_cache

    def fault_blocks(self) -> dict[str, list[int]]:
        """The blocks of every request the worker still knows, by request."""
        requests = self.model_runner.requests  # type: ignore[attr-defined]
        return {name: list(state.block_ids[0]) for name, state in requests.items()}

    def fault_remember(self, blocks: list[int]) -> None:
        """Keep the content of blocks, to come back as `stale`."""
        kept: dict[int, Tensor] = self.__dict__.setdefault("_fault_kept", {})
        for block in blocks:
            kept[block] = self.fault_cache().read(block)

    def fault_inject(self, fault: dict[str, Any], blocks: list[int], draw: str, others: list[int]) -> int:
        """Damage blocks; `others` are the blocks that swapped and foreign take from."""
        made = Fault(**fault)
        kept = self.__dict__.get("_fault_kept", {})
        if made.kind == "stale" and (missing := [block for block in blocks if block not in kept]):
            raise UserError(f"a stale block needs content that was remembered before: {missing} have none")
        donors = [kept[block] for block in blocks] if made.kind == "stale" else others
        return inject(self.fault_cache(), made, blocks, draw, donors)

    def fault_writes(self, fault: dict[str, Any], layer: int, times: int) -> None:
        """Have a layer compute wrong keys and values, the next `times` times that it writes any: a faulty
        kernel. What it writes is fingerprinted as if it were right."""
        made = Fault(**fault)
        made.check()
        context = self.model_runner.compilation_config.static_forward_context  # type: ignore[attr-defined]
        impl = list(context.values())[layer].impl
        impl.__dict__.pop("do_kv_cache_update", None)
        write, left = impl.do_kv_cache_update, times

        def wrong(of: Any, K: Tensor, V: Tensor, *where: Any) -> Any:
            nonlocal left
            if left > 0:
                left -= 1
                K, V = (
                    damaged(made, x.transpose(0, 1), f"write{left}", layer, name).transpose(0, 1).contiguous()
                    for x, name in ((K, "K"), (V, "V"))
                )
            return write(of, K, V, *where)

        impl.do_kv_cache_update = wrong

    def fault_guard(self, every: int, budget: int) -> None:
        """Set how often the guard looks while requests decode."""
        from vllm.distributed.kv_transfer import get_kv_transfer_group

        watch = get_kv_transfer_group().watch
        watch.every, watch.budget = every, budget

    def fault_counts(self) -> dict[str, float]:
        """The guard's counters, or nothing where there is no guard."""
        from dataclasses import asdict

        from vllm.distributed.kv_transfer import get_kv_transfer_group, has_kv_transfer_group

        if not has_kv_transfer_group():
            return {}
        guard = get_kv_transfer_group()
        return {**asdict(guard.events.counts), "quarantine": len(guard.watch.quarantine)}
