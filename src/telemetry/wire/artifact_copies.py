"""The reference to a copy of a file in the run directory: `file:///RUN/artifacts/sha256/ab/abcdef…#plot.png`.

The address is absolute, so any program on this machine can open it. The end of its path depends on the content
alone, so the copy is found in a run directory that was moved. The fragment is the name that the file had.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote, urlsplit

FOLDER: Final = "artifacts/sha256"
"""Folder of the copies in the run directory."""
_AS_IT_IS: Final = "/:@!$&'()*+,;=~"
"""Characters that addresses may contain. They are not escaped, so that rules find an e-mail address in a name."""
_COPY: Final = re.compile(rf"/{FOLDER}/([0-9a-f]{{2}})/(\1[0-9a-f]{{62}})")


def path_of(digest: str) -> str:
    """Return the path of a copy in the run directory, by the SHA-256 of its content in hexadecimal digits."""
    return f"{FOLDER}/{digest[:2]}/{digest}"


def uri_of(directory: str, digest: str, name: str) -> str:
    """Return the reference to a copy in a run directory. `name`: the name of the original file."""
    fragment = f"#{_escaped(name)}" if name else ""
    return f"file://{_escaped(f'{directory}/{path_of(digest)}')}{fragment}"


def digest_of(uri: str) -> str:
    """Return the digest of the content that a reference to a copy has; empty for another reference."""
    if not uri.startswith("file:///"):
        return ""
    try:
        path = urlsplit(uri).path
    except ValueError:
        return ""
    match = _COPY.fullmatch(path[-len(f"/{path_of('0' * 64)}") :])
    return match[2] if match else ""


def original_name(uri: str) -> str:
    """Return the name of the file that was copied. Empty for other references, and for a copy without a name."""
    return unquote(uri.partition("#")[2]) if digest_of(uri) else ""


def _escaped(text: str) -> str:
    """Return a path or a part of it as in an address, also one that is not UTF-8."""
    return quote(text, _AS_IT_IS, errors="surrogateescape")
