"""A HiCache storage class for SGLang that returns a page only if it is the page that was stored.

    --hicache-storage-backend dynamic --hicache-storage-backend-extra-config '{"backend_name": "guard",
      "module_path": "cachemedicpp.engines.sglang", "class_name": "GuardStorage", "inner": "file"}'

wraps another backend of SGLang by its name (`inner`; its own settings in `inner_config`). Page keys are
chains of hashes over tokens; what the guard stores is bound to the key and to the model, the rank, the type
of numbers and the layout of the host's pages, which SGLang's keys leave out. A page that does not fit is a
miss, and is stored anew under the next generation of its name, because backends skip names that exist.

Backends that copy straight from and to the host's memory (mooncake, nixl) have no room for a fingerprint in
a page. With `"interface_v1": 1` and `"seals": FOLDER` their fingerprints are kept in a folder, and pages are
verified where they arrive.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, HiCacheStorageConfig, PoolTransfer
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory
from torch import Tensor

from cachemedicpp.engines.frame import HEADER, DamagedError, check, mark, opened, seal
from homeostat.core.errors import UserError, nearest

WHOLE_PAGES = ("file", "shm")  # backends that take and return pages as tensors
VERSION = metadata.version("sglang")
_KV = "kv"
_POOL = ("layout", "dtype", "page_size", "layer_num", "start_layer", "head_num", "head_dim")
logger = logging.getLogger("sglang.cachemedicpp")


class GuardStorage(HiCacheStorage):
    def __init__(self, storage_config: HiCacheStorageConfig, kwargs: Any = None) -> None:
        self._config = storage_config
        extra = dict(storage_config.extra_config or {})
        self._name = str(extra.get("inner", "file"))
        known = [*StorageBackendFactory._registry, "dynamic"]
        if self._name not in known:
            raise UserError(f"inner = {self._name!r}: {nearest(self._name, known)}")
        in_place = bool(extra.get("interface_v1", 0))
        if in_place == (self._name in WHOLE_PAGES) or in_place != ("seals" in extra):
            raise UserError(
                f"inner = {self._name!r}: {', '.join(WHOLE_PAGES)} go without interface_v1 and seals; other "
                'backends need "interface_v1": 1 and "seals": FOLDER'
            )
        self._seals = Path(str(extra["seals"])) if in_place else None
        self._inner_config = dict(extra.get("inner_config", {}))
        self._backend: HiCacheStorage | None = None
        self._generation: Counter[str] = Counter()
        self.bad = 0  # pages that were not served

    @property
    def inner(self) -> HiCacheStorage:
        """The wrapped backend, made when it is first used: some need the host's pool, which comes later."""
        if self._backend is None:
            config = dataclasses.replace(self._config, extra_config=self._inner_config)
            pool = getattr(self, "mem_pool_host", None)
            self._backend = StorageBackendFactory.create_backend(self._name, config, pool)
        return self._backend

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        super().register_mem_pool_host(mem_pool_host)
        self.inner.register_mem_pool_host(mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        self.inner.register_mem_host_pool_v2(host_pool, host_pool_name)

    def on_host_pools_registered(self) -> None:
        self.inner.on_host_pools_registered()

    def facts(self, pool: str = _KV) -> dict[str, Any]:
        """What pages of this engine are, beside their keys."""
        shown = {k: v for k, v in dataclasses.asdict(self._config).items() if k != "extra_config"}
        host = getattr(self, "registered_pools", {}).get(pool, getattr(self, "mem_pool_host", None))
        return {
            **shown,
            "sglang": VERSION,
            "pool": pool,
            **{name: str(getattr(host, name, "")) for name in _POOL},
        }

    def name(self, key: str, pool: str = _KV) -> str:
        """Where a page is stored."""
        tag, generation = mark(self.facts())[:4].hex(), self._generation[key]
        named = f"{key}-{tag}{f'.{generation}' if generation else ''}"
        return named if pool == _KV else f"{named}.{pool}"

    # Pages as tensors

    def set(self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None) -> bool:
        return self._set(key, _KV, value)

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Tensor | None:
        return self._get(key, _KV, target_location)

    def batch_set(
        self, keys: list[str], values: Any = None, target_locations: Any = None, target_sizes: Any = None
    ) -> bool:
        return all(self.set(key, value) for key, value in zip(keys, values, strict=True))

    def batch_get(
        self, keys: list[str], target_locations: Any = None, target_sizes: Any = None
    ) -> list[Tensor | None]:
        return [self.get(key, target) for key, target in zip(keys, target_locations, strict=True)]

    def _set(self, key: str, pool: str, page: Tensor) -> bool:
        content = _bytes(page)
        header = seal(self.name(key, pool), self._facts(pool, page.dtype), content.numpy().data)
        frame = torch.cat((torch.frombuffer(bytearray(header), dtype=torch.uint8), content))
        return bool(self.inner.set(self.name(key, pool), frame))

    def _get(self, key: str, pool: str, target: Tensor) -> Tensor | None:
        length = target.numel() * target.element_size()
        frame = torch.empty(HEADER + length, dtype=torch.uint8)
        while True:
            try:
                if self.inner.get(self.name(key, pool), frame) is None:
                    return None
                opened(self.name(key, pool), self._facts(pool, target.dtype), frame.numpy().data, length)
            except (DamagedError, OSError) as error:
                self._refuse(key, pool, error)
                if not self.inner.exists(self.name(key, pool)):
                    return None
                continue
            target.view(-1).view(torch.uint8).copy_(frame[HEADER:])
            return target

    # Pages in the host's memory

    def batch_set_v1(self, keys: list[str], host_indices: Tensor, extra_info: Any = None) -> list[bool]:
        for key, page in zip(keys, self._pages(keys, host_indices), strict=True):
            path = self._seal(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, aside = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(seal(self.name(key), self._facts(_KV, page.dtype), _bytes(page).numpy().data))
            Path(aside).replace(path)
        made: list[bool] = self.inner.batch_set_v1(self._names(keys), host_indices, self._prefix(extra_info))
        return made

    def batch_get_v1(self, keys: list[str], host_indices: Tensor, extra_info: Any = None) -> list[bool]:
        came = self.inner.batch_get_v1(self._names(keys), host_indices, self._prefix(extra_info))
        served = []
        for key, page, there in zip(keys, self._pages(keys, host_indices), came, strict=True):
            content = _bytes(page)
            try:
                if there:
                    header = self._seal(key).read_bytes()
                    check(self.name(key), self._facts(_KV, page.dtype), header, content.numpy().data)
            except (DamagedError, OSError) as error:
                self._refuse(key, _KV, error)
                there = False
            served.append(bool(there))
        return served

    def _pages(self, keys: list[str], host_indices: Tensor) -> list[Tensor]:
        size = self.mem_pool_host.page_size
        return [self.mem_pool_host.get_data_page(int(host_indices[i * size])) for i in range(len(keys))]

    def _seal(self, key: str) -> Path:
        if self._seals is None:
            raise UserError('pages in the host\'s memory need "seals": FOLDER in the extra config')
        return self._seals / key[:2] / self.name(key)

    # Several pools

    def batch_set_v2(self, transfers: list[PoolTransfer], extra_info: Any = None) -> dict[str, list[bool]]:
        return self._each(transfers, lambda key, name, pool, at: self._set(key, name, pool.get_data_page(at)))

    def batch_get_v2(self, transfers: list[PoolTransfer], extra_info: Any = None) -> dict[str, list[bool]]:
        def read(key: str, name: str, pool: Any, at: int) -> bool:
            page = self._get(key, name, pool.get_dummy_flat_data_page())
            if page is not None:
                pool.set_from_flat_data_page(at, page)
            return page is not None

        return self._each(transfers, read)

    def batch_exists_v2(self, keys: list[str], pool_transfers: Any = None, extra_info: Any = None) -> Any:
        return self.inner.batch_exists_v2(self._names(keys), pool_transfers, self._prefix(extra_info))

    def _each(
        self, transfers: list[PoolTransfer], do: Callable[[str, str, Any, int], bool]
    ) -> dict[str, list[bool]]:
        done: dict[str, list[bool]] = {}
        for transfer in transfers:
            pool, keys = self.registered_pools[transfer.name], transfer.keys or []
            size, places = getattr(pool, "page_size", 1) or 1, transfer.host_indices
            fits = places is not None and places.numel() == len(keys) * size
            done[transfer.name] = [
                fits and do(key, str(transfer.name), pool, int(places[i * size]))
                for i, key in enumerate(keys)
            ]
        return done

    # The rest

    def exists(self, key: str) -> bool:
        return bool(self.inner.exists(self.name(key)))

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        return int(self.inner.batch_exists(self._names(keys), self._prefix(extra_info)))

    def clear(self) -> Any:
        self._generation.clear()
        return self.inner.clear()

    def close(self) -> None:
        with contextlib.suppress(AttributeError):  # not every backend has it
            self.inner.close()

    def get_stats(self) -> Any:
        return self.inner.get_stats()

    def _names(self, keys: list[str]) -> list[str]:
        return [self.name(key) for key in keys]

    def _prefix(self, extra_info: Any) -> Any:
        if extra_info is None or not extra_info.prefix_keys:
            return extra_info
        return dataclasses.replace(extra_info, prefix_keys=self._names(extra_info.prefix_keys))

    def _facts(self, pool: str, dtype: torch.dtype) -> dict[str, Any]:
        return {**self.facts(pool), "numbers": str(dtype)}

    def _refuse(self, key: str, pool: str, why: Exception) -> None:
        logger.warning("guard bad-page key=%s pool=%s why=%s", key, pool, str(why).replace(" ", "-"))
        self.bad += 1
        self._generation[key] += 1


def _bytes(page: Tensor) -> Tensor:
    return page.detach().contiguous().view(-1).view(torch.uint8)
