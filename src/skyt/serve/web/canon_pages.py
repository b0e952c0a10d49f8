"""The canon on the page: its code and its history, and acts on it for keys that may manage canons.

An act needs a key made with `keys add --manage`, sent in the Authorization header: a page of another origin
cannot send that, so no click elsewhere can change a canon.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skyt.canon import Canon, Event, contract_differences
from skyt.contracts.contract import Contract
from skyt.serve.auth import require_managing
from skyt.serve.database.keys import Key
from skyt.serve.protocol.errors import ApiError
from skyt.serve.service import Service
from skyt.serve.telemetry import log
from skyt.serve.web.edge import admit, json_response, parsed, read_body
from skyt.serve.web.pages import NO_STORE, contract_of

_BODY_BYTES = 16_384
_WHY_CHARS = 1_000


class _Asked(NamedTuple):
    """Who wants to act on which canon, why, and which canon they saw."""

    key: Key
    contract: Contract
    why: str
    seen: str | None


def routes(service: Service) -> list[Route]:
    pages = CanonPages(service)
    return [
        Route("/api/canon", pages.canon),
        Route("/api/canon/approve", pages.approve, methods=["POST"]),
        Route("/api/canon/re-anchor", pages.re_anchor, methods=["POST"]),
    ]


class CanonPages:
    """What is told of a canon, and what may be done with it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._store = service.store

    async def canon(self, request: Request) -> Response:
        """The canon of one contract, what its contract of today has against it, and its history."""
        key = await self._service.guard.check(request.headers)
        contract = contract_of(self._service, key, request.query_params.get("contract"))
        told = await asyncio.to_thread(self._read, contract)
        return json_response(200, {**told, "may_manage": key.manages}, NO_STORE)

    async def approve(self, request: Request) -> Response:
        """Put on record that someone looked at the canon and agrees with it."""
        asked = await self._asked(request)
        key, contract = asked.key, asked.contract
        event = await asyncio.to_thread(self._approve, asked)
        log("canon approved", contract=contract.id, key=key.name, canon=event.canon_signature)
        return json_response(200, {"event": event.to_json()})

    async def re_anchor(self, request: Request) -> Response:
        """Archive the canon; the next compliant output becomes the new one."""
        asked = await self._asked(request)
        key, contract = asked.key, asked.contract
        await asyncio.to_thread(self._canon, asked)
        if not await asyncio.to_thread(self._store.archive, contract.id, key.name, asked.why):
            raise ApiError(409, f"{contract.id!r} has no canon", code="no_canon")
        log("canon archived", contract=contract.id, key=key.name)
        return json_response(200, {"archived": True})

    def _read(self, contract: Contract) -> dict[str, Any]:
        canon = self._store.read(contract.id)
        events = self._store.events(contract.id)
        described = None if canon is None else _described(canon, contract)
        return {"canon": described, "events": [event.to_json() for event in events]}

    def _canon(self, asked: _Asked) -> Canon:
        """The canon there is, if it is the one that the reader saw."""
        canon = self._store.get(asked.contract.id)
        if canon is None:
            raise ApiError(409, f"{asked.contract.id!r} has no canon", code="no_canon")
        if asked.seen not in (None, canon.canon_signature):
            raise ApiError(409, "the canon is another one now: look at it first", code="canon_moved")
        return canon

    def _approve(self, asked: _Asked) -> Event:
        digest = self._canon(asked).canon_signature
        event = Event(asked.contract.id, "approved", digest, digest, asked.key.name, asked.why)
        self._store.note(event)
        return event

    async def _asked(self, request: Request) -> _Asked:
        key = await admit(request, self._service)
        require_managing(key)
        asked = parsed(await read_body(request, self._service, _BODY_BYTES))
        contract = contract_of(self._service, key, asked.get("contract"))
        why = asked.get("why")
        if not isinstance(why, str) or not why.strip() or len(why) > _WHY_CHARS:
            raise ApiError(400, f"why must be a reason of up to {_WHY_CHARS} characters", param="why")
        seen = asked.get("canon_signature")
        return _Asked(key, contract, why.strip(), seen if isinstance(seen, str) else None)


def _described(canon: Canon, contract: Contract) -> dict[str, Any]:
    names = ("canon_signature", "origin", "fixed_at_timestamp", "model", "temperature")
    versions = ("oracle_version", "normalization_version")
    return {
        **{name: getattr(canon, name) for name in (*names, *versions)},
        "code": canon.normalized_code,
        "contract_differences": contract_differences(canon, contract),
    }
