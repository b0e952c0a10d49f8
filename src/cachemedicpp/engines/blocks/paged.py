"""Reading a paged cache: fingerprints, keys and values of blocks, in whatever order an engine keeps them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cachemedicpp.guard.fingerprint import Weights, digest, weights
from homeostat.core.errors import UserError


def by_block(cache: Tensor, blocks: int, size: int) -> Tensor:
    """A view `[blocks, H, size, d]` of one layer's cache; an unclear order of dimensions is refused."""
    order = list(cache.shape)
    where = [i for i, n in enumerate(order) if n == blocks]
    places = [i for i, n in enumerate(order[:-1]) if n == size and i not in where[:1]]
    if cache.dim() == 4 and len(where) > 1:
        where = where[:1]  # every layout with four dimensions that we know begins with the blocks
    if len(where) != 1 or len(places) != 1 or cache.dim() not in (4, 5):
        raise UserError(
            f"a paged cache of shape {order} with {blocks} blocks of {size} positions: the guard cannot tell "
            "which dimension is which, so it does not start"
        )
    rest = [i for i in range(cache.dim() - 1) if i not in (where[0], places[0])]
    view = cache.permute(where[0], *rest, places[0], cache.dim() - 1)
    return view if view.dim() == 4 else view.flatten(1, 2)


class PagedCache:
    """All layers of an engine's paged cache.

    `order` `[2, H, size, d]` says where in a flattened block the keys and values lie. Fingerprints of whole
    blocks do not need it: they are of the bytes as they lie.
    """

    def __init__(
        self, layers: Mapping[str, Tensor], blocks: int, size: int, order: Tensor | None = None
    ) -> None:
        if not layers:
            raise UserError("the engine registered no KV cache: nothing can be guarded")
        self.names = list(layers)
        self.size = size
        self.blocks = blocks
        self.order = order
        self.layers = [by_block(cache, blocks, size) for cache in layers.values()]
        shapes = {(tuple(x.shape[1:]), x.dtype) for x in self.layers}
        if len(shapes) != 1:
            raise UserError(
                f"layers differ in shape or type ({sorted(map(str, shapes))}): the guard does not start"
            )
        self._whole = weights(self.layers[0], size)
        self._begun: Weights | None = None

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def by_position(self) -> bool:
        """Whether it is known where each position lies."""
        return self.order is not None

    @property
    def layout(self) -> str:
        """Names the meaning of a block's bytes: stored blocks are bound to it."""
        x = self.layers[0]
        places = b"" if self.order is None else self.order.cpu().numpy().tobytes()
        mark = hashlib.blake2b(places, digest_size=4).hexdigest()
        return f"{len(self)}x{list(x.shape[1:])}-{str(x.dtype).removeprefix('torch.')}-{mark}".replace(
            " ", ""
        )

    def sums(self, blocks: Sequence[int], lengths: Sequence[int]) -> NDArray[np.int64]:
        """Fingerprints `[n, L]` of whole blocks, or of the first `lengths[i]` positions of others."""
        found = np.zeros((len(blocks), len(self)), np.int64)
        whole = [i for i, n in enumerate(lengths) if n == self.size]
        begun = [i for i, n in enumerate(lengths) if n != self.size]
        if whole:
            rows = torch.as_tensor([blocks[i] for i in whole], device=self.layers[0].device)
            for number, layer in enumerate(self.layers):
                found[whole, number] = digest(layer[rows], self._whole).sum(1).cpu().numpy()
        for i in begun:
            K, V = self.kv(blocks[i])  # [L, H, size, d]
            found[i] = self._first(torch.cat((K, V), 1), lengths[i])
        return found

    def sums_of(self, content: Tensor) -> NDArray[np.int64]:
        """The fingerprint `[L]` of a whole block that is not in the cache, `[L, H, size, d]`."""
        like = self.layers[0]
        if content.dtype != like.dtype or content.shape != (len(self), *like.shape[1:]):
            return np.zeros(0, np.int64)
        return np.asarray(digest(content.to(like.device), self._whole).sum(1).cpu().numpy())

    def _first(self, x: Tensor, length: int) -> NDArray[np.int64]:
        if self._begun is None:
            self._begun = weights(x, self.size)
        some = x[:, :, :length]
        return np.asarray(
            digest(some, self._begun.at(torch.arange(length, device=x.device))).sum(1).cpu().numpy()
        )

    def kv(self, block: int) -> tuple[Tensor, Tensor]:
        """Copies of a block's keys and values, `[L, H, size, d]` each."""
        if self.order is None:
            raise UserError("where keys and values lie in this cache is not known")
        flat = torch.stack([layer[block].flatten() for layer in self.layers])
        K, V = flat[:, self.order.to(flat.device)].unbind(1)
        return K, V

    def put_kv(self, block: int, layer: int, K: Tensor, V: Tensor) -> None:
        """Write a block's keys and values `[H, size, d]` in one layer."""
        if self.order is None:
            raise UserError("where keys and values lie in this cache is not known")
        x = self.layers[layer][block]
        flat = x.flatten()
        flat[self.order.to(flat.device)] = torch.stack((K, V)).to(flat)
        x.copy_(flat.view(x.shape))

    def clear(self, block: int, first: int) -> None:
        """Zero a block from a position on; all of it where positions are not known."""
        if first == 0 or self.order is None:
            for layer in self.layers:
                layer[block] = 0
            return
        places = self.order[:, :, first:].flatten().to(self.layers[0].device)
        for layer in self.layers:
            flat = layer[block].flatten()
            flat[places] = 0
            layer[block] = flat.view(layer[block].shape)

    def read(self, block: int) -> Tensor:
        """A copy of one block as it lies, `[L, H, size, d]`."""
        return torch.stack([layer[block] for layer in self.layers]).cpu()

    def write(self, block: int, content: Tensor) -> None:
        for layer, x in zip(self.layers, content, strict=True):
            layer[block] = x.to(layer)
