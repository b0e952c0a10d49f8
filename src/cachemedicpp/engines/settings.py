"""What a user may set about the guard in an engine, and what the guard refuses to run on.

Settings come from the engine's own configuration (`kv_connector_extra_config`), so they are checked here
and not by pydantic: an engine's environment may have another version of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from homeostat.core.errors import UserError, nearest

MODES = ("paged", "store", "wrap")


@dataclass(frozen=True)
class GuardSettings:
    """`kv_connector_extra_config` of the guard."""

    mode: str = "paged"
    every: int = 16  # steps between verifications while requests are decoding; 0: at prefix hits only
    budget: int = 64  # blocks verified at such a moment, at most
    idle_after: float = 0.0  # seconds without a step after which blocks at rest are verified; 0: never
    store: str = ""  # mode store: the folder
    store_limit: float = 8.0  # mode store: GiB that the folder may hold
    model_id: str = ""  # mode store: names the weights, where they are not in a local folder
    inner: Mapping[str, Any] | None = None  # mode wrap: the wrapped connector's kv_connector, module path, …
    audit: str = ""  # a folder with an operator G or the model: what it judges blocks without fingerprint by
    audit_hits: bool = False  # judge this engine's own blocks too, once each, when they are hit
    plausible: str = ""  # a folder with an operator G calibrated for the model
    plausible_every: int = 1  # of the blocks that are written, one in this many is judged
    untried: bool = False  # start where the guard was never tried
    log: str = ""  # a file to which every event is appended as a line of JSON

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> GuardSettings:
        names = {f.name for f in fields(cls)}
        for name in given:
            if name not in names:
                raise UserError(f"kv_connector_extra_config has {name!r}: {nearest(name, names)}")
        for f in fields(cls):
            if f.name in given and not _fits(given[f.name], f.type):
                raise UserError(f"kv_connector_extra_config.{f.name} = {given[f.name]!r}: must be {f.type}")
        return cls(**given)._checked()

    def _checked(self) -> GuardSettings:
        if self.mode not in MODES:
            raise UserError(f"kv_connector_extra_config.mode = {self.mode!r}: {nearest(self.mode, MODES)}")
        for name in ("every", "budget", "idle_after", "store_limit"):
            if getattr(self, name) < 0:
                raise UserError(
                    f"kv_connector_extra_config.{name} = {getattr(self, name)}: must not be negative"
                )
        if self.plausible_every < 1:
            raise UserError(
                f"kv_connector_extra_config.plausible_every = {self.plausible_every}: must be at least 1"
            )
        if (self.mode == "store") != bool(self.store):
            raise UserError(
                "kv_connector_extra_config.store (a folder) goes with mode 'store', and only with it"
            )
        if (self.mode == "wrap") != bool(self.inner):
            raise UserError(
                "kv_connector_extra_config.inner (a connector) goes with mode 'wrap', and only with it"
            )
        for name in ("plausible", "audit"):
            folder = getattr(self, name)
            if folder and not Path(folder).is_dir():
                raise UserError(
                    f"kv_connector_extra_config.{name} = {folder!r}: no such folder; make one with "
                    "`homeostat cache calibrate MODEL --out FOLDER`"
                )
        if self.audit_hits and not self.audit:
            raise UserError("kv_connector_extra_config.audit_hits needs audit, a folder")
        return self


def _fits(value: Any, kind: Any) -> bool:
    if kind == "float":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "bool":
        return isinstance(value, bool)
    return isinstance(value, str) if kind == "str" else value is None or isinstance(value, Mapping)


@dataclass(frozen=True)
class EngineFacts:
    """What the guard must know of an engine before it starts in it."""

    failure_policy: str
    cache_groups: int
    block_size: int
    cache_dtype: str
    device: str
    runner: str
    async_scheduling: bool
    speculative: bool
    ranks: int  # tensor × pipeline × context parallel
    attention: str  # the kind of cache: "full", or another
    step_tokens: int  # max_num_batched_tokens
    step_requests: int  # max_num_seqs
    chunk: int  # long_prefill_token_threshold; 0: none


TRIED_RUNNERS = ("v1",)


def refuse(facts: EngineFacts, settings: GuardSettings) -> None:
    """Raise `UserError`, one clear line, where the guard cannot do what it says."""
    if facts.failure_policy != "recompute":
        raise UserError(
            f"kv_load_failure_policy = {facts.failure_policy!r}: the guard needs 'recompute', or damaged "
            "blocks would fail their requests"
        )
    if facts.cache_groups != 1:
        raise UserError(
            f"this model has {facts.cache_groups} KV cache groups (a hybrid model, or sliding windows beside "
            "full attention): vLLM can recompute blocks of a single group only, so the guard does not start; "
            "disable_hybrid_kv_cache_manager may help where all layers are attention"
        )
    if facts.attention != "full":
        raise UserError(f"this model's cache is {facts.attention}: the guard knows plain full attention only")
    if facts.speculative:
        raise UserError(
            "speculative decoding: drafts are written after the guard has looked; switch one of them off"
        )
    if facts.async_scheduling:
        raise UserError(
            "async_scheduling = True: the next step is scheduled before a bad block can be reported; set "
            "async_scheduling=False (--no-async-scheduling)"
        )
    if 0 < facts.chunk < facts.block_size:
        raise UserError(
            f"long_prefill_token_threshold = {facts.chunk} is less than a block ({facts.block_size}): a "
            "damaged block might never be rewritten in one step; set it to at least a block, or to 0"
        )
    if facts.step_tokens < facts.step_requests + facts.block_size:
        raise UserError(
            f"max_num_batched_tokens = {facts.step_tokens} leaves no room for a block beside max_num_seqs = "
            f"{facts.step_requests} decoding requests: raise it to {facts.step_requests + facts.block_size}"
        )
    if settings.untried:
        return
    hint = "it may work: try it with kv_connector_extra_config.untried = true, and measure"
    if facts.device != "cpu":
        raise UserError(f"device {facts.device!r}: the guard was tried on CPU only; {hint}")
    if facts.runner not in TRIED_RUNNERS:
        raise UserError(f"model runner {facts.runner!r}: the guard was tried with the first one only; {hint}")
    if facts.ranks != 1:
        raise UserError(f"{facts.ranks} parallel ranks: the guard was tried with one only; {hint}")
