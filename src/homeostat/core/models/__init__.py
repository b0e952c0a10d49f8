"""Language models: which ones are known by name, fetching them, converting GGUF files, loading, identity.

A model is named by an alias (`catalogue`), a hub id, a local folder or a GGUF file. Hands out `load_model`
and the `model:` section `ModelConfig`. Nothing here imports torch or transformers before it is called.
"""

from homeostat.core.models.catalogue import CATALOGUE, DEFAULT_MODEL, Known, known
from homeostat.core.models.convert import cache_dir, converted
from homeostat.core.models.fetching import fetch, located, ready
from homeostat.core.models.identity import fingerprint, model_identity
from homeostat.core.models.loading import (
    ModelConfig,
    hub_reachable,
    load_model,
    offline,
    resolve_device,
)

__all__ = [
    "CATALOGUE",
    "DEFAULT_MODEL",
    "Known",
    "ModelConfig",
    "cache_dir",
    "converted",
    "fetch",
    "fingerprint",
    "hub_reachable",
    "known",
    "load_model",
    "located",
    "model_identity",
    "offline",
    "ready",
    "resolve_device",
]
