"""Loading language models: one that is known by name, any hub id, local directory or GGUF file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from homeostat.core.config import ConfigModel
from homeostat.core.errors import UserError
from homeostat.core.models.catalogue import CATALOGUE, DEFAULT_MODEL
from homeostat.core.models.convert import converted, quiet_transformers, sha256
from homeostat.core.models.fetching import located

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class ModelConfig(ConfigModel):
    """The `model:` section of a configuration."""

    name: str = Field(DEFAULT_MODEL, min_length=1, description="alias, hub id, local directory or GGUF file")
    revision: str | None = Field(None, description="hub revision: a branch, tag or commit")
    device: str = Field("auto", description="auto (CUDA if there is one, else the CPU), cpu, cuda, cuda:1, …")
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    attn_implementation: Literal["sdpa", "eager"] = "sdpa"

    def check(self) -> None:
        """Refuse a device that is not there and a model that cannot be found, without loading its weights."""
        resolve_device(self.device)
        folder, _ = _locate(self.name)
        with quiet_transformers():
            from transformers import AutoConfig

            local = folder is not None or not hub_reachable()
            try:
                AutoConfig.from_pretrained(
                    str(folder or self.name), revision=self.revision, local_files_only=local
                )
            except (OSError, ValueError, KeyError) as error:
                raise UserError(_cannot_load(self.name, error)) from error

    def load(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        return load_model(
            self.name,
            revision=self.revision,
            device=self.device,
            dtype=self.dtype,
            attn_implementation=self.attn_implementation,
        )


def load_model(
    name: str = DEFAULT_MODEL,
    *,
    revision: str | None = None,
    device: str = "auto",
    dtype: str = "float32",
    attn_implementation: str = "sdpa",
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a causal language model and its tokenizer, ready for inference.

    The tokenizer pads on the left and always has a padding token. Remote code is never run and pickled
    weights are never read.
    """
    where = resolve_device(device)
    folder, identity = _locate(name)
    local = folder is not None or not hub_reachable()
    with quiet_transformers():
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        source = str(folder or name)
        try:
            tokenizer = AutoTokenizer.from_pretrained(
                source, revision=revision, local_files_only=local, trust_remote_code=False
            )
            model: Any = AutoModelForCausalLM.from_pretrained(
                source,
                revision=revision,
                dtype=getattr(torch, dtype),
                attn_implementation=attn_implementation,
                local_files_only=local,
                trust_remote_code=False,
                use_safetensors=True,
            )
        except (OSError, ValueError, KeyError) as error:
            raise UserError(_cannot_load(name, error)) from error
    model.config.name_or_path = name
    model.config._commit_hash = identity or getattr(model.config, "_commit_hash", None)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "left"
    return model.to(where).eval(), tokenizer


def resolve_device(device: str) -> torch.device:
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        where = torch.device(device)
    except RuntimeError as error:
        raise UserError(f"model.device = {device!r}: not a torch device; use auto, cpu or cuda") from error
    if where.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"model.device = {device!r}: this machine has no CUDA device; use auto or cpu")
    return where


def _locate(name: str) -> tuple[Path | None, str | None]:
    """The folder to load from (None: leave it to the hub) and the identity of its weights, if known."""
    if name in CATALOGUE:
        return located(CATALOGUE[name]), CATALOGUE[name].sha256
    path = Path(name)
    if name.endswith(".gguf"):
        if not path.is_file():
            raise UserError(f"model {name!r}: no such GGUF file")
        return converted(path, path.stem), sha256(path)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise UserError(f"model {name!r}: the directory has no config.json; is it a transformers model?")
        return path, None
    return None, None


def offline() -> bool:
    """Whether the user asked for no network, by the hub's own variable."""
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}


def hub_reachable() -> bool:
    """One quick look: the hub's client would retry for most of a minute before it gives up."""
    if offline():
        return False
    import httpx
    from huggingface_hub import constants

    try:
        httpx.head(constants.ENDPOINT, timeout=5.0)
    except httpx.HTTPError:
        return False
    return True


def _cannot_load(name: str, error: Exception) -> str:
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    if Path(name).is_dir():
        return f"cannot load model {name!r}: {first}"
    state = "HF_HUB_OFFLINE is set" if offline() else "the model hub does not have it or cannot be reached"
    return (
        f"cannot load model {name!r}: it is not an alias ({', '.join(CATALOGUE)}), a local directory or a "
        f"GGUF file, and {state}; the default {DEFAULT_MODEL!r} needs no network ({first})"
    )
