"""Configuration: YAML plus `--set a.b=value`, checked by pydantic, with messages a person can act on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin

import pydantic
import yaml

from homeostat.core import resources
from homeostat.core.atomic import utf8
from homeostat.core.errors import UserError, nearest, unreadable


class ConfigModel(pydantic.BaseModel):
    """Base of every configuration section: unknown keys are errors, values never change after loading."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, validate_default=True)

    # Counts that may grow: a run with fewer goes on with more.
    grows: ClassVar[tuple[str, ...]] = ()
    # How a difference in a setting is told, where its value says nothing to people: section -> sentence.
    told: ClassVar[Mapping[str, str]] = {}

    @pydantic.model_validator(mode="before")
    @classmethod
    def _over_defaults(cls, raw: Any) -> Any:
        """A section that is given in part keeps the rest of this section's default, not of its class."""
        if not isinstance(raw, dict):
            return raw
        whole = dict(raw)
        for name, field in cls.model_fields.items():
            section = raw.get(name)
            if isinstance(section, dict) and isinstance(field.default, ConfigModel):
                whole[name] = _overlay(field.default.model_dump(exclude_unset=True), section)
        return whole

    @classmethod
    def known_fields(cls) -> Mapping[str, pydantic.fields.FieldInfo]:
        """Every key that this section may have."""
        return cls.model_fields


C = TypeVar("C", bound=ConfigModel)


def load_config(
    model: type[C],
    path: str | Path | Mapping[str, Any] | None,
    overrides: Iterable[str] = (),
    kind: str = "configs",
    *,
    options: Mapping[str, Any] | None = None,
) -> C:
    """Read a YAML file (the user's, or one that comes with the program), apply overrides, check it.

    A file may name another as its `base:`; the base is read first and the file's own keys are laid over it.
    A mapping stands for a file: the options of a command. `options` are laid over a file.
    """
    raw: dict[str, Any] = {}
    source = "the defaults"
    if isinstance(path, Mapping):
        raw, source = _overlay({}, path), "the options"
    elif path is not None:
        raw, source = _read(resources.find(path, kind, lambda file: fits(model, file)), kind), str(path)
    raw = _overlay(raw, options or {})
    for override in overrides:
        _apply(raw, override)
    return parse_config(model, raw, source=source)


def fits(model: type[C], path: Path, kind: str = "configs") -> bool:
    """Whether a file that comes with the program is a whole configuration of this model."""
    try:
        raw = _read(path, kind)
        return len(raw) > 1 and bool(model.model_validate(raw))  # one section alone is a part of others
    except (UserError, pydantic.ValidationError):
        return False


def parse_config(model: type[C], raw: Mapping[str, Any], source: str) -> C:
    """Check a mapping against a configuration model; the first problem becomes one clear line."""
    try:
        return model.model_validate(raw)
    except pydantic.ValidationError as error:
        raise UserError(f"{source}: {_explain(error, model)}") from None


def resolved(config: pydantic.BaseModel) -> dict[str, Any]:
    """The configuration with every default filled in, as plain JSON types."""
    return config.model_dump(mode="json")


def config_hash(config: pydantic.BaseModel | Mapping[str, Any]) -> str:
    """SHA-256 over canonical JSON: the same for the same settings, whatever their order or origin."""
    plain = resolved(config) if isinstance(config, pydantic.BaseModel) else config
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(utf8(text)).hexdigest()


def _read(path: Path, kind: str, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    if path in seen:
        raise UserError(f"{path}: `base:` leads back to the same file")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        problem = str(error).replace("\n", " ")
        raise UserError(f"{path} is not valid YAML: {problem}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(unreadable(path, error)) from None
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise UserError(
            f"{path}: the top level must be a mapping of keys to values, not a {type(raw).__name__}"
        )
    base = raw.pop("base", None)
    if base is None:
        return raw
    beside = path.parent / str(base)
    base_path = beside if beside.exists() else resources.find(str(base), kind)
    return _overlay(_read(base_path, kind, (*seen, path)), raw)


def _overlay(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _overlay(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _apply(raw: dict[str, Any], override: str) -> None:
    """Set one dotted key: `a.b=value`, the value read as YAML."""
    dotted, equals, text = override.partition("=")
    keys = dotted.strip().split(".")
    if not equals or not all(keys):
        raise UserError(f"--set {override!r}: write it as key=value, for example --set train.lr=1e-4")
    try:
        value = _number(yaml.safe_load(text))
    except yaml.YAMLError:
        raise UserError(f"--set {override!r}: {text!r} is not valid YAML") from None
    section = raw
    for key in keys[:-1]:
        child = section.setdefault(key, {})
        if not isinstance(child, dict):
            raise UserError(f"--set {override!r}: {key!r} is a value, not a section")
        section = child
    section[keys[-1]] = value


def _number(value: Any) -> Any:
    """YAML 1.1 reads `1e-4` as text; people mean a number."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


_BOUNDS = {
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
}


def _explain(error: pydantic.ValidationError, model: type[ConfigModel]) -> str:
    first = error.errors(include_url=False)[0]
    path, sections = _located(model, first["loc"])
    key = ".".join(path) or "the configuration"
    if first["type"] == "extra_forbidden":
        known = {name for section in sections for name in section.known_fields()}
        return f"unknown key {key!r}; {nearest(path[-1], known) if known else 'nothing can be set here'}"
    if first["type"] == "missing":
        return f"{key!r} is missing"
    field = str(first.get("ctx", {}).get("discriminator", "")).strip("'")  # of the sections of a union
    if first["type"] == "union_tag_not_found":
        return f"{key + '.' + field!r} is missing"
    if first["type"] == "union_tag_invalid":
        tag = first["ctx"]["tag"]
        tags = (text.strip("'") for text in first["ctx"]["expected_tags"].split(", "))
        return f"{key}.{field} = {tag!r}: {nearest(tag, tags)}"
    more = error.error_count() - 1
    tail = f" ({more} more problem{'s' if more > 1 else ''})" if more else ""
    if isinstance(first["input"], dict | list):  # a section as a whole: the message says what is wrong in it
        return f"{key + ': ' if path else ''}{_lower(first['msg'])}{tail}"
    bound = _BOUNDS.get(first["type"])
    says = _lower(first["msg"]) if bound is None else bound.format(**first["ctx"])
    return f"{key} = {first['input']!r}: {says}{tail}"


def _lower(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _located(
    model: type[ConfigModel], location: tuple[int | str, ...]
) -> tuple[list[str], list[type[ConfigModel]]]:
    """The key that an error speaks of, without the tags of unions, and the sections that it may stand in."""
    path: list[str] = []
    sections, inside = [model], [model]
    for part in location:
        tagged = [section for section in inside if part in _tags(section)]
        fields = [section.known_fields()[str(part)] for section in inside if part in section.known_fields()]
        if tagged and not fields:
            inside = tagged
            continue
        path.append(str(part))
        sections = inside
        inside = [found for field in fields for found in _sections(field.annotation)] or inside
    return path, sections


def _tags(section: type[ConfigModel]) -> set[Any]:
    """What tells this section from others in a union: `kind: local`, `type: list`."""
    fields = section.known_fields().values()
    return {
        tag
        for field in fields
        if get_origin(field.annotation) is Literal
        for tag in get_args(field.annotation)
    }


def _sections(annotation: Any) -> list[type[ConfigModel]]:
    annotation = getattr(annotation, "__value__", annotation)  # of a type with a name of its own
    if isinstance(annotation, type) and issubclass(annotation, ConfigModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _sections(part)]
