"""Which contract a request falls under: by header, by metadata, by model alias, or by its prompt's text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from homeostat.core.errors import nearest
from skyt.contracts.contract import Contract
from skyt.serve.protocol.errors import ApiError

HEADER = "x-skyt-contract"
METADATA = "skyt_contract"
ALIAS = "skyt/"


@dataclass(frozen=True)
class Match:
    """A contract and how the request named it."""

    contract: Contract
    by: str


class Matcher:
    """All contracts by id and by prompt text."""

    def __init__(self, contracts: Mapping[str, Contract]) -> None:
        self.contracts = dict(contracts)
        self._prompts = {_plain(contract.prompt): contract for contract in contracts.values()}

    def match(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> Match | None:
        """The contract of a request, or None for one that passes through. An unknown id is an error."""
        if HEADER in headers:
            return Match(self.named(headers[HEADER], f"header {HEADER}"), "header")
        metadata = body.get("metadata")
        if isinstance(metadata, dict) and METADATA in metadata:
            return Match(self.named(metadata[METADATA], f"metadata.{METADATA}"), "metadata")
        model = body.get("model")
        if isinstance(model, str) and model.startswith(ALIAS):
            return Match(self.named(model.removeprefix(ALIAS), "model"), "model")
        text = prompt_text(body)
        contract = None if text is None else self._prompts.get(_plain(text))
        return None if contract is None else Match(contract, "prompt")

    def named(self, name: Any, where: str) -> Contract:
        """The contract of that id; `where` is what the caller wrote it in."""
        if isinstance(name, str) and name in self.contracts:
            return self.contracts[name]
        hint = nearest(name[:80], self.contracts) if isinstance(name, str) else "a contract id is a string"
        shown = repr(name)[:90]
        raise ApiError(
            404, f"{where}: no contract {shown}; {hint}", code="contract_not_found", param=where.split(" ")[0]
        )


def asks(contract: Contract, body: Mapping[str, Any]) -> bool:
    """Whether a request asks what the contract asks."""
    text = prompt_text(body)
    return text is not None and _plain(text) == _plain(contract.prompt)


def prompt_text(body: Mapping[str, Any]) -> str | None:
    """What is asked, where that is one question: a prompt, or a user's message after any system messages."""
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return prompt
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return None
    asked = [message for message in messages if message.get("role") not in ("system", "developer")]
    if len(asked) != 1 or asked[0].get("role") != "user":
        return None
    content = asked[0].get("content")
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        return "".join(map(str, parts)) if all(isinstance(part, str) for part in parts) else None
    return content if isinstance(content, str) else None


def _plain(text: str) -> str:
    return " ".join(text.split())
