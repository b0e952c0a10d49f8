"""The OpenAPI description of what we answer ourselves; other fields go to the upstream as they are."""

from __future__ import annotations

from functools import cache
from typing import Any

from homeostat import __version__

_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "number"}


@cache
def description() -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "skyt serve",
            "version": __version__,
            "description": "OpenAI-compatible endpoint that anchors generated code to one canon per prompt.",
        },
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _error(), "Chat": _chat(), "Completion": _completion(), "Skyt": _skyt()},
        },
        "security": [{}, {"key": []}],
        "paths": {
            "/v1/chat/completions": {"post": _generation("Chat", "Chat, anchored where a contract matches.")},
            "/v1/completions": {"post": _generation("Completion", "Completion, anchored likewise.")},
            "/v1/models": {
                "get": _get("The upstream's models and an alias skyt/<contract> for each contract.")
            },
            "/v1/models/skyt/{contract}": {
                "get": _get("One alias.", parameters=[{**_query("contract", True), "in": "path"}])
            },
            "/healthz": {"get": _get("Whether the database answers.", 503)},
            "/metrics": {"get": _get("Prometheus metrics.", kind="text/plain")},
            "/api/status": {"get": _get("Metrics of every contract.")},
            "/api/samples": {
                "get": _get("Latest samples of a contract.", parameters=[_query("contract", True), _limit()])
            },
            "/api/canon": {
                "get": _get(
                    "The canon of a contract: its code, what it rests on, and its history.",
                    parameters=[_query("contract", True)],
                )
            },
            "/api/canon/approve": {"post": _act("Put on record that the canon is agreed with.")},
            "/api/canon/re-anchor": {"post": _act("Archive the canon; the next compliant output is next.")},
            "/api/history": {
                "get": _get("Metric snapshots of a contract.", parameters=[_query("contract", True)])
            },
        },
    }


def _generation(schema: str, summary: str) -> dict[str, Any]:
    header = {"schema": _TEXT, "in": "header", "required": False}
    answers = {status: _refusal(text) for status, text in _ERRORS.items()}
    return {
        "summary": summary,
        "parameters": [
            {"name": "x-skyt-contract", "description": "contract id", **header},
            {"name": "idempotency-key", "description": "a retry gets the answer on record", **header},
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
        },
        "responses": {
            "200": {
                "description": "the upstream's answer; `skyt` where a contract matched",
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "properties": {"skyt": {"$ref": "#/components/schemas/Skyt"}},
                        }
                    },
                    "text/event-stream": {"schema": {}},
                },
            },
            **answers,
        },
    }


_ERRORS = {
    "400": "the body is not JSON, or a field we need is wrong",
    "401": "no valid key",
    "403": "the key is for other contracts",
    "404": "no such contract, model or path",
    "408": "the body did not arrive in time",
    "409": "the Idempotency-Key was used with another body, or the canon is refused",
    "413": "the body is too large",
    "421": "the Host header is not served here",
    "422": "enforce: no output complied; the counterexample is in the message",
    "429": "too many requests of this key in a minute, or waiting, here or at the upstream",
    "502": "the upstream failed",
    "503": "the database cannot be written",
    "504": "the upstream did not answer in time",
}


def _get(
    summary: str, *more: int, kind: str = "application/json", parameters: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    errors = {
        status: _refusal(text) for status, text in _ERRORS.items() if status in "400 401 403 404 421 429"
    }
    unavailable = {str(status): {"description": "unavailable"} for status in more}
    schema = _TEXT if kind == "text/plain" else {"type": "object"}
    return {
        "summary": summary,
        "parameters": parameters or [],
        "responses": {
            "200": {"description": "ok", "content": {kind: {"schema": schema}}},
            **errors,
            **unavailable,
        },
    }


def _act(summary: str) -> dict[str, Any]:
    """An act on a canon, for keys that may manage canons."""
    asked = {
        "type": "object",
        "required": ["contract", "why"],
        "properties": {
            "contract": _TEXT,
            "canon_signature": _TEXT,
            "why": {"type": "string", "minLength": 1, "maxLength": 1000},
        },
    }
    codes = ("400", "401", "403", "404", "409", "413", "421", "429")
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": asked}}},
        "responses": {
            "200": {"description": "done", "content": {"application/json": {"schema": {"type": "object"}}}},
            **{code: _refusal(_ERRORS[code]) for code in codes},
        },
    }


def _refusal(text: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {"description": text, "content": content}


def _query(name: str, required: bool) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "schema": _TEXT}


def _limit() -> dict[str, Any]:
    return {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 200}}


def _error() -> dict[str, Any]:
    field = {"type": ["string", "null"]}
    return {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message"],
                "properties": {"message": _TEXT, "type": field, "param": field, "code": field},
            }
        },
    }


def _chat() -> dict[str, Any]:
    message = {
        "type": "object",
        "required": ["role", "content"],
        "properties": {"role": {"enum": ["system", "user", "assistant"]}, "content": _TEXT},
    }
    return _request({"messages": {"type": "array", "minItems": 1, "items": message}})


def _completion() -> dict[str, Any]:
    return _request({"prompt": _TEXT})


def _request(what: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["model", *what],
        "properties": {
            "model": {"type": "string", "description": "an upstream model, or skyt/<contract>"},
            **what,
            "n": {"type": "integer", "minimum": 1, "maximum": 32},
            "temperature": {**_NUMBER, "minimum": 0, "maximum": 2},
            "seed": {"type": "integer"},
            "stream": {"type": "boolean"},
            "metadata": {"type": "object", "properties": {"skyt_contract": _TEXT}},
        },
    }


def _skyt() -> dict[str, Any]:
    sample = {
        "type": "object",
        "required": ["index", "sample_id", "signature", "d_pre", "d_post", "evidence", "replaced"],
        "properties": {
            "index": {"type": "integer"},
            "run_id": _TEXT,
            "sample_id": _TEXT,
            "signature": _TEXT,
            "d_pre": _NUMBER,
            "d_post": _NUMBER,
            "evidence": {"enum": ["identical", "rewritten", "equivalent", "none"]},
            "replaced": {"type": "boolean"},
            "judged": {"type": "boolean"},
        },
    }
    nullable = {"type": ["string", "null"]}
    return {
        "type": "object",
        "required": ["contract", "policy", "canon_id", "samples"],
        "properties": {
            "contract": _TEXT,
            "policy": {"enum": ["observe", "repair", "enforce"]},
            "canon_id": nullable,
            "canon_signature": nullable,
            "normalization_version": _TEXT,
            "oracle_version": _TEXT,
            "samples": {"type": "array", "items": sample},
        },
    }
