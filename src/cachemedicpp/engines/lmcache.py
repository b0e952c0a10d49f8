"""A serde for LMCache that stores a fingerprint with every chunk; a damaged chunk is a miss.

LMCache knows a serde by its name once this module is imported in the server's process, so it comes with a
launcher:

    python -m cachemedicpp.engines.lmcache server --l2-adapter '{…, "serde": {"type": "guard"}}' …

takes the arguments of `lmcache`. LMCache loads chunks in tasks; one damaged chunk makes its whole task a
miss.
"""

from __future__ import annotations

import logging
import sys
from importlib import metadata
from typing import Any

from lmcache.v1.distributed.serde.async_processor import AsyncSerdeProcessor
from lmcache.v1.distributed.serde.base import Deserializer, Serializer
from lmcache.v1.distributed.serde.factory import register_serde_factory

from cachemedicpp.engines.frame import HEADER, DamagedError, opened, seal

NAME = "guard"
VERSION = metadata.version("lmcache")
logger = logging.getLogger("cachemedicpp.lmcache")


def name_of(key: Any) -> str:
    """What tells one chunk from another: model, rank, group, the hash of all tokens up to its end, salt."""
    rank, group = f"{key.kv_rank:#010x}", f"{key.object_group_id:x}"
    return "@".join((key.model_name, rank, group, key.chunk_hash.hex(), key.cache_salt))


def facts_of(chunk: Any) -> dict[str, Any]:
    """What LMCache's keys leave out: shapes, types of numbers, and the version that packed them."""
    about = chunk.metadata
    shapes, dtypes = about.shapes or [about.shape], about.dtypes or [about.dtype]
    return {"lmcache": VERSION, "layout": [list(shape) for shape in shapes], "numbers": dtypes}


class GuardSerializer(Serializer):
    def serialize(self, src: Any, dst: Any, key: Any) -> int:
        content = memoryview(src.byte_array).cast("B")
        out = memoryview(dst.byte_array).cast("B")
        out[:HEADER] = seal(name_of(key), facts_of(src), content)
        out[HEADER : HEADER + len(content)] = content
        return HEADER + len(content)

    def estimate_serialized_size(self, layout_desc: Any) -> int:
        pairs = zip(layout_desc.shapes, layout_desc.dtypes, strict=True)
        return HEADER + sum(int(shape.numel()) * int(dtype.itemsize) for shape, dtype in pairs)


class GuardDeserializer(Deserializer):
    def deserialize(self, src: Any, dst: Any, key: Any) -> None:
        out = memoryview(dst.byte_array).cast("B")
        try:
            out[:] = opened(name_of(key), facts_of(dst), memoryview(src.byte_array).cast("B"), len(out))
        except DamagedError as error:
            logger.warning(
                "guard bad-chunk key=%s why=%s", key.chunk_hash.hex(), str(error).replace(" ", "-")
            )
            raise


def _create(kwargs: dict[str, Any]) -> AsyncSerdeProcessor:
    workers = int(kwargs.get("max_workers", 1))
    return AsyncSerdeProcessor(GuardSerializer(), GuardDeserializer(), max_workers=workers)


register_serde_factory(NAME, _create)


def main() -> None:
    from lmcache.cli.main import main as lmcache

    # run as a script, this module is `__main__`: nothing else is needed for the name to be known
    sys.argv[0] = "lmcache"
    lmcache()


if __name__ == "__main__":
    main()
