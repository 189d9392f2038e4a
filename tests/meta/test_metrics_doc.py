"""docs/METRICS.md names every reason and every figure the system publishes about itself, and no other."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import msgspec
import pytest

from telemetry import ledger
from telemetry.wire import snapshot

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
        ("Dropped by the producer", ledger.PRODUCER_REASONS),
        ("Dropped by the aggregator", ledger.EVENT_REASONS),
        ("Frames nobody could read", ledger.FRAME_REASONS),
    ],
)
def test_every_drop_reason_is_explained(title: str, reasons: frozenset[ledger.Reason]) -> None:
    """A count in a report can be looked up."""
    assert first_column(title) == {reason.value for reason in reasons}


def test_every_figure_of_the_aggregators_cost_is_explained() -> None:
    """`cost` has no key that nobody describes."""
    written = first_column("What the aggregator says about itself")
    assert written == {field.name for field in msgspec.structs.fields(snapshot.SelfCost)}


def test_every_word_of_completeness_is_explained() -> None:
    """The first word of every report."""
    assert first_column("How complete") == set(typing.get_args(snapshot.Completeness))
