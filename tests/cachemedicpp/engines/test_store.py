"""A folder of blocks serves what was computed, or nothing."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save

from cachemedicpp.engines.blocks.paged import PagedCache
from cachemedicpp.engines.events import Events
from cachemedicpp.engines.keys import chain, model_identity
from cachemedicpp.engines.store import BlockStore, RefusedError
from homeostat.core.errors import UserError

KEY = "ab" * 20


@pytest.fixture
def cache() -> PagedCache:
    generator = torch.Generator().manual_seed(0)
    layers = {str(i): torch.randn(6, 2, 8, 4, generator=generator) for i in range(3)}
    return PagedCache(layers, 6, 8)


@pytest.fixture
def store(tmp_path: Path, cache: PagedCache) -> BlockStore:
    made = BlockStore(str(tmp_path / "kv"), Events())
    made.write(KEY, cache.layout, cache.read(2), cache.sums([2], [8])[0])
    return made


def test_a_block_comes_back_to_the_bit_with_its_fingerprint(store: BlockStore, cache: PagedCache) -> None:
    content, sums = store.load(KEY, cache.layout)
    assert torch.equal(content, cache.read(2))
    assert np.array_equal(sums, cache.sums([2], [8])[0]) and np.array_equal(sums, cache.sums_of(content))


def test_any_flipped_byte_is_refused_or_seen_in_the_fingerprint(store: BlockStore, cache: PagedCache) -> None:
    whole = store.path(KEY).read_bytes()
    right = cache.sums([2], [8])[0]
    for where in range(0, len(whole), 7):
        data = bytearray(whole)
        data[where] ^= 1 << (where % 8)
        store.path(KEY).write_bytes(data)
        try:
            content, sums = store.load(KEY, cache.layout)
        except RefusedError:
            assert KEY not in store, "a file that is refused is removed"
            continue
        same = np.array_equal(cache.sums_of(content), sums)
        assert not same or (torch.equal(content, cache.read(2)) and np.array_equal(sums, right))


@pytest.mark.parametrize("length", [0, 7, 100, 900])
def test_a_file_that_is_cut_off_is_refused(store: BlockStore, cache: PagedCache, length: int) -> None:
    path = store.path(KEY)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(RefusedError):
        store.load(KEY, cache.layout)
    assert not path.exists()


def test_another_block_and_another_layout_are_refused(store: BlockStore, cache: PagedCache) -> None:
    other = "cd" * 20
    store.path(other).parent.mkdir(exist_ok=True)
    store.path(other).write_bytes(store.path(KEY).read_bytes())
    with pytest.raises(RefusedError, match="another"):
        store.load(other, cache.layout)
    with pytest.raises(RefusedError, match="layout"):
        store.load(KEY, "30x[3,32,128]-float32")


def test_a_block_with_a_forged_fingerprint_is_refused(store: BlockStore, cache: PagedCache) -> None:
    path = store.path(KEY)
    about = {"key": KEY, "layout": cache.layout, "sums": "1,2,3", "seal": "0" * 32}
    path.write_bytes(save(load_file(path), metadata=about))
    with pytest.raises(RefusedError, match="fingerprint"):
        store.load(KEY, cache.layout)


@pytest.fixture
def small_files() -> Iterator[None]:
    """The system lets this process write no file beyond 100 bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    kept = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, kept)


def test_on_a_full_disk_nothing_is_stored_and_nothing_breaks(
    store: BlockStore, cache: PagedCache, small_files: None
) -> None:
    for number in range(3):
        store.write(f"{number:040d}", cache.layout, cache.read(1), cache.sums([1], [8])[0])
    assert not list(store.folder.glob("00/*")), "something half-written was left"


def test_the_least_recently_used_blocks_go_beyond_the_limit(
    tmp_path: Path, store: BlockStore, cache: PagedCache
) -> None:
    size = store.path(KEY).stat().st_size
    store = BlockStore(str(tmp_path / "other"), Events(), limit_gib=3.5 * size / 2**30)
    keys = [f"{number:02d}" * 20 for number in range(5)]
    for age, key in enumerate(keys):
        store.write(key, cache.layout, cache.read(0), cache.sums([0], [8])[0])
        if key in store:
            os.utime(store.path(key), (age, age))
    assert keys[-1] in store and keys[0] not in store


def test_killing_a_writer_leaves_only_whole_blocks(tmp_path: Path, cache: PagedCache) -> None:
    code = textwrap.dedent(
        f"""
        import torch, numpy as np
        from cachemedicpp.engines.events import Events
        from cachemedicpp.engines.store import BlockStore
        store, n = BlockStore({str(tmp_path / "kv")!r}, Events()), 0
        block = torch.randn(3, 2, 8, 40000)
        while True:
            n += 1
            store.write(f"{{n:040d}}", "x", block, np.zeros(3, np.int64))
        """
    )
    writer = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "kv").glob("00/*.kv"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    writer.kill()
    writer.wait()
    store = BlockStore(str(tmp_path / "kv"), Events())
    files = list((tmp_path / "kv").glob("00/*.kv"))
    assert len(files) >= 3
    for path in files:
        store.load(path.stem, "x")


def test_keys_name_tokens_their_order_the_model_and_the_user() -> None:
    tokens = list(range(16))
    keys = chain(tokens, 8, "model")
    assert len(keys) == 2 and chain(tokens[:15], 8, "model") == keys[:1]
    changed = [
        chain([*tokens[:3], 99, *tokens[4:]], 8, "model"),
        chain(tokens, 8, "other"),
        chain(tokens, 8, "model", "me"),
    ]
    for other in changed:
        assert not set(other) & set(keys)


def test_a_model_is_its_files_or_what_the_user_says(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    first = model_identity(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"weighty")
    assert model_identity(str(tmp_path)) != first
    assert model_identity("some/hub-id", "revision 3") == "given:revision 3"
    with pytest.raises(UserError, match="model_id"):
        model_identity("some/hub-id")
