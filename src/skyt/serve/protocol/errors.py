"""Errors as OpenAI's clients expect them: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """A request that gets an error answer."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        error = {"message": message, "type": type, "param": param, "code": code}
        self.body: dict[str, Any] = {"error": error, **(extra or {})}


def busy(what: str, retry_after: int = 1) -> ApiError:
    return ApiError(
        429,
        f"{what}; try again",
        type="overloaded_error",
        code="queue_full",
        headers={"retry-after": str(retry_after)},
    )


def upstream_error(message: str, status: int = 502) -> ApiError:
    return ApiError(status, message, type="upstream_error", code="upstream_failed")
