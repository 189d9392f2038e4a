"""Any requests come back from the log as they were, and a journal makes the same log as the run that wrote it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.recovery.backfill import Backfill, first_segment
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.history.request_log import read
from telemetry.store.journal import JournalReader, JournalWriter
from telemetry.store.records import RecordLog
from telemetry.store.request_log import FILE_NAME, RequestLogWriter
from telemetry.store.run_directory import RunDirectory
from telemetry.testing import FakeClock, frame
from telemetry.wire.codec import decode_logged, encode_logged
from telemetry.wire.events import BaseRecord, Count, Mark
from telemetry.wire.journal import RunState
from telemetry.wire.request_log import EndedRequests, LoggedRecords, RequestEntry, RequestTokens

natural = st.integers(0, (1 << 63) - 1)
tokens = st.none() | st.integers(0, 1 << 40) | st.floats(0, 1e12)
names = st.text("abc.é", min_size=1, max_size=8)


@st.composite
def entries(draw: st.DrawFn) -> RequestEntry:
    first = draw(st.none() | natural)
    gaps = draw(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=5)) if first is not None else []
    told = draw(st.booleans())
    return RequestEntry(
        draw(natural),
        draw(natural),
        draw(natural),
        draw(st.sampled_from(["completed", "failed", "expired"])),
        draw(st.text(max_size=5)),
        draw(st.none() | natural),
        first,
        draw(st.none() | natural),
        gaps,
        draw(st.lists(st.none() | natural, min_size=len(gaps), max_size=len(gaps))) if told else [],
        draw(natural) if first is not None else 0,
        draw(tokens),
        draw(tokens),
        draw(st.text(max_size=5)),
        draw(st.dictionaries(names, natural, max_size=2)),
    )


ended = st.builds(
    EndedRequests,
    names,
    st.dictionaries(names, names, max_size=2),
    st.lists(entries(), max_size=4),
    natural,
    natural,
)
words = st.sampled_from(["input_tokens", "output_tokens"])
later = st.builds(RequestTokens, st.just("p"), st.integers(0, 9), words, st.integers(0, 1 << 40), natural)


@given(st.lists(ended, max_size=3), st.integers(-(1 << 62), 1 << 62), st.integers(-(1 << 61), 1 << 61))
def test_any_request_comes_back(records: list[EndedRequests], offset_ns: int, step_ns: int) -> None:
    """Any request comes back through the wire, the file and the reader, field by field."""
    frame_ = LoggedRecords("p", offset_ns, step_ns, [Raw(msgspec.msgpack.encode(record)) for record in records])
    assert encode_logged(decode_logged(encode_logged(frame_))) == encode_logged(frame_)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory(Path(folder))
        log = RequestLogWriter(run.requests)
        log.append([frame_], 0)
        log.close()
        found = list(read(run))
    assert [one.entry for one in found] == [entry for record in records for entry in record.entries]
    assert [(one.kind, one.labels) for one in found] == [
        (record.kind, record.labels) for record in records for _ in record.entries
    ]
    assert all((one.offset_ns, one.shift_ns) == (offset_ns, offset_ns + step_ns) for one in found)


batches = st.lists(
    st.tuples(
        st.sampled_from(["p", "q"]),
        st.lists(ended | later | st.just(Mark("m")) | st.just(Count("n")), min_size=1, max_size=4),
        st.sampled_from(["", "second", "segment"]),
    ),
    min_size=1,
    max_size=12,
)


class Live:
    """A run with a journal, whose log was written up to some batch."""

    def __init__(self, folder: Path, sent: Sequence[tuple[str, list[BaseRecord], str]], cap_bytes: int) -> None:
        self.folder = folder
        clock = FakeClock()
        now_ns, wall_ns = clock.monotonic_ns(), clock.wall_ns()
        run = RunState(
            run_id="r", name="job", started_ns=wall_ns, started_mono_ns=now_ns, rolled_wall_ns=wall_ns,
            rolled_mono_ns=now_ns,
        )  # fmt: skip
        self.numbers = Numbers(Aggregator(AggregatorConfig(request_log_cap_bytes=cap_bytes)), run)
        journal = JournalWriter(folder / "journal", self.numbers.checkpoint(), now_ns)
        book = WriteAheadLog(self.numbers, journal, clock, now_ns)
        log = RequestLogWriter(folder / "whole")
        numbered: dict[str, tuple[int, int]] = {}
        for producer, records, then in sent:
            seq, first = numbered.get(producer, (0, 0))
            book.turn([bytes(frame(producer, seq, first, records=records))])
            numbered[producer] = seq + 1, first + len(records)
            log.append(*book.take_logged())
            clock.advance(0.3)
            if then:
                book.roll(clock.wall_ns(), 0)
            if then == "segment":
                journal.begin(self.numbers.checkpoint(), book.stamp())
        journal.close()
        log.close()
        whole = folder / "whole" / FILE_NAME
        self.bytes = whole.read_bytes() if whole.exists() else b""


def completed(live: Live, part: int) -> tuple[bytes, Numbers, int]:
    """The log as it is after a recovery that began with the first part of it."""
    path = live.folder / "requests" / FILE_NAME
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(live.bytes[:part])
    log, records = RequestLogWriter(path.parent, resume=True), RecordLog(live.folder / "none")
    records.failed = "not looked at here"
    reader = JournalReader(live.folder / "journal")
    fold = Fold(reader, first_segment(reader, None, records, requests=log))
    filler = Backfill(None, records, log)
    for entry in fold.entries():
        filler.take(fold.apply(entry), fold)
    filler.end(fold)
    log.close()
    return path.read_bytes(), fold.numbers, filler.lost_logged


@settings(max_examples=min(40, settings().max_examples), deadline=None)
@given(batches, st.sampled_from([400, 2_000, 1 << 20]), st.floats(0, 1))
def test_a_journal_makes_the_log_of_its_run(
    sent: list[tuple[str, list[BaseRecord], str]], cap_bytes: int, share: float
) -> None:
    """A journal makes the log of its run to the byte, however much of the file was there.

    The requests left out and the budget are the same.
    """
    with tempfile.TemporaryDirectory() as folder:
        live = Live(Path(folder), sent, cap_bytes)
        assert len(live.bytes) <= cap_bytes + 16
        found, numbers, lost = completed(live, int(share * len(live.bytes)))
        assert (found, lost) == (live.bytes, 0)
        assert numbers.run.requests == live.numbers.run.requests
        assert numbers.aggregator.checkpoint() == live.numbers.aggregator.checkpoint()
