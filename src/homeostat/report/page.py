"""One self-contained HTML file: our own style and script, inert data, and a policy that forbids the rest."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from functools import cache
from importlib import resources
from typing import Any

from homeostat.report.names import page_terms

SCRIPTS = (
    "vendor",
    "dom",
    "names",
    "plots",
    "chart",
    "tips",
    "maps",
    "diff",
    "table",
    "samples",
    "blocks",
    "page",
)
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@cache
def asset(name: str, package: str = "homeostat.report") -> str:
    return (resources.files(package) / "assets" / name).read_text(encoding="utf-8")


@cache
def script(*, boot: str = "boot.js", package: str = "homeostat.report") -> str:
    """The parts in one scope of their own, so that nothing leaks into the page's globals."""
    parts = [asset(f"{name}.js") for name in SCRIPTS] + [asset(boot, package)]
    terms = f"const TERMS = Object.assign(Object.create(null), {inert_json(page_terms())});"
    return '(() => {\n"use strict";\n' + "\n".join([terms, *parts]) + "\n})();\n"


def content_policy(style: str, code: str, *, connect: bool = False) -> str:
    """Only this page's own style, script and images; requests to nowhere, or to its own server."""
    scripts, styles = f"script-src '{_digest(code)}'", f"style-src '{_digest(style)}'"
    requests = "connect-src 'self'" if connect else "connect-src 'none'"
    return (
        f"default-src 'none'; {scripts}; {styles}; img-src data:; {requests}; "
        "base-uri 'none'; form-action 'none'"
    )


def inert_json(value: Any) -> str:
    """JSON that cannot end a script element, whatever text it carries; all of it ASCII."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def packed(value: Any) -> str:
    """JSON, gzipped, in base64: what the page unpacks only when it is looked at."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("utf-8", "backslashreplace"), 6, mtime=0)).decode(
        "ascii"
    )


def render(
    title: str,
    data: Any,
    parts: dict[str, str],
    *,
    style: str | None = None,
    code: str | None = None,
    connect: bool = False,
) -> str:
    """The whole file. `parts` are packed data by element id; style and code are a report's unless given."""
    style, code = style or asset("report.css"), code or script()
    extra = "".join(
        f'<script type="text/plain" id="{name}">{content}</script>\n' for name, content in parts.items()
    )
    policy = html.escape(content_policy(style, code, connect=connect))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        "<noscript>This report draws itself with the script it carries: please allow it to run.</noscript>\n"
        f'<script type="application/json" id="data">{inert_json(data)}</script>\n{extra}'
        f"<script>{code}</script>\n</body>\n</html>\n"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
