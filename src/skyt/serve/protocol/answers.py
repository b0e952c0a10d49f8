"""Answers in the protocol's form: canonical code in choices, what was done in `skyt`, events for streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from skyt.records import Sample
from skyt.records.store import USAGE
from skyt.runs.judging.assess import UNPLACED
from skyt.serve.protocol.codec import write_json

DONE = b"data: [DONE]\n\n"


def text_of(choice: Any, chat: bool) -> str | None:
    """A choice's text; None where it has none to judge (tool calls, refusals, odd shapes)."""
    if not isinstance(choice, dict):
        return None
    if not chat:
        text = choice.get("text")
        return text if isinstance(text, str) else None
    message = choice.get("message")
    if not isinstance(message, dict) or message.get("tool_calls") or message.get("function_call"):
        return None
    content = message.get("content")
    return content if isinstance(content, str) else None


def with_text(choice: Mapping[str, Any], text: str, chat: bool) -> dict[str, Any]:
    """The choice with other text. Log-probabilities of the old one no longer apply."""
    changed = dict(choice)
    if "logprobs" in changed:
        changed["logprobs"] = None
    if chat:
        changed["message"] = {**choice["message"], "content": text}
    else:
        changed["text"] = text
    return changed


def code_text(code: str, chat: bool, style: str) -> str:
    return f"```python\n{code}\n```" if chat and style == "fenced" else code


def canon_id(prompt_id: str, signature: str) -> str:
    return f"{prompt_id}@{signature[:12]}"


def sample_field(index: int, sample: Sample, replaced: bool) -> dict[str, Any]:
    return {
        "index": index,
        "run_id": sample["run_id"],
        "sample_id": sample["sample_id"],
        "signature_pre": sample["signature_pre"],
        "signature": sample["signature_post"],
        "d_pre": sample["d_pre"],
        "d_post": sample["d_post"],
        "evidence": sample["evidence"],
        "reason": sample["reason"],
        "steps": sample["repair_steps"],
        "compliant": sample["oracle_post"]["compliant"],
        "counterexample": sample["oracle_post"]["counterexample"],
        "replaced": replaced,
        "judged": sample.record.get("judged", True),
    }


def placed(answer: Mapping[str, Any], samples: Sequence[Sample]) -> dict[str, Any]:
    """The answer with the places that the samples of the last attempt got on record."""
    told = answer["body"]["skyt"]
    fields = []
    for field in told["samples"]:
        if field["run_id"] == UNPLACED:
            sample = samples[int(field["sample_id"])]
            field = {**field, "run_id": sample["run_id"], "sample_id": sample["sample_id"]}
        fields.append(field)
    return {**answer, "body": {**answer["body"], "skyt": {**told, "samples": fields}}}


def skyt_headers(field: Mapping[str, Any]) -> dict[str, str]:
    """The same for clients that hide unknown fields; one value per choice, comma-separated."""
    samples = field["samples"]

    def joined(name: str) -> str:
        return ",".join(str(sample[name]) for sample in samples)

    return {
        "x-skyt-contract": field["contract"],
        "x-skyt-policy": field["policy"],
        "x-skyt-outcome": field["outcome"],
        "x-skyt-attempts": str(field["attempts"]),
        "x-skyt-canon": field["canon_id"] or "none",
        "x-skyt-signature": joined("signature"),
        "x-skyt-d-pre": joined("d_pre"),
        "x-skyt-d-post": joined("d_post"),
        "x-skyt-evidence": joined("evidence"),
        "x-skyt-compliant": joined("compliant").lower(),
        "x-skyt-normalization-version": field["normalization_version"],
        "x-skyt-oracle-version": field["oracle_version"],
    }


def reported_usage(usage: Any) -> dict[str, float]:
    """Tokens, and the cost where the endpoint reports one."""
    reported = {name: usage.get(name) for name in USAGE} if isinstance(usage, dict) else {}
    return {
        name: value
        for name, value in reported.items()
        if isinstance(value, int if name != "cost" else int | float)
        and not isinstance(value, bool)
        and value >= 0
    }


def add_usage(total: dict[str, Any], more: Any) -> dict[str, Any]:
    """Usage of several upstream answers together: numbers add up, the rest is the latest."""
    if not isinstance(more, dict):
        return total
    result = dict(total)
    for name, value in more.items():
        old = result.get(name)
        if isinstance(value, int | float) and isinstance(old, int | float):
            result[name] = old + value
        elif isinstance(value, dict) and isinstance(old, dict):
            result[name] = add_usage(old, value)
        else:
            result[name] = value
    return result


def wants_usage(request: Mapping[str, Any]) -> bool:
    """Whether the end of a stream is to tell the usage."""
    options = request.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def events(body: Mapping[str, Any], chat: bool, include_usage: bool) -> Iterator[bytes]:
    """A whole answer as a stream: for each choice its role, text and end; then usage; then [DONE]."""
    envelope = {
        name: value for name, value in body.items() if name not in ("choices", "usage", "skyt", "object")
    }
    envelope["object"] = "chat.completion.chunk" if chat else "text_completion"
    usage = {"usage": None} if include_usage else {}

    def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
        return b"data: " + write_json({**envelope, "choices": choices, **usage, **more}) + b"\n\n"

    last = len(body["choices"]) - 1
    for position, choice in enumerate(body["choices"]):
        index, rest = choice.get("index", 0), {"logprobs": choice.get("logprobs"), "finish_reason": None}
        if chat:
            message = dict(choice["message"])
            content = message.pop("content", None)
            if isinstance(message.get("tool_calls"), list):
                message["tool_calls"] = [_indexed(n, call) for n, call in enumerate(message["tool_calls"])]
            yield event([{"index": index, "delta": {**message, "content": ""}, **rest, "logprobs": None}])
            if content:
                yield event([{"index": index, "delta": {"content": content}, **rest}])
        elif choice.get("text"):
            yield event([{"index": index, "text": choice["text"], **rest}])
        end: dict[str, Any] = {"delta": {}} if chat else {"text": ""}
        more = {"skyt": body["skyt"]} if position == last and "skyt" in body else {}
        ended = {"index": index, **end, "logprobs": None, "finish_reason": choice.get("finish_reason")}
        yield event([ended], **more)
    if include_usage:
        yield event([], usage=body.get("usage"))
    yield DONE


def _indexed(number: int, call: Any) -> Any:
    """Tool calls carry their place in streams."""
    return {"index": number, **call} if isinstance(call, dict) else call
