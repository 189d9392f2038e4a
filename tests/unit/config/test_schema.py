"""The schema's own rules."""

from __future__ import annotations

import re

import pytest

from telemetry.config.schema import PERCENTILE_PATTERN, PERCENTILES


@pytest.mark.parametrize("text", [*PERCENTILES, "0.1", "1", "100", "99.999999", "0.000001"])
def test_percentiles_have_one_spelling(text: str) -> None:
    """Decimal strings above 0 and up to 100 pass."""
    assert re.match(PERCENTILE_PATTERN, text)


@pytest.mark.parametrize(
    "text", ["0", "0.0", "00", "050", "50.0", "99.90", "100.1", "101", "-1", "1e1", "", " 50", "p99"]
)
def test_other_spellings_are_refused(text: str) -> None:
    """Zero, redundant zeros, numbers above 100 and anything that is no decimal don't pass."""
    assert not re.match(PERCENTILE_PATTERN, text)
