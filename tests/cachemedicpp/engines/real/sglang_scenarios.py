"""SGLang's real storage interface and file backend behind the guard: `python … NAME FOLDER` prints JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.mem_cache.hicache_storage import (
    HiCacheFile,
    HiCacheStorage,
    HiCacheStorageConfig,
    HiCacheStorageExtraInfo,
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
)
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory

from cachemedicpp.engines.sglang import GuardStorage
from homeostat.core.errors import UserError

PLAIN = HiCacheStorageConfig(
    tp_rank=0,
    tp_size=1,
    pp_rank=0,
    pp_size=1,
    attn_cp_rank=0,
    attn_cp_size=1,
    is_mla_model=False,
    enable_storage_metrics=False,
    is_page_first_layout=False,
    model_name="some/model",
)
HOW = {"backend_name": "guard", "module_path": "cachemedicpp.engines.sglang", "class_name": "GuardStorage"}
SHAPE = (2, 3, 8, 2, 16)  # K and V, layers, positions, heads, dimensions
KEYS = [f"{n:064x}" for n in range(4)]


class Pool:
    """The part of SGLang's host pool that storages use."""

    page_size, layer_num, start_layer, head_num, head_dim = 8, 3, 0, 2, 16

    def __init__(self, dtype: torch.dtype = torch.bfloat16, layout: str = "layer_first") -> None:
        self.dtype, self.layout = dtype, layout
        self.pages = {n * self.page_size: page(n, dtype) for n in range(8)}

    def get_data_page(self, index: int, flat: bool = True) -> torch.Tensor:
        return self.pages[index].flatten()

    def get_dummy_flat_data_page(self) -> torch.Tensor:
        return torch.zeros(SHAPE, dtype=self.dtype).flatten()

    def set_from_flat_data_page(self, index: int, data_page: torch.Tensor) -> None:
        self.pages[index] = data_page.reshape(SHAPE).clone()


def page(number: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(number)).to(dtype)


def storage(folder: Path, pool: Pool | None = None, **config: Any) -> GuardStorage:
    """The guard as SGLang makes it, around its file backend."""
    os.environ["SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"] = str(folder)
    made = StorageBackendFactory.create_backend(
        "dynamic", replace(PLAIN, extra_config={**HOW, **config.pop("extra", {})}, **config), pool
    )
    assert isinstance(made, GuardStorage) and isinstance(made.inner, HiCacheFile)
    made.register_mem_pool_host(pool or Pool())
    return made


