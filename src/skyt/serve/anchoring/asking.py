"""A request that falls under a contract, with what we need to know of it checked before anything is sent."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skyt.contracts.contract import Contract
from skyt.serve.anchoring.matching import ALIAS, Match, asks
from skyt.serve.config import Policy, ServeConfig
from skyt.serve.database.keys import Key
from skyt.serve.protocol.codec import write_json
from skyt.serve.protocol.errors import ApiError
from skyt.serve.upstream.endpoint import Call

# What a request of a key for certain contracts may say beside its question: nothing that a model reads.
_BESIDE = frozenset({
    "model", "messages", "prompt", "n", "seed", "temperature", "top_p", "max_tokens", "max_completion_tokens",
    "stream", "stream_options", "stop", "frequency_penalty", "presence_penalty", "metadata", "user",
})  # fmt: skip
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


@dataclass(frozen=True)
class Asked:
    """A request that matched a contract."""

    match: Match
    policy: Policy
    path: str  # /chat/completions or /completions
    body: Mapping[str, Any]
    headers: Mapping[str, str]  # for the upstream
    key: Key
    idempotency_key: str | None
    request_id: str
    began: float  # on time.monotonic()
    call: Call
    model: str
    temperature: float
    n: int

    @property
    def chat(self) -> bool:
        return self.path == "/chat/completions"

    @property
    def body_sha256(self) -> str:
        return hashlib.sha256(self.path.encode() + b"\n" + write_json(self.body)).hexdigest()

    @property
    def idempotency(self) -> tuple[str, str, str] | None:
        if self.idempotency_key is None:
            return None
        return self.key.id, self.idempotency_key, self.body_sha256


def ask(
    config: ServeConfig,
    default_model: str | None,
    match: Match,
    path: str,
    body: Mapping[str, Any],
    headers: Mapping[str, str],
    key: Key,
    request_id: str,
    began: float,
) -> Asked:
    """Check a request; what is not ours to judge is for the upstream."""
    _check_question(path, body)
    if not key.unrestricted:
        _check_restricted(match.contract, body, default_model)
    deadline = time.monotonic() + config.limits.request_timeout_s
    return Asked(
        match=match,
        policy=config.policy_of(match.contract.id),
        path=path,
        body=body,
        headers=headers,
        key=key,
        idempotency_key=_idempotency_key(headers.get("idempotency-key")),
        request_id=request_id,
        began=began,
        call=Call(deadline),
        model=_model(body.get("model"), default_model),
        temperature=_temperature(body.get("temperature")),
        n=_n(body.get("n"), config.limits.max_n),
    )


def _check_question(path: str, body: Mapping[str, Any]) -> None:
    """That there is a question at all, in the protocol's form."""
    if path == "/completions":
        prompt = body.get("prompt")
        texts = prompt if isinstance(prompt, list) else [prompt]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ApiError(400, "prompt must be a text or a list of texts", param="prompt")
        return
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "messages must be a list with at least one message", param="messages")
    for at, message in enumerate(messages):
        problem = _problem(message)
        if problem is not None:
            raise ApiError(400, f"messages[{at}] {problem}", param=f"messages[{at}]")


def _check_restricted(contract: Contract, body: Mapping[str, Any], default_model: str | None) -> None:
    """A key for certain contracts asks what they ask, of the service's model, whatever headers say."""
    model = body.get("model")
    alone = len(body.get("messages") or [None]) == 1
    problem = None
    if not alone or not asks(contract, body):
        problem = f"the prompt must be that of contract {contract.id!r}, alone"
    elif model != default_model and model != f"{ALIAS}{contract.id}":
        problem = f"the model must be {ALIAS}{contract.id}" + (
            f" or {default_model}" if default_model else ""
        )
    elif others := sorted(name[:80] for name in body if name not in _BESIDE):
        problem = f"leave out {', '.join(others[:5])}"
    if problem is not None:
        raise ApiError(
            403,
            f"this key is for certain contracts: {problem}",
            type="permission_error",
            code="contracts_only",
        )


def _problem(message: Any) -> str | None:
    if not isinstance(message, dict):
        return "is not an object"
    if message.get("role") not in _ROLES:
        return f"needs a role: one of {', '.join(_ROLES)}"
    content = message.get("content")
    if isinstance(content, str):
        return None
    if isinstance(content, list) and content:
        whole = all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in content)
        return None if whole else "has a part of content without a type"
    if content is None and message["role"] == "assistant":
        return None  # a message of tool calls
    return "needs content: a text, or a list of parts"


def _model(given: Any, default: str | None) -> str:
    if isinstance(given, str) and given.startswith(ALIAS):
        if default is None:
            raise ApiError(400, "aliases skyt/<contract> need `upstream.model` in the configuration")
        return default
    if not isinstance(given, str) or not given.isprintable() or not 0 < len(given) <= 200:
        raise ApiError(400, "model must be a name of up to 200 printable characters", param="model")
    return given


def _temperature(given: Any) -> float:
    if given is None:
        return 1.0  # the protocol's default
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 10:
        raise ApiError(400, "temperature must be a number from 0 to 2", param="temperature")
    return float(given)


def _n(given: Any, most: int) -> int:
    if given is None:
        return 1
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= most:
        raise ApiError(400, f"n must be a whole number from 1 to {most}", param="n")
    return given


def _idempotency_key(given: str | None) -> str | None:
    if given is not None and not (given.isprintable() and given.isascii() and 0 < len(given) <= 200):
        raise ApiError(400, "Idempotency-Key must be up to 200 printable ASCII characters")
    return given
