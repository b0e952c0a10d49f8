"""The signature of a program: SHA-256 over its normalised text in UTF-8."""

from __future__ import annotations

import hashlib


def signature(normalised: str) -> str:
    """64 hexadecimal digits, the same for the same text everywhere.

    A lone surrogate, which strict UTF-8 cannot encode and a model's JSON may contain, is encoded as its three
    bytes; every other text is plain UTF-8.
    """
    return hashlib.sha256(normalised.encode("utf-8", "surrogatepass")).hexdigest()
