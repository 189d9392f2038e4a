"""Tests of the answers of OTLP receivers."""

from __future__ import annotations

from telemetry.backends.otlp.receiver import NotTaken, Taken, answer_type, taken


def test_partial_success_is_read() -> None:
    """Partial success of either signal is read. A warning has words and no number."""
    metrics = answer_type("metrics")(partial_success={"rejected_data_points": 3, "error_message": "old"})
    assert taken("metrics", metrics) == Taken(3, "old")
    traces = answer_type("traces")(partial_success={"error_message": "soon gone"})
    assert taken("traces", traces) == Taken(0, "soon gone")
    assert taken("metrics", answer_type("metrics")()) == Taken()


def test_what_is_not_taken_says_why() -> None:
    """An error has its reason as a word for the account, and as words for people."""
    error = NotTaken("http_400", "HTTP 400: no")
    assert (error.reason, str(error), error.too_large, error.unknown) == ("http_400", "HTTP 400: no", False, False)