def empty(dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.zeros(SHAPE, dtype=dtype).flatten()


def interface(folder: Path) -> dict[str, Any]:
    """What SGLang expects of a storage, with the guard and with its own file backend."""
    plain = _plain(folder / "plain")
    plain.register_mem_pool_host(Pool())
    return {"guard": _interface(storage(folder / "guarded")), "plain": _interface(plain)}


def _interface(backend: HiCacheStorage) -> dict[str, Any]:
    seen: dict[str, Any] = {"empty": [backend.exists(KEYS[0]), backend.batch_exists(KEYS)]}
    seen["missing"] = backend.get(KEYS[0], empty()) is None
    seen["set"] = backend.batch_set(KEYS[:3], [page(n).flatten() for n in range(3)])
    seen["again"] = backend.set(KEYS[0], page(0).flatten())
    seen["exist"] = backend.batch_exists(KEYS, HiCacheStorageExtraInfo(prefix_keys=["ab"]))
    pages = backend.batch_get(KEYS, [empty() for _ in KEYS])
    seen["same"] = [p is not None and torch.equal(p, page(n).flatten()) for n, p in enumerate(pages)]
    pools = {PoolName.KV: Pool(), PoolName.MAMBA: Pool()}
    for name, pool in pools.items():
        backend.register_mem_host_pool_v2(pool, name)
    places = torch.arange(2 * Pool.page_size)
    put = [PoolTransfer(name, host_indices=places, keys=KEYS[2:]) for name in pools]
    short = PoolTransfer(PoolName.KV, host_indices=places[:3], keys=KEYS[2:])
    seen["put"] = backend.batch_set_v2(put)
    seen["short"] = backend.batch_get_v2([short])
    for pool in pools.values():
        pool.pages = {place: torch.zeros(SHAPE, dtype=torch.bfloat16) for place in pool.pages}
    seen["got"] = backend.batch_get_v2(put)
    seen["mamba"] = torch.equal(pools[PoolName.MAMBA].pages[8], page(1))
    for policy in (PoolHitPolicy.ALL_PAGES, PoolHitPolicy.TRAILING_PAGES):
        asked = [PoolTransfer(PoolName.MAMBA, keys=KEYS[3:], hit_policy=policy)]
        seen[policy] = backend.batch_exists_v2(KEYS, asked).restorable_prefix_pages
    backend.clear()
    seen["cleared"] = backend.batch_exists(KEYS)
    return seen


def damage(folder: Path) -> dict[str, Any]:
    """Damage to a stored page or to what it is stored under, with the guard and without."""

    def file(where: Path) -> Path:
        return next(p for p in where.iterdir() if p.name.startswith(KEYS[0]))

    def edit(change: Callable[[bytearray], bytes | bytearray]) -> Callable[[Path], None]:
        def harm(where: Path) -> None:
            file(where).write_bytes(change(bytearray(file(where).read_bytes())))

        return harm

    def flip(at: float) -> Callable[[bytearray], bytearray]:
        def change(data: bytearray) -> bytearray:
            data[int(at * (len(data) - 1))] ^= 0x10
            return data

        return change

    def take(other: Callable[[Path], Path]) -> Callable[[Path], None]:
        def harm(where: Path) -> None:
            file(where).write_bytes(other(where).read_bytes())

        return harm

    def stored(where: Path, pool: Pool | None = None, key: str = KEYS[0], **config: Any) -> Path:
        """The file of a page that somebody else stored."""
        aside = where.with_name(f"{where.name}-other")
        aside.mkdir()
        other = storage(aside, pool, **config) if "guard" in where.name else _plain(aside, **config)
        dtype = pool.dtype if pool else torch.bfloat16
        other.set(key, page(7, dtype).flatten())
        return next(aside.iterdir())

    kinds: dict[str, Callable[[Path], None]] = {
        "bit in the content": edit(flip(0.6)),
        "bit in the last byte": edit(flip(1.0)),
        "bit in the header": edit(flip(0.0)),
        "bit in the fingerprint": edit(flip(0.006)),
        "empty": edit(lambda data: b""),
        "cut off": edit(lambda data: data[: len(data) // 2]),
        "zeroed": edit(lambda data: bytes(len(data))),
        "bytes moved by two": edit(lambda data: data[:100] + data[102:] + b"\0\0"),
        "another page": take(lambda where: next(p for p in where.iterdir() if p.name.startswith(KEYS[1]))),
        "another model's": take(lambda where: stored(where, model_name="other/model")),
        "another type of numbers": take(lambda where: stored(where, Pool(torch.float16))),
        "another layout": take(lambda where: stored(where, Pool(layout="page_first"))),
        "another rank's": take(lambda where: stored(where, tp_rank=1, tp_size=2)),
        "stored without the guard": edit(lambda data: page(3).flatten().view(torch.uint8).numpy().tobytes()),
    }
    found = {}
    for number, (kind, harm) in enumerate(kinds.items()):
        for name in ("guard", "plain"):
            where = folder / f"{name}{number}"
            made = storage(where) if name == "guard" else _plain(where)
            made.batch_set(KEYS[:2], [page(n).flatten() for n in range(2)])
            harm(where)
            made = storage(where) if name == "guard" else _plain(where)
            row = found.setdefault(kind, {})
            row[name] = _outcome(made)
            if name == "guard":
                row["exists"] = made.exists(KEYS[0])
                made.set(KEYS[0], page(0).flatten())
                row["mended"] = [_outcome(made), _outcome(storage(where))]
    return found


def _plain(folder: Path, **config: Any) -> HiCacheStorage:
    os.environ["SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"] = str(folder)
    return StorageBackendFactory.create_backend("file", replace(PLAIN, **config), None)


def _outcome(backend: HiCacheStorage) -> str:
    try:
        got = backend.get(KEYS[0], empty())
    except OSError:
        return "raised"
    return "miss" if got is None else "right" if torch.equal(got, page(0).flatten()) else "wrong"


def in_place(folder: Path) -> dict[str, Any]:
    """A backend that copies from and to the host's memory, as mooncake and nixl do."""
    StorageBackendFactory.register_backend("memory", __name__, "Memory")
    StorageBackendFactory._create_builtin_backend = classmethod(  # type: ignore[method-assign]
        lambda cls, name, kind, config, pool: kind(pool)
    )
    extra = {**HOW, "inner": "memory", "interface_v1": 1, "seals": str(folder / "seals")}
    pool = Pool()
    made = StorageBackendFactory.create_backend("dynamic", replace(PLAIN, extra_config=extra), pool)
    made.register_mem_pool_host(pool)
    places = torch.arange(3 * pool.page_size)
    found: dict[str, Any] = {"set": made.batch_set_v1(KEYS[:3], places)}
    found["get"] = made.batch_get_v1(KEYS, torch.arange(4 * pool.page_size))
    kept = made.inner.kept[made.name(KEYS[1])]
    kept.view(torch.uint8)[9] ^= 4
    found["damaged"] = made.batch_get_v1(KEYS[:3], places)
    found["exists"] = made.batch_exists(KEYS)
    pool.set_from_flat_data_page(8, page(1).flatten())
    found["mended"] = [made.batch_set_v1(KEYS[1:2], places[8:]), made.batch_get_v1(KEYS[:3], places)]
    said = []
    for wrong in ({"inner": "mooncake"}, {"inner": "fille"}, {"interface_v1": 1}):
        try:
            GuardStorage(replace(PLAIN, extra_config=wrong))
        except UserError as error:
            said.append(str(error))
    return {**found, "said": said}


class Memory(HiCacheStorage):
    """Pages in a dictionary."""

    def __init__(self, pool: Any) -> None:
        self.kept: dict[str, torch.Tensor] = {}
        self.pool = pool

    def batch_set_v1(self, keys: list[str], host_indices: torch.Tensor, extra_info: Any = None) -> list[bool]:
        for i, key in enumerate(keys):
            self.kept[key] = self.pool.get_data_page(int(host_indices[i * self.pool.page_size])).clone()
        return [True] * len(keys)

    def batch_get_v1(self, keys: list[str], host_indices: torch.Tensor, extra_info: Any = None) -> list[bool]:
        for i, key in enumerate(keys):
            if key in self.kept:
                self.pool.set_from_flat_data_page(int(host_indices[i * self.pool.page_size]), self.kept[key])
        return [key in self.kept for key in keys]

    def exists(self, key: str) -> bool:
        return key in self.kept

    get = set = batch_get = batch_set = lambda *given, **named: None


def write(folder: Path) -> dict[str, Any]:
    """For the test that kills it: stores pages as fast as it can, for ever."""
    made, number = storage(folder / "shared"), 0
    while True:
        made.set(f"{number:064x}", page(number % 4).flatten().repeat(500))
        number += 1


def killed(folder: Path) -> dict[str, Any]:
    """Two processes store the same pages into one folder and are killed while they write."""
    code = [sys.executable, __file__, "write", str(folder)]
    victims = [subprocess.Popen(code, stderr=subprocess.DEVNULL) for _ in range(2)]
    shared, deadline = folder / "shared", time.time() + 120
    while (not shared.exists() or len(list(shared.glob("*.bin"))) < 40) and time.time() < deadline:
        time.sleep(0.01)
    for victim in victims:
        victim.kill()
        victim.wait()
    made, outcomes = storage(shared), []
    for number in range(len(list(shared.glob("*.bin"))) + 2):
        got = made.get(f"{number:064x}", empty().repeat(500))
        right = got is not None and torch.equal(got, page(number % 4).flatten().repeat(500))
        outcomes.append("miss" if got is None else "right" if right else "wrong")
    return {"outcomes": {kind: outcomes.count(kind) for kind in outcomes}, "bad": made.bad}


if __name__ == "__main__":
    sys.modules["sglang_scenarios"] = SimpleNamespace(Memory=Memory)  # type: ignore[assignment]
    __name__ = "sglang_scenarios"
    print("RESULT " + json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))
