"""The one-file scaffold of every page that telemetry writes: style, theme, charts, and a strict policy."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

from telemetry.common.formatting import printable

SCRIPTS: Final = ("formatting.js", "page.js", "axes.js", "save.js", "charts.js")
"""Scripts of every page."""
_HERE: Final = Path(__file__).parent
_COMMENT: Final = re.compile(r"^[ \t]*(?:/\*.*?\*/|//[^\n]*)[ \t]*\n", re.MULTILINE | re.DOTALL)
"""A comment that has its lines to itself."""
_INDENTATION: Final = re.compile(r"\n[ \t\n]+")


def page(title: str, body: str, script: str = "") -> str:
    """Return a whole document that makes no network requests and runs only the package's own scripts.

    `title` may be any text. `body` is HTML in which all outside text is escaped. It must not contain `style=`,
    `on…=`, or scripts other than blocks of JSON: the browser refuses them. `script` is code of this package, run
    once the body has loaded. It creates elements, sets their text, and draws with `telemetry`, as documented in
    `charts.js`. Raises ValueError for a script that would end its element.
    """
    style = asset("page.css")
    scripts = [*map(asset, SCRIPTS), *([script] if script else [])]
    for code in scripts:
        if "</script" in code.lower() or "<!--" in code:
            raise ValueError("a script that holds `</script` or `<!--` would end early")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        )
    )
    blocks = "\n".join(f"<script>{code}</script>" for code in scripts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{escape(printable(title))}</title>
<style>{style}</style>
</head>
<body>
<button id="theme" type="button" hidden>Dark</button>
<main>
{body}
</main>
{blocks}
</body>
</html>
"""


@cache
def asset(name: str) -> str:
    """Return a style sheet or script of this package without comments and indentation, which take an eighth of it.

    Line ends are those that browsers use for hashes.
    """
    text = (_HERE / name).read_text(encoding="utf-8").replace("\r\n", "\n")
    return _INDENTATION.sub("\n", _COMMENT.sub("", text))


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
