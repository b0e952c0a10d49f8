"""Records: every JSON document the program writes is checked against a schema first."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from homeostat.core import atomic
from homeostat.core.errors import UserError
from homeostat.core.resources import resource

Record = dict[str, Any]


class RecordError(ValueError):
    """A record that does not fit its schema: a bug in the program, so it keeps its traceback."""


@cache
def _validator(schema: str) -> jsonschema.Draft202012Validator:
    text = resource(f"schemas/{schema}.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def validate(record: Record, schema: str) -> None:
    """Raise `RecordError` unless `record` fits `schemas/<schema>.schema.json`."""
    error = jsonschema.exceptions.best_match(_validator(schema).iter_errors(record))
    if error is not None:
        where = "/".join(str(part) for part in error.absolute_path) or "the record"
        raise RecordError(f"{where} does not fit schemas/{schema}.schema.json: {error.message}")


def write_record(path: Path, record: Record, schema: str) -> None:
    validate(record, schema)
    atomic.write_json(path, record)


def read_record(path: Path, schema: str) -> Record:
    """Read a record and check it; a missing or damaged file is a `UserError`."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        validate(record, schema)
    except FileNotFoundError as error:
        raise UserError(f"no such record: {path}") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecordError) as error:
        raise UserError(f"damaged record {path}: {error}") from error
    return dict(record)


def read_jsonl(path: Path) -> Iterator[Record]:
    """The records of a log, in order. A torn last line (a process died writing it) is left out."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield json.loads(line)
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                raise UserError(f"damaged log {path}, line {number}: {error}") from error


def utc_now() -> str:
    """The current time in UTC, ISO 8601 with a trailing Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def finite_or_none(value: float) -> float | None:
    """JSON has no NaN or infinity; a figure that is not a number is recorded as null."""
    return value if math.isfinite(value) else None
