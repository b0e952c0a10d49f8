"""A cache on disk with its fingerprints: what offloading and transfer need to notice that something changed.

`cache.safetensors` holds `K.<layer>` and `V.<layer>`; `fingerprints.safetensors` the guard's ledger: tokens,
positions and a fingerprint for every block, with a seal over itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor
from transformers import Cache, DynamicCache

from cachemedicpp.cache.state import KVState, readable
from cachemedicpp.guard.guard import Guard
from cachemedicpp.guard.ledger import Ledger
from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.models import model_identity

CACHE, FINGERPRINTS = "cache.safetensors", "fingerprints.safetensors"


def save_cache(cache: Cache, guard: Guard, folder: Path) -> None:
    """Write a watched cache and its fingerprints; a damaged cache is refused."""
    if windowed := KVState(cache).windowed:
        raise UserError(
            f"cache layer {windowed[0]} has a sliding window: only caches without one can be saved"
        )
    if damages := guard.verify(cache):
        raise UserError(f"the cache has {len(damages)} damaged blocks: heal it before it is saved")
    ledger = guard.ledger
    assert ledger is not None  # noqa: S101
    if ledger.length != KVState(cache).length:
        raise UserError("the cache has grown since it was watched: watch its new tokens first")
    tensors = {
        f"{name}.{i}": x.cpu().contiguous()
        for i, kv in enumerate(KVState(cache))
        for name, x in zip("KV", kv, strict=True)
    }
    identity = model_identity(guard.model)
    about = {
        "seal": str(ledger.seal),
        "block": str(ledger.block),
        "model": identity["id"] or "",
        "revision": identity["revision"] or "",
    }
    atomic.write_bytes(folder / CACHE, save(tensors))
    atomic.write_bytes(folder / FINGERPRINTS, save(ledger.tensors(), metadata=about))


def load_cache(
    folder: Path, device: torch.device | str = "cpu"
) -> tuple[DynamicCache, Ledger, dict[str, str]]:
    """A saved cache as it is now (not yet verified), the ledger of what it was, and which model made it."""
    cache = read_cache(folder / CACHE, device)
    told, about = _read(folder / FINGERPRINTS)
    try:
        empty = Ledger.empty(KVState(cache), int(about["block"]))
        sums = replace(empty.sums, sums=told.pop("sums"), sketches=told.pop("sketches"))
        own = {name: told.pop(name) for name in ("ids", "mask", "positions")}
        ledger = Ledger(**own, sums=sums, windows=empty.windows, seal=int(about["seal"]))
    except (KeyError, ValueError) as error:
        raise UserError(f"{folder} does not hold a cache with its fingerprints: {error!r}") from None
    if not ledger.intact:
        raise UserError(
            f"{folder / FINGERPRINTS} was damaged: the cache can neither be verified nor healed; "
            "make it again with --text"
        )
    try:
        ledger.check(readable(cache), grown=False)
    except UserError as error:
        raise UserError(f"{folder / CACHE} does not fit {FINGERPRINTS}: {error}") from None
    return cache, ledger, about


def read_cache(path: Path, device: torch.device | str = "cpu") -> DynamicCache:
    """The layers of a cache that a file holds as `K.<layer>` and `V.<layer>`, `[B, H_kv, T, d]`."""
    tensors, _ = _read(path)
    layers = len(tensors) // 2
    wanted = {f"{name}.{layer}" for layer in range(layers) for name in "KV"}
    if not tensors or set(tensors) != wanted:
        raise UserError(f"{path} does not hold a cache: its tensors should be K.0, V.0, K.1, V.1 and so on")
    cache = DynamicCache()
    for layer in range(layers):
        cache.update(tensors[f"K.{layer}"].to(device), tensors[f"V.{layer}"].to(device), layer)
    return cache


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
        return load_file(path), about
    except (OSError, SafetensorError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
