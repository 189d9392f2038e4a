"""All rules for secrets, one after the other, with a cheap precheck before each group."""

from __future__ import annotations

from telemetry.redaction import named, tokens
from telemetry.redaction.named import Hit
from telemetry.redaction.names import has_hint


def mask_secret_text(text: str, hit: Hit, *, is_name: bool = False) -> str:
    """Return a text without secrets. `is_name` is for names of metrics, as in `named.mask_named`."""
    if "-----BEGIN" in text:
        text = tokens.mask_private_keys(text, hit)
    text = tokens.mask_tokens(text, hit)
    if "@" in text and "://" in text:
        text = named.mask_url_passwords(text, hit)
    lower = text.lower()
    if has_hint(lower) is not None:
        text = named.mask_named(text, hit, is_name=is_name)
    if "key=" in lower or "code=" in lower:
        text = named.mask_query(text, hit)
    if "-p" in lower and ("mysql" in lower or "mariadb" in lower or "sshpass" in lower):
        text = named.mask_short_options(text, hit)
    if "-u" in lower:
        text = named.mask_login(text, hit)
    if "bearer" in lower or "basic" in lower:
        text = named.mask_bearer(text, hit)
    return text
