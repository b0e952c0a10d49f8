"""An assertion and a provider for promptfoo, in a file beside its configuration:

    from skyt.integrations.promptfoo import call_api, get_assert      # skyt_promptfoo.py

    providers:
      - id: file://skyt_promptfoo.py           # an endpoint's answers, repaired
        config: {contract: gcd, base_url: http://127.0.0.1:8000/v1, model: my-model}
    tests:
      - assert:
          - {type: python, value: file://skyt_promptfoo.py, config: {contract: gcd, expect: canon}}

`expect` is `contract` (the default: the repaired answer passes), `canon` (it equals the canon) or `same`
(the answer equalled the canon as it was generated).
"""

from __future__ import annotations

from typing import Any

from homeostat.core.errors import UserError, nearest
from skyt.integrations import anchor, needed, scores

EXPECT = {"contract": "compliant", "canon": "equals_canon_after_repair", "same": "equals_canon"}


def get_assert(output: str, context: dict[str, Any]) -> dict[str, Any]:
    """promptfoo's assertion: passes, with named scores and the reason."""
    config = context.get("config") or {}
    expect = config.get("expect", "contract")
    if expect not in EXPECT:
        raise UserError(f"expect = {expect!r}: {nearest(expect, EXPECT)}")
    found = _anchor(config).anchor(output)
    named = scores(found)
    return {
        "pass": named[EXPECT[expect]] == 1.0,
        "score": 1.0 - float(found.record["d_post"]),
        "reason": found.record["reason"],
        "namedScores": named,
    }


def call_api(prompt: str, options: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """promptfoo's provider: asks an OpenAI-compatible endpoint and hands on the anchored code."""
    from openai import OpenAI, OpenAIError

    config = options.get("config") or {}
    try:
        client = OpenAI(base_url=config.get("base_url"), api_key=config.get("api_key", "none"))
        messages: list[Any] = [{"role": "user", "content": prompt}]
        answer = client.chat.completions.create(model=str(config.get("model", "")), messages=messages)
    except OpenAIError as error:
        return {"error": f"{config.get('base_url')}: {error}"}
    found = _anchor(config).anchor(answer.choices[0].message.content or "")
    usage = answer.usage
    return {
        "output": found.code,
        "metadata": {"raw": found.raw, "evidence": found.record["evidence"]},
        "tokenUsage": {
            "prompt": usage.prompt_tokens,
            "completion": usage.completion_tokens,
            "total": usage.total_tokens,
        }
        if usage
        else {},
    }


def _anchor(config: dict[str, Any]) -> Any:
    name = needed(config.get("contract"), "config.contract")
    return anchor(name, config.get("store"), config.get("evidence", "rewritten"))
