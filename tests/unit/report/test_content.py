"""What a report says comes from the snapshot and is said in all forms.

After a wanted change of the stored forms, run this file to store them anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry import humane, render
from telemetry.errors import UsageError
from telemetry.ledger import Reason
from telemetry.wire.codec import snapshot_from_json
from telemetry.wire.report import Report
from telemetry.wire.snapshot import (
    Accounting,
    CommandFacts,
    CounterStat,
    GaugeStat,
    MarkStat,
    MetricsSnapshot,
    ProducerStat,
    Progress,
    SelfCost,
    SeriesStat,
)
from telemetry.wire.units import BYTES, TIME_NS

NUMBER = re.compile(r"\d[\d.,:e+-]*")
UNITS = ["", "tokens", "B", *TIME_NS, *BYTES]

naturals = st.integers(0, 10**15)
positives = st.floats(0, 1e12)
units = st.sampled_from(UNITS)
reasons = st.dictionaries(st.sampled_from([reason.value for reason in Reason]), naturals, max_size=4)
snapshots = st.builds(
    MetricsSnapshot,
    run_id=st.just("r"),
    name=st.just("job"),
    state=st.sampled_from(["LIVE", "COMPLETE"]),
    elapsed_s=positives,
    window_s=st.floats(1, 100),
    started_ns=st.integers(1, 2**60),
    time_ns=st.integers(1, 2**60),
    accounting=st.builds(
        Accounting, emitted=naturals, applied=naturals, missing=naturals, dropped=reasons, bad_frames=reasons
    ),
    producers=st.lists(
        st.builds(
            ProducerStat,
            producer=st.just("p"),
            status=st.sampled_from(["live", "late", "lost"]),
            emitted=naturals,
            missing=naturals,
            applied=naturals,
            repaired=naturals,
            unrepairable=naturals,
            unrepairable_batches=st.lists(st.tuples(naturals, naturals), max_size=6),
            last_event_ns=st.integers(0, 2**60),
        ),
        max_size=3,
    ),
    series=st.lists(
        st.builds(
            SeriesStat,
            name=st.just("s"),
            unit=units,
            count=naturals,
            min=positives,
            max=positives,
            mean=positives,
            stddev=positives,
            percentiles=st.dictionaries(st.sampled_from(["50", "99.9"]), positives),
            error_bound=st.none() | st.floats(0, 0.1),
            resolution=positives,
            below=naturals,
        ),
        max_size=3,
    ),
    counters=st.lists(
        st.builds(CounterStat, name=st.just("c"), unit=units, value=naturals, rate=positives), max_size=3
    ),
    gauges=st.lists(
        st.builds(GaugeStat, name=st.just("g"), unit=units, value=positives, min=positives), max_size=3
    ),
    progress=st.lists(st.builds(Progress, name=st.just("c"), done=positives, total=positives), max_size=2),
    marks=st.lists(st.builds(MarkStat, text=st.just("m"), time_ns=st.integers(1, 2**60)), max_size=2),
    command=st.none() | st.builds(CommandFacts, argv=st.just(["x"]), wall_s=positives, max_rss_bytes=naturals),
    cost=st.builds(SelfCost, cpu_s=positives, ticks=naturals, ticks_late=naturals, tick_ms_max=positives),
)


@settings(max_examples=60, deadline=None)
@given(snapshots)
def test_every_number_comes_from_the_snapshot(snapshot: MetricsSnapshot) -> None:
    """Each number in the text is a number of the JSON form, rounded, but for the sum in the headline and ages."""
    report = Report(snapshot=snapshot, source="file")
    ages = [max(0, snapshot.time_ns - stat.last_event_ns) for stat in snapshot.producers]
    known = {*written(msgspec.to_builtins(snapshot)), *written([age / 1e9 for age in ages])}
    first, *lines = render(report, width=200).splitlines()
    for line in lines:
        for number in NUMBER.findall(line.split("why")[0].replace("2^53", "")):
            assert number.strip(".,:") in known, (number, line)
    account = snapshot.accounting
    said = [account.applied, *([account.lost] if account.lost or not report.unknown else [])]
    if not report.unknown:
        said.append(account.emitted)
    assert {number.strip(",") for number in NUMBER.findall(first.removesuffix(report.unknown))} == {
        f"{value:,}" for value in said
    }


def test_after_the_end_nobody_is_live() -> None:
    """A table of a run that is over says who never ended; while it goes on, who is there."""
    snapshot = MetricsSnapshot(
        run_id="r",
        name="job",
        state="INTERRUPTED",
        completeness="interrupted",
        producers=[ProducerStat(producer="p")],
    )
    over = render(Report(snapshot=snapshot, source="file"))
    assert " not ended " in over
    assert " live " not in over
    going_on = Report(snapshot=replace(snapshot, state="LIVE", completeness="incomplete"), source="status")
    assert " live " in render(going_on)


def written(value: object) -> Iterator[str]:
    """All ways in which the numbers of a document may be written."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from NUMBER.findall(str(key))
            yield from written(item)
    elif isinstance(value, list | tuple):
        yield from (str(n) for n in range(len(value) + 1))
        for item in value:
            yield from written(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        forms = [humane.count(value), humane.percent(value), humane.duration_s(value), f"{value:g}"]
        forms += [humane.rate(value, unit) for unit in UNITS] + [humane.quantity(value, unit) for unit in UNITS]
        if isinstance(value, int):
            forms += [humane.timestamp(value % 2**61), humane.clock_time(value % 2**61)]
        for form in forms:
            yield from (number.strip(".,:") for number in NUMBER.findall(form))


@settings(max_examples=30, deadline=None)
@given(snapshots)
def test_text_and_markdown_say_the_same(snapshot: MetricsSnapshot) -> None:
    """A wide text and the Markdown hold the same words in the same order, layout apart."""
    report = Report(snapshot=snapshot, source="file")
    markdown = re.sub(
        r"\\([\\`*_{}\[\]<>|~#])", r"\1", re.sub(r"^\|[ :|-]*$", "", render(report, "md"), flags=re.M)
    )
    layout = re.compile(r"^(\*\*|### |- |\| )|(\*\*| \|)$|(?<= )\|(?= )", re.MULTILINE)
    assert layout.sub(" ", markdown).split() == render(report, width=2_000).split()


GOLDEN = Path(__file__).parents[2] / "golden" / "report"
FORMS: dict[str, Callable[[Report], str]] = {
    "text_80.txt": lambda report: render(report, width=80),
    "text_140.txt": lambda report: render(report, width=140),
    "report.md": lambda report: render(report, "md"),
    "report.json": lambda report: render(report, "json"),
}


def stored_report() -> Report:
    snapshot = snapshot_from_json((GOLDEN / "snapshot.json").read_bytes())
    return Report(snapshot=snapshot, source="file", source_reason="the aggregator did not answer within 5 s")


@pytest.mark.parametrize("name", FORMS)
def test_stored_forms(name: str) -> None:
    """Every form of the stored snapshot is what was agreed, to the letter."""
    assert FORMS[name](stored_report()) == (GOLDEN / name).read_text()


def test_json_has_the_names_of_the_final_file() -> None:
    """The JSON form is the final file plus where it came from."""
    document = json.loads(render(stored_report(), "json"))
    source = {"source": document.pop("source"), "source_reason": document.pop("source_reason")}
    assert source == {"source": "file", "source_reason": "the aggregator did not answer within 5 s"}
    assert document == json.loads((GOLDEN / "snapshot.json").read_bytes())


def test_percentiles_of_any_name_are_shown() -> None:
    """A result that somebody tampered with is shown all the same, its numbers first."""
    odd = SeriesStat(name="s", count=1, percentiles={"99": 2.0, "abc": 1.0, "\x1b[2J": 1.0, "9": 1.0})
    text = render(Report(snapshot=MetricsSnapshot(run_id="r", name="n", series=[odd]), source="file"), width=200)
    assert text.index("p9 ") < text.index("p99") < text.index("pabc")
    assert all(line.isprintable() for line in text.splitlines())


def test_unknown_format_is_a_usage_error() -> None:
    """A format nobody knows names those that exist."""
    with pytest.raises(UsageError, match="text, json, md"):
        render(stored_report(), "html")  # type: ignore[arg-type]


if __name__ == "__main__":
    for name, form in FORMS.items():
        (GOLDEN / name).write_text(form(stored_report()))
