"""Units of OpenTelemetry as units of instruments."""

from __future__ import annotations

import pytest

from telemetry.backends.otlp.messages import ucum
from telemetry.gateway.otlp.metrics import unit_of


@pytest.mark.parametrize(
    ("given", "unit"),
    [
        ("", ""),
        ("1", ""),
        ("ms", "ms"),
        ("s", "s"),
        ("By", "B"),
        ("MiBy", "MiB"),
        ("By/s", "B/s"),
        ("{request}", "requests"),
        ("{requests}", "requests"),
        ("{token}/s", "tokens/s"),
        ("{cpu}", "cpu"),
        ("{tokens/step}", "tokens/step"),
        ("ms/{request}", "ms/request"),
        ("1/s", "/s"),
        ("Cel", "°C"),
        ("%", "%"),
        ("{", "{"),
        ("x" * 30, "x" * 23 + "…"),
    ],
)
def test_a_unit_is_translated(given: str, unit: str) -> None:
    """Times and sizes become the words that the run formats, anything else is kept as text."""
    assert unit_of(given) == unit


@pytest.mark.parametrize("unit", ["", "ms", "s", "B", "kB", "GiB", "°C", "%", "tokens", "requests", "frames"])
def test_a_unit_that_the_run_sent_comes_back(unit: str) -> None:
    """The backend for OTLP writes what this reads."""
    assert unit_of(ucum(unit)) == unit
