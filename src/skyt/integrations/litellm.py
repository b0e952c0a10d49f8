"""A provider for LiteLLM (`pip install litellm`): `skyt/MODEL` is MODEL with its answers anchored.

    from skyt.integrations.litellm import register

    register()
    litellm.completion("skyt/openai/gpt-4o-mini", messages, contract="gcd")

In a proxy's configuration: `model: skyt/openai/gpt-4o-mini`, `contract: gcd` below `litellm_params`, and
`custom_provider_map: [{provider: skyt, custom_handler: skyt.integrations.litellm.provider}]`. Each choice's
message is the code to use; `provider_specific_fields["skyt"]` says what was done.
"""

from __future__ import annotations

import asyncio
from typing import Any

import litellm
from litellm import CustomLLM
from litellm.utils import custom_llm_setup

from skyt.integrations import anchor, needed, scores

_OURS = ("contract", "store", "evidence")


class Provider(CustomLLM):
    def completion(self, model: str, messages: list[Any], *_: Any, **given: Any) -> Any:
        ours, theirs = _split(given)
        answer = litellm.completion(model, messages, **theirs)
        return _anchored(answer, ours)

    async def acompletion(self, model: str, messages: list[Any], *_: Any, **given: Any) -> Any:
        ours, theirs = _split(given)
        answer = await litellm.acompletion(model, messages, **theirs)
        return await asyncio.to_thread(_anchored, answer, ours)


provider = Provider()


def register() -> None:
    """Make `skyt/…` known to LiteLLM in this process."""
    litellm.custom_provider_map = [
        *(one for one in litellm.custom_provider_map if one["provider"] != "skyt"),
        {"provider": "skyt", "custom_handler": provider},
    ]
    custom_llm_setup()


def _split(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is for the anchor, and what the wrapped model gets."""
    options = given.get("optional_params") or {}
    ours = {name: options[name] for name in _OURS if name in options}
    ours["contract"] = needed(ours.get("contract"), "contract=… beside the model")
    theirs = {name: value for name, value in options.items() if name not in ours and name != "stream"}
    passed = {name: given[name] for name in ("api_base", "api_key", "timeout") if given.get(name)}
    return ours, {**theirs, **passed}


def _anchored(answer: Any, ours: dict[str, Any]) -> Any:
    for choice in answer.choices:
        found = anchor(**ours).anchor(choice.message.content or "")
        choice.message.content = found.code
        about = {**scores(found), "evidence": found.record["evidence"], "reason": found.record["reason"]}
        choice.message.provider_specific_fields = {"skyt": about}
    return answer
