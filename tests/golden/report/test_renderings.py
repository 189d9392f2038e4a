"""Every form of the recorded report is what was agreed, to the letter."""

from __future__ import annotations

import pytest
from tests.golden.report.renderings import (
    HERE,
    OF_REQUESTS,
    OF_STEPS,
    RENDERINGS,
    requests_report,
    steps_report,
    stored_report,
)

from telemetry.report import FORMATS


@pytest.mark.parametrize("name", RENDERINGS)
def test_stored_forms(name: str) -> None:
    """A change of what users read is seen in the repository."""
    assert RENDERINGS[name](stored_report()) == (HERE / name).read_text()


@pytest.mark.parametrize("name", OF_REQUESTS)
def test_stored_forms_of_requests(name: str) -> None:
    """A run of requests has sections of its own instead of rows among all series and counters."""
    assert OF_REQUESTS[name](requests_report()) == (HERE / name).read_text()


@pytest.mark.parametrize("name", OF_STEPS)
def test_stored_forms_of_steps(name: str) -> None:
    """Axes with their newest values, and what backends have got, with what to do about the rest."""
    assert OF_STEPS[name](steps_report()) == (HERE / name).read_text()


def test_every_format_is_stored() -> None:
    """A new one gets a file here."""
    suffixes = {"text": "txt", "junit": "xml"}
    assert {suffixes.get(form, form) for form in FORMATS} <= {name.rpartition(".")[2] for name in RENDERINGS}
