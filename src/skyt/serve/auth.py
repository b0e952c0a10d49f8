"""Who may ask: API keys from the database, re-read every few seconds; the Host header, against rebinding."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Mapping

from sqlalchemy import func, select

from skyt.serve.database.keys import ANYONE, Key, match, valid_keys
from skyt.serve.database.store import Store
from skyt.serve.database.tables import api_keys
from skyt.serve.protocol.errors import ApiError

_FRESH_S = 2.0


class Guard:
    """Open until the first key is made (and then never again, even if all are revoked)."""

    def __init__(self, store: Store) -> None:
        self._store = store
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
        scheme, _, given = headers.get("authorization", "").partition(" ")
        key = match(given.strip(), self._keys) if scheme.lower() == "bearer" else None
        if key is None:
            raise ApiError(
                401,
                "a valid API key is needed: send it as `Authorization: Bearer …`",
                type="authentication_error",
                code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )
        return key

    @property
    def guarded(self) -> bool:
        return self._guarded

    def _read(self) -> tuple[list[Key], bool]:
        return valid_keys(self._store), guarded(self._store)


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


def host_of(header: str) -> str:
    """The Host header without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
