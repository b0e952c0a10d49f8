"""The page at `/` and the API it reads. The page itself holds no data: it asks for it with the reader's key.

Style, charts and diffs are the report's own. Text enters the page as text nodes only, and the content policy
forbids inline scripts, so nothing a model wrote can become markup.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import datetime
from functools import cache
from typing import Any

import yaml
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from homeostat import __version__
from homeostat.report import blocks
from homeostat.report.names import explanations
from homeostat.report.page import asset, script
from skyt.contracts.contract import Contract
from skyt.serve.auth import require
from skyt.serve.database import live
from skyt.serve.database.keys import Key
from skyt.serve.protocol.errors import ApiError
from skyt.serve.service import Service
from skyt.serve.web.edge import json_response

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>skyt · homeostat</title>
<link rel="stylesheet" href="/page.css">
<script src="/page.js" defer></script>
</head>
<body><noscript>This page needs JavaScript; `homeostat code status` shows the same figures.</noscript></body>
</html>
"""
NO_STORE = {"cache-control": "no-store"}
# Before repair and after it as in reports and figures.
_LOOKS = {
    "R_raw": 8,
    "R_anchor": 0,
    "P_tau_pre": 1,
    "P_tau_post": 5,
    "rescue_rate": 2,
    "mu_pre": 1,
    "mu_post": 0,
}


def routes(service: Service) -> list[Route]:
    pages = Pages(service)
    return [
        Route("/", pages.page),
        Route("/page.js", pages.code),
        Route("/page.css", pages.style),
        Route("/favicon.ico", pages.icon),
        Route("/openapi.json", pages.openapi),
        Route("/api/status", pages.status),
        Route("/api/samples", pages.samples),
        Route("/api/history", pages.history),
    ]


class Pages:
    """What people look at."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._store = service.store

    async def page(self, request: Request) -> Response:
        return _file(_PAGE, "text/html")

    async def code(self, request: Request) -> Response:
        return _file(script(boot="live.js", package="skyt.serve"), "text/javascript")

    async def style(self, request: Request) -> Response:
        return _file(asset("report.css") + asset("live.css", "skyt.serve"), "text/css")

    async def icon(self, request: Request) -> Response:
        return Response(status_code=204)

    async def openapi(self, request: Request) -> Response:
        return json_response(200, _openapi(), NO_STORE)

    async def status(self, request: Request) -> Response:
        """Every contract the key is for: its metrics, canon and latencies."""
        key = await self._service.guard.check(request.headers)
        tau = self._service.config.measure.tau
        standings = await asyncio.to_thread(live.standings, self._store, tau)
        shown = [standing for standing in standings if key.allows(standing.prompt_id)]
        return json_response(
            200,
            {
                "upstream": self._service.upstream.name if key.unrestricted else None,
                "contracts": [
                    {**asdict(standing), "policy": self._service.config.policy_of(standing.prompt_id).mode}
                    for standing in shown
                ],
                "known": [] if shown else self._to_try(key),
            },
            NO_STORE,
        )

    def _to_try(self, key: Key) -> list[dict[str, str]]:
        """The contracts that this key may ask for, while there is nothing to show yet."""
        contracts = self._service.matcher.contracts
        return [{"prompt_id": name, "asks": contracts[name].prompt} for name in contracts if key.allows(name)]

    async def samples(self, request: Request) -> Response:
        """The latest samples of one contract, with the canon's text to compare them with."""
        contract = await self._contract(request)
        limit = _limit(request.query_params.get("limit", "20"))
        samples = await asyncio.to_thread(live.latest, self._store, contract, limit)
        canon = await asyncio.to_thread(self._store.get, contract)
        steps = {step for sample in samples for step in sample["repair_steps"]}
        return json_response(
            200,
            {
                "canon": None if canon is None else canon.normalized_code,
                "samples": samples,
                "explanations": explanations(sorted(steps)),
            },
            NO_STORE,
        )

    async def history(self, request: Request) -> Response:
        contract = await self._contract(request)
        snapshots = await asyncio.to_thread(live.history, self._store, contract)
        chart = _chart(contract, snapshots) if snapshots else None
        return json_response(200, {"snapshots": snapshots, "chart": chart}, NO_STORE)

    async def _contract(self, request: Request) -> str:
        key = await self._service.guard.check(request.headers)
        return contract_of(self._service, key, request.query_params.get("contract", "")).id


@cache
def _openapi() -> dict[str, Any]:
    """The description of what the service answers itself, with this program's version."""
    described: dict[str, Any] = yaml.safe_load(asset("openapi.yaml", "skyt.serve"))
    described["info"]["version"] = __version__
    return described


def _chart(contract: str, snapshots: list[dict[str, Any]]) -> dict[str, Any]:
    """The report's kind of chart: shares and distances against minutes since the first snapshot."""
    times = [datetime.fromisoformat(snapshot["timestamp"]) for snapshot in snapshots]
    minutes = [(time - times[0]).total_seconds() / 60 for time in times]

    def lines(*names: str) -> list[dict[str, Any]]:
        return [
            blocks.series(
                name,
                [(x, snapshot[name], None, None) for x, snapshot in zip(minutes, snapshots, strict=True)],
            )
            for name in names
        ]

    shares = lines("R_raw", "R_anchor", "P_tau_pre", "P_tau_post", "rescue_rate")
    distances = lines("mu_pre", "mu_post")
    return blocks.chart(
        "history",
        "Over time",
        [
            blocks.panel("Shares", shares, y_label="share of samples", digits="%"),
            blocks.panel("Mean distance to the canon", distances, y_label="distance", digits=3),
        ],
        x="minutes",
        y="share or distance",
        y_limits=(0.0, 1.0),
        note=f"Snapshots of {contract}, in minutes from the first one.",
        looks=_LOOKS,
    )


def contract_of(service: Service, key: Key, name: Any) -> Contract:
    """The contract of that id, if the key is for it."""
    contract = service.matcher.contracts.get(name) if isinstance(name, str) else None
    if contract is None:
        raise ApiError(404, "no such contract", code="contract_not_found", param="contract")
    require(key, contract.id)
    return contract


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= 200):
        raise ApiError(400, "limit must be a whole number from 1 to 200", param="limit")
    return int(text)


def _file(text: str, kind: str) -> Response:
    headers = {
        "content-type": f"{kind}; charset=utf-8",
        "content-security-policy": _POLICY,
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }
    return Response(text, 200, headers)
