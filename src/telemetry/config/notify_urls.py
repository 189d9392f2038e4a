"""Addresses of receivers of notifications: they contain secrets, so only their first part is ever shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

KEY: Final = "notify.urls"
FLAG: Final = "--notify"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://")
_BETWEEN: Final = re.compile(rf"[\s,]+(?={_SCHEME.pattern})")
_MASK: Final = "***"


def masked(url: str) -> str:
    """Return the address without its secrets: `slack://***`."""
    scheme = _SCHEME.match(url.strip())
    return f"{scheme[0] if scheme else ''}{_MASK}"


def split(text: str) -> list[str]:
    """Return the addresses in a text, separated by commas or white space.

    A comma inside an address, such as between two receivers of an e-mail, separates nothing.
    """
    return [url for part in _BETWEEN.split(text) if (url := part.strip().strip(",").strip())]


def joined(urls: Iterable[str]) -> str:
    """Return the text that `split` turns into these addresses."""
    return "\n".join(urls)


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """Return a command line with the addresses after `--notify` masked."""
    shown: list[str] = []
    for word in arguments:
        flag, equals, url = word.partition("=")
        if equals and flag == FLAG:
            shown.append(f"{FLAG}={masked(url)}")
        elif shown and shown[-1] == FLAG:
            shown.append(masked(word))
        else:
            shown.append(word)
    return shown
