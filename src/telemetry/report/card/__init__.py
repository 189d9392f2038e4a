"""Cards of runs: one SVG or Markdown file with figures, their origin, and a seal that anyone can check.

    telemetry-seal
    {"command":…}               the facts, as `Card.canonical` writes them
    sha256 DIGEST               SHA-256 of the line above
    ssh BASE64                  signature of the line of facts, or `minisign BASE64`; missing if not signed

The rest of the file is drawn from the facts alone, so that a check can draw it again and compare.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import zip_longest
from typing import Final, NamedTuple

import msgspec

from telemetry.report.card.card import LAYOUT, Card, Difference
from telemetry.report.card.markdown import render_markdown
from telemetry.report.card.svg import render_svg

RENDERERS: Final[dict[str, Callable[[Card, str], str]]] = {".svg": render_svg, ".md": render_markdown}
"""Suffix of a file → the function that draws a card with the lines of its seal."""
_SEAL: Final = re.compile(
    r"telemetry-seal\n(\{[^\n]*\})\nsha256 ([0-9a-f]{64})\n(?:((?:ssh|minisign) [A-Za-z0-9+/=]+)\n)?"
)
_SHOWN: Final = 120


class Seal(NamedTuple):
    """The seal of a card."""

    card: Card
    digest: str
    signature: str
    """Kind and base64 text; empty for a card that is not signed."""


def drawn(card: Card, suffix: str, signature: str = "") -> str:
    """Return a card as a file with this suffix, `.svg` or `.md`."""
    lines = ["telemetry-seal", card.canonical(), f"sha256 {card.digest()}", *([signature] if signature else [])]
    return RENDERERS[suffix](card, "\n".join(lines))


def checked(text: str) -> Seal:
    """Return the seal of a card. Raises Difference if its facts were changed, or if it shows anything else."""
    text = text.replace("\r\n", "\n")
    seal = _SEAL.search(text)
    if seal is None:
        raise Difference("the file has no seal: it is no card, or the seal was changed")
    facts, digest, signature = seal[1], seal[2], seal[3] or ""
    try:
        card = msgspec.json.decode(facts, type=Card)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Difference(f"can't read the sealed facts: {error}") from error
    if card.layout != LAYOUT:
        raise Difference(f"the card has layout {card.layout}, and this telemetry checks layout {LAYOUT}")
    if card.canonical() != facts or card.digest() != digest:
        raise Difference(f"the sealed facts were changed: sha256 {card.digest()}, the card states {digest}")
    again = drawn(card, ".svg" if text.startswith("<svg") else ".md", signature)
    for number, (line, own) in enumerate(zip_longest(text.split("\n"), again.split("\n"), fillvalue=""), start=1):
        if line != own:
            raise Difference(
                f"line {number} of the card is {line.strip()[:_SHOWN]!r}, but its sealed facts give "
                f"{own.strip()[:_SHOWN]!r}"
            )
    if text != again:
        raise Difference("the end of the card was changed")
    return Seal(card, digest, signature)
