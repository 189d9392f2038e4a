"""Tests of which direction of a figure is better."""

from __future__ import annotations

import pytest

from telemetry.judge.compare.figures import Directions, FigureKey


def figure(name: str, statistic: str, of: str = "series") -> FigureKey:
    return FigureKey(of, name, (), statistic)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("of", "name", "statistic", "unit", "better"),
    [
        ("command", "", "wall", "s", "lower"),
        ("command", "", "cpu", "s", "lower"),
        ("series", "anything", "p99", "ms", "lower"),
        ("series", "size", "mean", "KiB", "lower"),
        ("series", "size", "mean", "bytes", "lower"),
        ("series", "latency", "p50", "", "lower"),
        ("series", "timeToFirstToken", "p50", "", "neither"),
        ("series", "queue_wait", "p50", "ticks", "lower"),
        ("series", "speed", "p50", "tokens/s", "higher"),
        ("series", "speed", "p50", "tokens per second", "higher"),
        ("series", "decode_throughput", "mean", "tokens", "higher"),
        ("series", "loss", "mean", "", "lower"),
        ("series", "heat", "mean", "", "neither"),
        ("steps", "train/loss", "last", "", "lower"),
        ("steps", "accuracy", "best", "", "higher"),
        ("steps", "lr", "last", "", "neither"),
        ("steps", "error", "steps", "", "neither"),
        ("steps", "train", "rate", "1", "higher"),
        ("requests", "llm", "goodput", "requests", "higher"),
        ("requests", "llm.errors", "attainment", "%", "higher"),
        ("series", "latency", "rate", "1", "higher"),
        ("series", "error_latency", "rate", "1", "lower"),
        ("series", "llm.latency", "rate", "requests", "higher"),
        ("series", "llm.output_tokens", "rate", "tokens", "higher"),
        ("counter", "requests", "rate", "", "higher"),
        ("counter", "requests", "value", "", "neither"),
        ("counter", "sent", "value", "bytes", "neither"),
        ("counter", "busy", "rate", "s", "neither"),
        ("counter", "requests.failed", "value", "", "lower"),
        ("counter", "requests.failed", "rate", "", "lower"),
        ("counter", "HTTPErrors", "rate", "", "lower"),
        ("counter", "terrors", "value", "", "neither"),
        ("counter", "host.net_errors", "value", "", "neither"),
        ("counter", "gpu.ecc_errors", "rate", "", "neither"),
    ],
)
def test_the_rules(of: str, name: str, statistic: str, unit: str, better: str) -> None:
    """The first that applies, by whole words."""
    assert Directions().of(figure(name, statistic, of), unit) == better


def test_patterns_of_the_user_come_first() -> None:
    """The user's patterns of names or of names and figures come before the rules.

    A pattern for `lower` comes before one for `higher`.
    """
    directions = Directions(lower=["requests", "score:p99"], higher=["lat*", "command:wall", "score"])
    assert directions.of(figure("latency", "p99"), "ms") == "higher"
    assert directions.of(figure("requests", "rate", "counter"), "") == "lower"
    assert directions.of(figure("score", "p99"), "") == "lower"
    assert directions.of(figure("score", "p50"), "") == "higher"
    assert directions.of(figure("", "wall", "command"), "s") == "higher"
    assert directions.of(figure("", "cpu", "command"), "s") == "lower"


def test_patterns_may_name_labels() -> None:
    """A direction may be given for a name with labels, as a comparison prints it."""
    score = FigureKey("series", "score", (("route", "/a"),), "p50")
    assert Directions(higher=["score{route=/a}"]).of(score, "") == "higher"
    assert Directions(higher=["score{route=/b}"]).of(score, "ms") == "lower"
