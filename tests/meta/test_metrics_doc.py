"""Tests that docs/METRICS.md names every reason and figure the system publishes about itself. It names no other."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import msgspec
import pytest

from telemetry import limits
from telemetry.wire import drop_reasons, snapshot

TEXT = (Path(__file__).parents[2] / "docs" / "METRICS.md").read_text()


def first_column(title: str) -> set[str]:
    """The words in backticks in the first column of the tables under a heading."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", TEXT, re.DOTALL | re.MULTILINE)
    assert found, f"no section called {title}"
    cells = re.findall(r"^\| (`[^|]*)\|", found[1], re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize(
    ("title", "reasons"),
    [
        ("Dropped by the producer", drop_reasons.PRODUCER_REASONS),
        ("Dropped by the aggregator", drop_reasons.EVENT_REASONS),
        ("Unreadable frames", drop_reasons.FRAME_REASONS),
    ],
)
def test_every_drop_reason_is_explained(title: str, reasons: frozenset[drop_reasons.Reason]) -> None:
    """A count in a report can be looked up."""
    assert first_column(title) == {reason.value for reason in reasons}


def test_every_figure_of_the_aggregators_cost_is_explained() -> None:
    """`cost` has no key that nobody describes."""
    written = first_column("What the aggregator says about itself")
    assert written == {field.name for field in msgspec.structs.fields(snapshot.SelfCost)}


def test_every_figure_about_batches_and_signs_of_life_is_one() -> None:
    """The page explains each figure in a producer's line about missing batches and signs of life."""
    written = first_column("Batches out of order") | first_column("Signs of life")
    fields = {field.name for field in msgspec.structs.fields(snapshot.ProducerStat)}
    assert written <= fields
    assert {"repaired", "unrepairable", "unrepairable_batches", "last_event_ns"} <= written
    for figure in (
        f"the first {limits.GAPS_SHOWN}",
        f"the last {limits.GAPS_SHOWN}",
        f"{limits.SEQUENCE_GAPS:,} gaps",
        f"after {limits.LATE_AFTER_S:g} s",
        f"after {limits.LOST_AFTER_S:g} s",
    ):
        assert figure in TEXT


def test_every_word_of_completeness_is_explained() -> None:
    """The first word of every report."""
    assert first_column("How complete") == set(typing.get_args(snapshot.Completeness))
