"""Helpers that programs take from W&B."""

from __future__ import annotations

import secrets
import string
from typing import Final

_CHARACTERS: Final = string.ascii_lowercase + string.digits


def generate_id(length: int = 8) -> str:
    """Return a random id for a run."""
    return "".join(secrets.choice(_CHARACTERS) for _ in range(length))
