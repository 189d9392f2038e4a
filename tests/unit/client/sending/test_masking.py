"""Masking of records: every record that a producer sends has its secrets masked, and nothing else changes."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from telemetry import limits
from telemetry.client import records
from telemetry.client.records import Place
from telemetry.client.redaction import Redaction
from telemetry.client.sending.masking import FIELDS, RecordMasker
from telemetry.redaction import MASK
from telemetry.wire.codec import decode_record
from telemetry.wire.events import (
    Artifact,
    Axis,
    Bins,
    Count,
    Define,
    EventRecord,
    Expect,
    Gauge,
    Mark,
    Note,
    Params,
    Sample,
    Scalars,
    Session,
    Span,
    StepClear,
    StepEnd,
    Table,
    Uncounted,
)
from telemetry.wire.request_log import EndedRequests

SECRET = "ghp_" + "a1B2" * 9
LABELS = {"tenant": SECRET, "at": "x"}
HIDDEN = {"tenant": MASK, "at": "x"}
RECORDS = [
    (
        Define(1, f"n {SECRET}", "counter", "ms", LABELS, within=f"n {SECRET}"),
        {"name": f"n {MASK}", "labels": HIDDEN, "within": f"n {MASK}"},
    ),
    (Sample(f"n {SECRET}", 1.0, 2, "ms", LABELS), {"name": f"n {MASK}", "labels": HIDDEN}),
    (Count(f"n {SECRET}", 1.0, 2, "ms", LABELS), {"name": f"n {MASK}", "labels": HIDDEN}),
    (Gauge(f"n {SECRET}", 1.0, 2, "ms", LABELS), {"name": f"n {MASK}", "labels": HIDDEN}),
    (Expect(SECRET, 1.0), {"name": MASK}),
    (
        Axis(f"a {SECRET}", "mean", {f"*/{SECRET}": "sum"}, 1, "ended", [SECRET]),
        {"name": f"a {MASK}", "reductions": {f"*/{MASK}": "sum"}, "ranked": [MASK]},
    ),
    (Mark(f"password={SECRET}", 1, LABELS), {"text": f"password={MASK}", "labels": HIDDEN}),
    (
        Params({"api_key": "abc", f"k {SECRET}": 5, "n": 512}),
        {"values": {"api_key": MASK, f"k {MASK}": 5, "n": 512}},
    ),
    (Span(SECRET, 1, 2, f"t {SECRET}", LABELS), {"name": MASK, "track": f"t {MASK}", "labels": HIDDEN}),
    (
        Note(SECRET, f"a {SECRET} b", 1, f"x {SECRET}", 2),
        {"name": MASK, "text": f"a {MASK} b", "axis": f"x {MASK}"},
    ),
    (Note("api_key", "any words", 1), {"text": MASK}),
    (
        Table(SECRET, ["a", "api_key"], [[f"x {SECRET}", "abc"], [1, None]], 1, SECRET),
        {"name": MASK, "rows": [[f"x {MASK}", MASK], [1, None]], "axis": MASK},
    ),
    (Bins(SECRET, [1.0, 2.0], [3], 1, SECRET), {"name": MASK, "axis": MASK}),
    (Artifact(SECRET, "https://me:pw@h/x", SECRET[:24]), {"name": MASK, "uri": f"https://me:{MASK}@h/x"}),
    (
        Uncounted(f"say {SECRET}", SECRET, 1, LABELS, SECRET),
        {"text": f"say {MASK}", "tokens": MASK, "per_token": MASK, "labels": HIDDEN},
    ),
    (Session(f"e {SECRET}"), {"event": f"e {MASK}"}),
]


def made_masker() -> tuple[RecordMasker, list[str]]:
    """Return a masker, and the rules that it asks for."""
    asked: list[str] = []

    def row_id(rule: str) -> float:
        asked.append(rule)
        return float(len(asked))

    return RecordMasker(Redaction(), row_id), asked


@pytest.mark.parametrize(("record", "changed"), RECORDS, ids=[type(record).__name__ for record, _ in RECORDS])
def test_each_text_of_a_record_is_masked(record: EventRecord, changed: dict[str, Any]) -> None:
    """All other fields stay as they are."""
    masker, _ = made_masker()
    masked = decode_record(masker.masked(msgspec.msgpack.encode(record)))
    expected = msgspec.structs.asdict(record) | changed
    assert msgspec.structs.asdict(masked) | {"kind": ""} == expected | {"kind": ""}


@pytest.mark.parametrize("record", [record for record, _ in RECORDS], ids=lambda record: type(record).__name__)
def test_a_record_without_secrets_stays_to_the_byte(record: EventRecord) -> None:
    """A record without secrets is not even encoded again."""
    masker, _ = made_masker()
    clean = msgspec.msgpack.encode(record).replace(SECRET.encode(), b"x" * len(SECRET))
    clean = clean.replace(b"me:pw@", b"me_pw_").replace(b"api_key", b"api_xxx").replace(b"password", b"passages")
    clean = clean.replace(SECRET[:24].encode(), b"x" * 24)
    assert masker.masked(clean) is clean
    assert masker.counts() == []


def test_every_kind_of_record_is_known() -> None:
    """The table of fields to mask has an entry for each kind of record, also for a new kind."""
    tags = {kind.__struct_config__.tag for kind in (*get_args(EventRecord), EndedRequests)}
    assert set(FIELDS) == tags


def test_records_whose_names_are_searched_before_pass_at_once() -> None:
    """Records whose names were searched before are not decoded.

    A training loop makes thousands of them a second.
    """
    masker, _ = made_masker()
    for record in (
        Scalars(SECRET, 1, {SECRET: 1.0}),
        StepEnd(SECRET, 1),
        StepClear(SECRET, 1),
        EndedRequests(SECRET, {}, [], 0),
    ):
        encoded = msgspec.msgpack.encode(record)
        assert masker.masked(encoded) is encoded


def test_a_text_that_grows_still_fits_the_wire() -> None:
    """The mask may be longer than the secret."""
    masker, _ = made_masker()
    text = ("pw_password=a " * 1_000)[: limits.TEXT_CHARS]
    for record in (Mark(text), Note("n", text), Params({"n": text})):
        masked = decode_record(masker.masked(msgspec.msgpack.encode(record)))
        assert MASK in str(masked)


def test_counts_are_rows_by_rule() -> None:
    """The masker returns its counts as rows by rule, each count once."""
    masker, asked = made_masker()
    masker.masked(records.mark(f"{SECRET} password=abcdef {SECRET}", {}, 1))
    rows = masker.counts()
    assert dict(zip(asked, rows[2::3], strict=True)) == {"github": 2.0, "named": 1.0}
    assert rows[::3] == [1.0, 2.0]
    assert masker.counts() == []


def test_counts_without_room_are_left_out() -> None:
    """A process with too many instruments has no counter of them."""
    masker = RecordMasker(Redaction())
    masker.masked(records.mark(SECRET, {}, 1))
    assert masker.counts() == []


def test_a_text_is_masked_before_it_is_cut() -> None:
    """Half a secret at the end of a long text would not be found any more."""
    text = "x" * (limits.TEXT_CHARS - 20) + " " + SECRET
    for record in (records.mark(text, {}, 1), records.note("n", text, Place(1))):
        assert b"ghp_" not in record


def test_batches_carry_masked_records_and_their_count(desk: Any) -> None:
    """The counter is in the next batch; numbers of events stay in order."""
    definition = msgspec.msgpack.encode(Define(0, f"n {SECRET}", "counter"))
    desk.definitions.append(definition)
    desk.outbox.records.append(records.mark(SECRET, {}, 1))
    desk.fill(2)
    packed = desk.outbox.pack()
    assert SECRET.encode() not in bytes(packed.frame)
    assert bytes(packed.frame).count(MASK.encode()) == 2
    assert packed.events == 3
    desk.outbox.announcer.announce_again()
    again = desk.outbox.pack(definitions_only=True)
    assert SECRET.encode() not in bytes(again.frame)
