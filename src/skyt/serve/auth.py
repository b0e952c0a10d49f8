"""Who may ask: API keys from the database, re-read every few seconds; the Host header, against rebinding."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import re
import time
from collections import deque
from collections.abc import Mapping

from sqlalchemy import func, select

from skyt.records.tables import api_keys
from skyt.serve.database.keys import ANYONE, Key, match, valid_keys
from skyt.serve.database.store import Store
from skyt.serve.protocol.errors import ApiError

_FRESH_S = 2.0


class Guard:
    """Open until the first key is made (and then never again, even if all are revoked)."""

    def __init__(self, store: Store, per_minute: int | None = None) -> None:
        self._store = store
        self._rates = Rates(per_minute)
        self._keys: list[Key] = []
        self._guarded = False
        self._read_at = -_FRESH_S

    async def check(self, headers: Mapping[str, str]) -> Key:
        """The asking key, or 401."""
        if time.monotonic() - self._read_at > _FRESH_S:
            self._keys, self._guarded = await asyncio.to_thread(self._read)
            self._read_at = time.monotonic()
        if not self._guarded:
            return ANYONE
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        key = match(secret.strip(), self._keys) if scheme.lower() == "bearer" else None
        if key is None:
            raise ApiError(
                401,
                "a valid API key is needed: send it as `Authorization: Bearer …`",
                type="authentication_error",
                code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )
        return key

    async def admit(self, headers: Mapping[str, str]) -> Key:
        """The asking key, if it may ask once more in this minute; else 429."""
        key = await self.check(headers)
        self._rates.count(key)
        return key

    @property
    def guarded(self) -> bool:
        return self._guarded

    def _read(self) -> tuple[list[Key], bool]:
        return valid_keys(self._store), guarded(self._store)


class Rates:
    """How often each key asked in the last minute. Each process of a service counts for itself."""

    def __init__(self, per_minute: int | None) -> None:
        self._per_minute = per_minute
        self._times: dict[str, deque[float]] = {}

    def count(self, key: Key) -> None:
        """Count a request, or refuse it with the seconds after which the next one is welcome."""
        most = key.per_minute or self._per_minute
        if most is None:
            return
        times, now = self._times.setdefault(key.id, deque()), time.monotonic()
        while times and times[0] <= now - 60.0:
            times.popleft()
        if len(times) >= most:
            raise ApiError(
                429,
                f"this key may ask {most} times a minute",
                type="rate_limit_error",
                code="rate_limit_exceeded",
                headers={"retry-after": str(max(1, math.ceil(times[0] + 60.0 - now)))},
            )
        times.append(now)


def guarded(store: Store) -> bool:
    with store.reading() as connection:
        return connection.execute(select(func.count()).select_from(api_keys)).scalar_one() > 0


def require(key: Key, contract_id: str) -> None:
    if not key.allows(contract_id):
        raise ApiError(
            403,
            f"this key is not for contract {contract_id!r}",
            type="permission_error",
            code="wrong_contract",
        )


def require_managing(key: Key) -> None:
    if not key.manages:
        raise ApiError(
            403,
            "this key may not manage canons; make one with `homeostat code keys add NAME --manage`",
            type="permission_error",
            code="may_not_manage",
        )


def require_unrestricted(key: Key) -> None:
    if not key.unrestricted:
        raise ApiError(
            403,
            f"this key is for contracts {', '.join(sorted(key.contracts or ()))} only",
            type="permission_error",
            code="contracts_only",
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?")


def host_of(header: str) -> str | None:
    """The name in a Host header without its port; None for anything that is not a name and a port."""
    parts = _HOST.fullmatch(header)
    return None if parts is None else parts["v6"] or parts["name"]
