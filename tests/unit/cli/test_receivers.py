"""Addresses for notifications from the command line."""

from __future__ import annotations

import pytest

from telemetry.cli.receivers import checked_receivers
from telemetry.errors import UsageError


def test_a_word_is_no_address() -> None:
    """The message says what is missing, and not the word: it may be a secret."""
    with pytest.raises(UsageError, match="one has no ://") as caught:
        checked_receivers(["s3cretword"])
    assert "s3cretword" not in str(caught.value)
