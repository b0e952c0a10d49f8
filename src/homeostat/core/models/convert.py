"""GGUF files become safetensors, once, in the user's cache directory.

Parsing GGUF takes half a minute or more, loading safetensors a second. Conversion holds the weights once, in
the type they are stored in, and one tensor beside them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import filelock
import platformdirs

from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.progress import progress

_CONVERSION = 1  # increase this when converted files would differ, so that old ones are not used
_MANIFEST = "conversion.json"


def cache_dir() -> Path:
    """Where models are kept: `$HOMEOSTAT_CACHE`, or the platform's cache directory."""
    chosen = os.environ.get("HOMEOSTAT_CACHE")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("homeostat"))


def folder_for(name: str, digest: str) -> Path:
    """Where the converted form of a GGUF file with this SHA-256 is kept."""
    return cache_dir() / "models" / f"{name}-{digest[:12]}-v{_CONVERSION}"


def converted(gguf: Path, name: str, dtype: str = "float32", digest: str | None = None) -> Path:
    """The safetensors folder made from a GGUF file; converts it if necessary.

    Safe when several processes start at once: one converts under a lock, the others wait and use its result.
    A folder that does not match its manifest is made again. With `digest`, another file is refused.
    """
    found = sha256(gguf)
    if digest is not None and found != digest:
        raise UserError(f"{gguf} is not the file of {name}: its SHA-256 is {found}, not {digest}")
    folder = folder_for(name, found)
    if not intact(folder):
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(f"{folder}.lock"):
                if not intact(folder):
                    with progress(f"converting {gguf.name} to safetensors, once, in {folder}"):
                        _convert(gguf, folder, dtype)
        except OSError as error:
            raise UserError(f"cannot convert {gguf} into {folder}: {error}") from error
    return folder


def intact(folder: Path) -> bool:
    """Whether a converted folder holds what its manifest says."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        sizes = all((folder / name).stat().st_size == size for name, size in manifest["files"].items())
        return sizes and sha256(folder / "model.safetensors") == manifest["sha256"]
    except (OSError, ValueError, KeyError):
        return False


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _convert(gguf: Path, folder: Path, dtype: str) -> None:
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        with quiet_transformers():
            _write_tokenizer(gguf, aside)
            _write_weights(gguf, aside, dtype)
        files = {file.name: file.stat().st_size for file in sorted(aside.iterdir())}
        manifest = {"source": gguf.name, "files": files, "sha256": sha256(aside / "model.safetensors")}
        atomic.write_json(aside / _MANIFEST, manifest)
        shutil.rmtree(folder, ignore_errors=True)
        aside.chmod(0o755)
        aside.replace(folder)
        atomic.sync_directory(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_weights(gguf: Path, folder: Path, dtype: str) -> None:
    """Through an empty model of the same configuration, which takes over the tensors without a copy."""
    import torch
    from safetensors import safe_open
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    kind = getattr(torch, dtype)
    config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=kind)  # type: ignore[no-untyped-call]
    read: Any = load_gguf_checkpoint
    with contextlib.redirect_stderr(io.StringIO()):  # a bar of its own, which cannot be turned off
        tensors = read(str(gguf), return_tensors=True, model_to_load=model, torch_dtype=kind)["tensors"]
    unexpected = model.load_state_dict(tensors, strict=False, assign=True).unexpected_keys
    model.tie_weights()
    if left := [name for name, weight in model.named_parameters() if weight.is_meta]:
        raise UserError(f"converting {gguf}: it has no {left[0]} ({len(left)} of its tensors are missing)")
    if unexpected:
        raise UserError(f"converting {gguf}: the model has no place for its tensor {unexpected[0]}")
    model.generation_config = GenerationConfig.from_model_config(config)
    model.save_pretrained(folder)
    with safe_open(folder / "model.safetensors", framework="pt") as stored:
        for name in stored.keys():  # noqa: SIM118 - not a dictionary
            if not torch.equal(stored.get_tensor(name), tensors[name]):
                raise UserError(f"converting {gguf}: tensor {name} did not survive being written to {folder}")


def _write_tokenizer(gguf: Path, folder: Path) -> None:
    """With the first token that the file asks for (`<bos>`): the tokenizer made from a GGUF file omits it."""
    from gguf import GGUFReader
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    wanted = GGUFReader(gguf).get_field("tokenizer.ggml.add_bos_token")
    first = tokenizer.bos_token_id
    if wanted is not None and wanted.contents() and tokenizer("a")["input_ids"][0] != first:
        bos = tokenizer.bos_token
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B:1", special_tokens=[(bos, first)]
        )
    tokenizer.save_pretrained(folder)


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
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
