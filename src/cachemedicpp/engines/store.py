"""Blocks in a folder, each with the fingerprint it had when it was computed.

A file `<key[:2]>/<key>.kv` is a safetensors file with one tensor `block` `[L, H, size, d]`; its metadata
has the key, the layout, the fingerprint and a seal over these. It is written beside its place and renamed,
so a killed process leaves nothing half-written; whatever is damaged, cut off, of another model or another
layout is refused and removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from cachemedicpp.engines.blocks.ledger import Sums
from cachemedicpp.engines.events import Events
from homeostat.core.errors import UserError

_STALE = 600.0  # seconds after which an unfinished file has no writer any more


class RefusedError(Exception):
    """A stored block that must not be served."""


class BlockStore:
    """One folder, used by any number of engines at once."""

    def __init__(self, folder: str, events: Events, limit_gib: float = 8.0) -> None:
        self.folder = Path(folder)
        self._events = events
        self._limit = int(limit_gib * 2**30)
        self._used = 0
        self._full = False
        self._waiting: queue.Queue[tuple[str, str, Tensor, Sums] | None] = queue.Queue(maxsize=64)
        self._writer: threading.Thread | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._tidy()
        except OSError as error:
            raise UserError(f"cannot use {folder} as a block store: {error.strerror or error}") from None

    def path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.kv"

    def __contains__(self, key: str) -> bool:
        return self.path(key).exists()

    def load(self, key: str, layout: str) -> tuple[Tensor, Sums]:
        """A block and the fingerprint it must have. Raises `RefusedError`, and removes what is damaged."""
        path = self.path(key)
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata() or {}
                block = file.get_tensor("block")
            sums = np.array([int(number) for number in about["sums"].split(",")], np.int64)
            if about["seal"] != _seal(about["key"], about["layout"], sums):
                raise RefusedError("its fingerprint was damaged")
            if about["key"] != key:
                raise RefusedError("it is another block, or another model's")
            if about["layout"] != layout:
                raise RefusedError(f"its layout is {about['layout']}, not {layout}")
        except RefusedError as error:
            self.remove(key)
            raise RefusedError(str(error)) from None
        except FileNotFoundError:
            raise RefusedError("it is gone") from None
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            self.remove(key)
            raise RefusedError(f"cannot be read ({type(error).__name__})") from None
        with contextlib.suppress(OSError):
            os.utime(path)
        return block, sums

    def remove(self, key: str) -> None:
        with contextlib.suppress(OSError):
            self.path(key).unlink()

    def save(self, key: str, layout: str, block: Tensor, sums: Sums) -> None:
        """Queue a block to be written; when the disk cannot keep up, it is not stored."""
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_all, name="guard-store", daemon=True)
            self._writer.start()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait((key, layout, block, sums))

    def flush(self) -> None:
        """Wait until everything queued is written."""
        self._waiting.join()

    def write(self, key: str, layout: str, block: Tensor, sums: Sums) -> None:
        about = {"key": key, "layout": layout, "sums": ",".join(map(str, sums.tolist()))}
        data = save({"block": block.contiguous()}, metadata={**about, "seal": _seal(key, layout, sums)})
        path = self.path(key)
        aside: str | None = None
        try:
            path.parent.mkdir(exist_ok=True)
            handle, aside = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(aside).replace(path)
        except OSError as error:
            if aside is not None:
                with contextlib.suppress(OSError):
                    Path(aside).unlink()
            if not self._full:  # said once, not for every block
                self._events.say("store-failed", folder=str(self.folder), error=error.strerror or str(error))
            self._full = True
            return
        self._full = False
        self._events.counts.stored += 1
        self._used += len(data)
        if self._used > self._limit:
            self._tidy()

    def _write_all(self) -> None:
        while True:
            item = self._waiting.get()
            try:
                if item is not None and item[0] not in self:
                    self.write(*item)
            finally:
                self._waiting.task_done()

    def _tidy(self) -> None:
        """Remove what killed writers left, and the least recently used blocks beyond the limit."""
        now, found = time.time(), []
        for path in self.folder.glob("??/*"):
            with contextlib.suppress(OSError):
                state = path.stat()
                if path.suffix == ".tmp":
                    if now - state.st_mtime > _STALE:
                        path.unlink()
                elif path.suffix == ".kv":
                    found.append((state.st_mtime, state.st_size, path))
        self._used = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if self._used <= self._limit:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            self._used -= size


def _seal(key: str, layout: str, sums: Sums) -> str:
    return hashlib.blake2b(f"{key}\0{layout}\0".encode() + sums.tobytes(), digest_size=16).hexdigest()
