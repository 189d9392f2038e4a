"""Labels as keywords and as a mapping, and keywords that were meant to be options."""

from __future__ import annotations

from typing import Any

import pytest

import telemetry
from telemetry.errors import InstrumentError


@pytest.mark.parametrize(
    ("make", "keywords", "remedy"),
    [
        ("counter", {"units": "ms"}, "write unit='ms'"),
        ("gauge", {"unt": "B"}, "write unit='B'"),
        ("series", {"digit": 4}, "write digits=4"),
        ("series", {"label": {"a": 1}}, "write labels="),
        ("requests", {"expire": 3}, "write expire_s=3"),
        ("requests", {"expiry": None}, "write expire_s=None"),
        ("requests", {"stop_wen": 3}, "write stop_when=3"),
        ("requests", {"stop": "p99 known"}, "write stop_when='p99 known'"),
        ("requests", {"until": "p99.9 of ttft known within 5%"}, "write stop_when="),
    ],
)
def test_a_misspelt_option_is_an_error_that_names_the_right_one(make: str, keywords: Any, remedy: str) -> None:
    """A misspelt option would become a label otherwise, and the option would silently have no effect."""
    with pytest.raises(InstrumentError, match=remedy):
        getattr(telemetry, make)("labels.misspelt", **keywords)


def test_an_option_of_another_instrument_is_no_label() -> None:
    """A counter has no digits; the error says how to have a label of that name."""
    with pytest.raises(InstrumentError, match=r"counter has no option 'digits' \(labels=\{'digits': 3\} for a"):
        telemetry.counter("labels.foreign", digits=3)


def test_words_that_resemble_no_option_are_labels() -> None:
    """Keywords may be any other word, and the mapping may be any word at all."""
    given = {"flow": "a", "height": "2", "timeout": "3", "rate": "0.5", "note": "p99", "name": "n"}
    assert telemetry.counter("labels.words", **given).labels == given
    assert telemetry.counter("labels.mapped", labels={"units": "x", "http.route": "/a"}).labels == {
        "units": "x",
        "http.route": "/a",
    }


def test_keywords_win_over_the_mapping() -> None:
    """Both ways name the same instrument."""
    made = telemetry.series("labels.both", "ms", labels={"route": "/a", "rank": 1}, rank=2)
    assert made.labels == {"route": "/a", "rank": "2"}
    assert made is telemetry.series("labels.both", "ms", route="/a", rank=2)


def test_labels_have_to_be_a_mapping() -> None:
    """Anything else is said at the call."""
    with pytest.raises(InstrumentError, match="labels must be a mapping, not str"):
        telemetry.gauge("labels.wrong", labels="route=/a")  # type: ignore[arg-type]


def test_marks_and_spans_take_a_mapping_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks and spans take a mapping of labels. Without a run they are dropped, and never raise."""
    monkeypatch.delenv("TELEMETRY_ENDPOINT", raising=False)
    telemetry.mark("deployed", labels={"git.commit": "abc"}, version="1.4")
    telemetry.span_at("rollout", 1, 2, labels={"gpu.index": 0})
    with telemetry.span("rollout", labels={"gpu.index": 0}):
        pass
