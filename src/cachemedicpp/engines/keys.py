"""Names of blocks by their content: a chain of hashes over tokens, bound to the model and its cache.

An engine's own block hashes may be salted anew in every process, so these are ours. A request whose cache
depends on more than its tokens (adapters, images, embeddings) gets no keys: nothing of it is stored or
looked up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from homeostat.core.errors import UserError

_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")


def chain(tokens: Sequence[int], size: int, root: str, salt: str = "") -> tuple[str, ...]:
    """A key for every full block of `tokens`; `root` names model and cache, `salt` separates users."""
    previous = hashlib.blake2b(f"{root}\0{salt}".encode(), digest_size=20).digest()
    keys = []
    for first in range(0, len(tokens) - size + 1, size):
        words = b"".join(int(token).to_bytes(8, "little") for token in tokens[first : first + size])
        previous = hashlib.blake2b(previous + words, digest_size=20).digest()
        keys.append(previous.hex())
    return tuple(keys)


def model_identity(model: str, given: str = "") -> str:
    """Which weights these are: what the user says, or a hash of a local file, or of a folder's files."""
    if given:
        return f"given:{given}"
    folder = Path(model)
    if not folder.exists():
        raise UserError(
            f"model {model!r} is no local file or folder, so its weights cannot be told apart: name "
            "them (a revision) in kv_connector_extra_config.model_id or --model-id, or use local files"
        )
    parts = {path for pattern in (*_WEIGHTS, "config.json") for path in folder.glob(pattern)}
    files = sorted(parts) if folder.is_dir() else [folder]
    whole = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            whole.update(f"{path.name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\0".encode())
    return f"sha256:{whole.hexdigest()}"
