"""The one-file scaffold of every page that telemetry writes: looks, theme, charts, a policy against all else."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

from telemetry.formatting import printable

_HERE: Final = Path(__file__).parent


def page(title: str, body: str, script: str = "") -> str:
    """A whole document that asks nobody for anything, and runs no script but ours.

    `title` may be any text. `body` is HTML in which all text from outside is escaped; it has no `style=`, no `on…=`
    and no script but blocks of JSON, for the browser refuses them. `script` is code of our own, run when the body
    is there; it makes elements and sets their text, and draws with `telemetry`, as `charts.js` says. Raises
    ValueError for a script that would end its element.
    """
    style = asset("page.css")
    scripts = [asset("formatting.js"), asset("charts.js"), *([script] if script else [])]
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
    """The text of a style sheet or script of this package, with the line ends that browsers take a hash of."""
    return (_HERE / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
