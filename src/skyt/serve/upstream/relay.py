"""Passing a stream of events on: whole events only, and a clear error event where the upstream breaks off."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import aiohttp

from skyt.serve.protocol.codec import write_json
from skyt.serve.protocol.errors import upstream_error
from skyt.serve.telemetry import log

_BOUNDARY = re.compile(rb"\r\n\r\n|\n\n|\r\r")


async def relay(chunks: AsyncIterator[bytes], request_id: str) -> AsyncIterator[bytes]:
    """The upstream's bytes, cut at the ends of events.

    A stream that breaks off ends with an `error` event, which OpenAI's clients raise as an error: half of an
    event before it would hide it.
    """
    held = b""
    try:
        async for chunk in chunks:
            held += chunk
            end = 0
            for boundary in _BOUNDARY.finditer(held):
                end = boundary.end()
            if end:
                yield held[:end]
                held = held[end:]
    except (aiohttp.ClientError, TimeoutError) as error:
        log("upstream stream broke off", request_id=request_id, error=type(error).__name__)
        failure = upstream_error(f"the upstream's stream broke off ({type(error).__name__})")
        yield b"data: " + write_json(failure.body) + b"\n\n"
        return
    if held:
        yield held
