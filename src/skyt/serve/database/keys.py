"""API keys: shown once when made, kept as SHA-256 only (256 random bits need no slow hash)."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from homeostat.core.errors import UserError
from homeostat.core.records import utc_now
from skyt.records.tables import api_keys
from skyt.serve.database.store import Store

_PREFIX = "skyt-"


@dataclass(frozen=True)
class Key:
    """Who asks, and for which contracts: None means all of them, and pass-through."""

    id: str
    name: str
    sha256: str
    contracts: frozenset[str] | None
    per_minute: int | None = None  # requests; None: the configuration's limit
    manages: bool = False  # may approve and re-anchor the canons of its contracts

    def allows(self, contract_id: str) -> bool:
        return self.contracts is None or contract_id in self.contracts

    @property
    def unrestricted(self) -> bool:
        return self.contracts is None


ANYONE = Key("anyone", "anyone", "", None)


def add_key(
    store: Store,
    name: str,
    contracts: Sequence[str] = (),
    *,
    per_minute: int | None = None,
    manages: bool = False,
) -> str:
    """Make a key and return it: the only time it can be seen."""
    if per_minute is not None and per_minute < 1:
        raise UserError(f"--per-minute {per_minute}: at least one request")
    if not name.isprintable() or not 0 < len(name) <= 100:
        raise UserError(f"key name {name!r}: use up to 100 printable characters")
    key = _PREFIX + secrets.token_urlsafe(32)
    try:
        with store.engine.begin() as connection:
            connection.execute(
                insert(api_keys).values(
                    id=f"key_{secrets.token_hex(6)}",
                    name=name,
                    sha256=_digest(key),
                    contracts=json.dumps(sorted(contracts)) if contracts else None,
                    created_at=utc_now(),
                    per_minute=per_minute,
                    manages=manages,
                )
            )
    except IntegrityError:
        raise UserError(f"there is a key named {name!r} already: choose another name") from None
    return key


def revoke_key(store: Store, name: str) -> None:
    with store.engine.begin() as connection:
        done = connection.execute(
            update(api_keys)
            .where(api_keys.c.name == name, api_keys.c.revoked_at.is_(None))
            .values(revoked_at=utc_now())
        )
    if not done.rowcount:
        raise UserError(f"no key named {name!r} that is still valid")


def valid_keys(store: Store) -> list[Key]:
    with store.reading() as connection:
        rows = connection.execute(
            select(api_keys).where(api_keys.c.revoked_at.is_(None)).order_by(api_keys.c.name)
        )
        return [
            Key(
                row.id,
                row.name,
                row.sha256,
                None if row.contracts is None else frozenset(json.loads(row.contracts)),
                row.per_minute,
                bool(row.manages),
            )
            for row in rows
        ]


def match(secret: str, keys: Iterable[Key]) -> Key | None:
    """The key with this secret, in a time that does not tell how much of it was right."""
    digest = _digest(secret)
    asking = None
    for key in keys:
        if hmac.compare_digest(digest, key.sha256):
            asking = key
    return asking


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
