"""Masking of output that arrives in pieces: a secret may begin in one piece and end in the next."""

from __future__ import annotations

from typing import Final

from telemetry import limits
from telemetry.redaction.redactor import Redactor
from telemetry.redaction.tokens import end_of_private_key, is_in_private_key

_LINE_BYTES: Final = 64 * limits.KIB  # of an unfinished line; then it is cut at a space
_KEY_BYTES: Final = 16 * limits.KIB  # of a private key; no usual one is longer


class LineMasker:
    """A filter of output, which gives back whole lines. One thread uses it."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""
        """Unfinished line."""
        self._key_bytes = 0
        """Number of bytes since a private key began; 0 outside a key."""

    def feed(self, data: bytes) -> bytes:
        """Take output. Return what is masked so far, without an unfinished line."""
        if self._redactor.is_off:
            return data
        self._held += data
        end = self._held_from()
        ready, self._held = self._held[:end], self._held[end:]
        return self._masked(ready)

    @property
    def holds_line(self) -> bool:
        """True if an unfinished line is held."""
        return bool(self._held)

    def rest(self) -> bytes:
        """Return the unfinished line, masked. The output goes on after it or ends."""
        ready, self._held = self._held, b""
        return self._masked(ready)

    def _held_from(self) -> int:
        """Return where the unfinished line begins. A very long line is cut at a space."""
        newest = max(self._held.rfind(b"\n"), self._held.rfind(b"\r"))
        if newest >= 0 or len(self._held) < _LINE_BYTES:
            return newest + 1
        space = self._held.rfind(b" ")
        return space + 1 if space >= 0 else len(self._held)

    def _masked(self, data: bytes) -> bytes:
        if not data:
            return data
        text = data.decode(errors="surrogateescape")
        before = ""
        if self._key_bytes:
            before, text = self._after_key(text)
        is_in_key = self._redactor.masks_secrets and is_in_private_key(text)
        masked = before + self._redactor.text(text)
        if is_in_key:
            self._key_bytes = 1
            masked += "\n"
        return masked.encode(errors="surrogateescape")

    def _after_key(self, text: str) -> tuple[str, str]:
        """Return the text after the private key that began in an earlier piece."""
        end = end_of_private_key(text)
        if end >= 0:
            self._key_bytes = 0
            return "", text[end:]
        self._key_bytes += len(text)
        if self._key_bytes > _KEY_BYTES:
            self._key_bytes = 0
        return "", ""
