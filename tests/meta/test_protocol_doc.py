"""Tests that docs/PROTOCOL.md, the constants and the golden bytes agree.

A change of one without the others fails here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import typing
from pathlib import Path

import msgspec
import pytest
import zmq

from telemetry import limits
from telemetry.transport import sockets
from telemetry.wire import (
    cells,
    codec,
    control,
    drop_reasons,
    events,
    history,
    nodes,
    request_log,
    requests,
    snapshot,
    spans,
    units,
)
from telemetry.wire.events import Count, Sample
from telemetry.wire.rows import ROW_BYTES
from telemetry.wire.version import PROTOCOL, SCHEMA

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "PROTOCOL.md").read_text()
GOLDEN = ROOT / "tests" / "golden" / f"v{PROTOCOL[0]}.{PROTOCOL[1]}"
WHOLE = units.WHOLE - {"B", "bytes"}
HEX = dict(re.findall(r"```hex (\w+)\n(.*?)```", TEXT, re.DOTALL))


def section(title: str) -> str:
    """The text from a heading to the next one of any level."""
    found = re.search(rf"^#+ (?:\d+\. )?{re.escape(title)}\n(.*?)(?=^#|\Z)", TEXT, re.DOTALL | re.MULTILINE)
    assert found, f"no section called {title}"
    return found[1]


def table(text: str, header: str) -> list[list[str]]:
    """Cells of the table whose header line begins so."""
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {header}"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def names(kind: type) -> list[str]:
    return [field.name for field in msgspec.structs.fields(kind)]


def tag(kind: type) -> str:
    return str(kind.__struct_config__.tag)  # type: ignore[attr-defined]


def shown_default(field: msgspec.structs.FieldInfo) -> str:
    """A field as the tables write it: the name, and its default if it has one."""
    if field.required:
        return f"`{field.name}`"
    value = field.default
    if isinstance(value, msgspec.Struct):
        value = "[]"
    if value is msgspec.NODEFAULT:
        value = "[]" if field.default_factory is list else "{}"
    if value is None or isinstance(value, bool):
        shown = {None: "null", False: "false", True: "true"}[value]
    elif isinstance(value, str) and value not in {"{}", "[]"}:
        shown = f'"{value}"'
    else:
        shown = "2⁶³−1" if value == (1 << 63) - 1 else str(value)
    return f"`{field.name}` = {shown}"


# --- bytes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(HEX))
def test_hex_samples_are_the_golden_bytes(name: str) -> None:
    """The hex samples are the golden bytes, so a reader types in what we send."""
    digits = "".join(line.split(";")[0] for line in HEX[name].splitlines())
    assert re.sub(r"\s", "", digits) == (GOLDEN / f"{name}.bin").read_bytes().hex()


def test_every_kind_of_message_a_producer_needs_has_a_sample() -> None:
    """Batches in both forms, the handshake and the end."""
    assert {"batch_minimal", "batch_rows", "request_hello", "request_end", "response_ack", "stream_record"} <= set(
        HEX
    )


def test_version_and_topics() -> None:
    """The header, the version in batches, and the bytes of the topics."""
    assert f"**Version {PROTOCOL[0]}.{PROTOCOL[1]}**" in TEXT
    assert f"`[{PROTOCOL[0]}, {PROTOCOL[1]}]`" in section("EventBatch")
    assert f"of this map, {SCHEMA}" in section("MetricsSnapshot")
    topics = dict(re.findall(r"`([0-9a-f]{16})` `([a-z]+/\d)`", section("Frames")))
    assert topics == {
        codec.EVENTS.hex(): "ev/1",
        codec.SNAPSHOTS.hex(): "sn/1",
        codec.RECORDS.hex(): "rec/1",
    }


def test_a_row_is_laid_out_as_described() -> None:
    """Offsets and widths of the canonical form add up."""
    layout = [(int(row[0]), int(row[1])) for row in table(section("Rows"), "offset")]
    assert [offset for offset, _ in layout] == [sum(width for _, width in layout[:at]) for at in range(len(layout))]
    assert sum(width for _, width in layout) == ROW_BYTES == 27


# --- structs -------------------------------------------------------------------------------------


def test_batch_fields() -> None:
    """Name and place of every element."""
    found = [(int(row[0]), *quoted(row[1])) for row in table(section("EventBatch"), "index")]
    assert found == list(enumerate(names(events.EventBatch)))


def test_record_tags_and_fields() -> None:
    """Every tag with its fields in order, and their defaults."""
    written = {quoted(row[0])[0]: row[1] for row in table(section("Records"), "tag")}
    kinds = typing.get_args(events.EventRecord)
    assert list(written) == [tag(kind) for kind in kinds]
    for kind in kinds:
        fields = ", ".join(shown_default(field) for field in msgspec.structs.fields(kind))
        plain = re.sub(r" \([^)]*\)", "", written[tag(kind)])
        assert plain == fields, tag(kind)


def test_request_records_and_entries() -> None:
    """Every field of the records for the request log, in order."""
    text = section("Records")
    written = {quoted(row[0])[0]: row[1] for row in table(text, "request record")}
    assert list(written) == [tag(kind) for kind in request_log.REQUEST_RECORDS]
    for kind in request_log.REQUEST_RECORDS:
        assert written[tag(kind)] == ", ".join(shown_default(field) for field in msgspec.structs.fields(kind))
    found = [(int(row[0]), *quoted(row[1])) for row in table(text, "index")]
    assert found == list(enumerate(names(request_log.RequestEntry)))
    assert f"up to {limits.REQUESTS_PER_RECORD:,} requests" in text
    assert f"at most {limits.CHUNKS_HELD:,}" in text


def test_node_records_and_columns() -> None:
    """Every record that only a leaf sends, with its fields in order, and the columns of an interval."""
    text = section("Nodes")
    written = {quoted(row[0])[0]: quoted(row[1]) for row in table(text, "tag")}
    assert written == {tag(kind): names(kind) for kind in nodes.NODE_RECORDS}
    assert ", ".join(f"`{name}`" for name in names(nodes.PartialValue)) in text.replace("\n ", "")
    columns = {
        "series": nodes.SeriesSums,
        "counters": nodes.CounterSums,
        "gauges": nodes.GaugeSums,
        "extents": nodes.ExtentSums,
    }
    for kind, struct in columns.items():
        found = [name for row in table(text, f"column of `{kind}`") for name in quoted(row[0])]
        assert found == names(struct), kind
    searched = [name for row in table(text, "column of `search`") for name in quoted(row[0])]
    assert searched == names(nodes.SearchedSeries) + names(nodes.SearchedRanges)
    found = [name for row in table(text, "column of `found`") for name in quoted(row[0])]
    assert found == names(nodes.FoundValues) + names(nodes.FoundBins) + names(nodes.UnfitRanges)


def test_control_types_keys_and_answers() -> None:
    """Every request with defaults and its answer, every response with its keys."""
    text = section("Control")
    requests = {quoted(row[0])[0]: row[1] for row in table(text, "request")}
    answers = {quoted(row[0])[0]: quoted(row[2])[0] for row in table(text, "request") if row[2] != "nothing"}
    assert list(requests) == [tag(kind) for kind in typing.get_args(control.Request)]
    for kind in typing.get_args(control.Request):
        fields = [field for field in msgspec.structs.fields(kind) if field.name != "id"]
        shown = [f"`{field.name}`" if field.name == "version" else shown_default(field) for field in fields]
        assert requests[tag(kind)] == ", ".join(shown)
    responses = {quoted(row[0])[0]: quoted(row[1]) for row in table(text, "response")}
    assert set(answers.values()) <= set(responses)
    assert responses == {
        tag(kind): [name for name in names(kind) if name != "id"] for kind in typing.get_args(control.Response)
    }


@pytest.mark.parametrize("title", re.findall(r"^### (.+)$", TEXT, re.MULTILINE))
def test_snapshot_keys(title: str) -> None:
    """Every key of every map in a snapshot, none twice, none invented."""
    written = [name for row in table(section(title), "key") for name in quoted(row[0])]
    expected = [name for kind in title.split(", ") for name in names(getattr(snapshot, kind))]
    assert sorted(written) == sorted(expected)


def test_every_snapshot_struct_is_described() -> None:
    """A new part of the snapshot can't be forgotten."""
    titles = {kind for title in re.findall(r"^### (.+)$", TEXT, re.MULTILINE) for kind in title.split(", ")}
    structs = {
        name for name, value in vars(snapshot).items() if isinstance(value, type) and value is not msgspec.Struct
    }
    assert titles == {name for name in structs if issubclass(getattr(snapshot, name), msgspec.Struct)}


def test_stream_and_history_fields() -> None:
    """Elements of the arrays on the record stream and in history."""
    assert ", ".join(f"`{name}`" for name in names(events.StreamRecord)) in section("Record stream")
    text = section("History")
    assert ", ".join(f"`{name}`" for name in names(history.Interval)) in text
    assert ", ".join(f"`{name}`" for name in names(control.SeriesKey)).replace("`, `", "`, `") in text.replace(
        "\n", " "
    )
    columns = [name for row in table(text, "columns") for name in quoted(row[0])]
    assert columns == names(history.SeriesColumns)


# --- words and numbers ---------------------------------------------------------------------------


def test_names_of_requests_and_spans() -> None:
    """Every instrument of a kind of request with its kind, unit and label, and both of a span."""
    text = section("Requests and spans")
    rows = {quoted(row[0])[0]: (row[1], *quoted(row[2]), row[3]) for row in table(text, "word")}
    assert {word: row[:2] for word, row in rows.items()} == requests.INSTRUMENTS
    for word, (_, _, words) in rows.items():
        found = re.search(r"label `(\w+)`", words)
        assert (found[1] if found else None) == requests.LABEL_OF.get(word), word
        assert ("`within`" in words) is (word in requests.WITHIN), word
    parts = [name for row in table(text, "what") for name in quoted(row[0])]
    assert parts == ["span", f"{spans.DURATION}NAME", f"{spans.SELF}NAME"]
    assert f"in `{spans.UNIT}`" in text


def test_drop_reasons() -> None:
    """The ledger's words, by who counts them."""
    written = [set(quoted(row[1])) for row in table(section("Bad input"), "who")]
    assert written == [
        {reason.value for reason in reasons}
        for reasons in (drop_reasons.PRODUCER_REASONS, drop_reasons.EVENT_REASONS, drop_reasons.FRAME_REASONS)
    ]


def test_limits_table() -> None:
    """Each value is the constant of that name."""
    written = {quoted(row[0])[0]: int(row[1]) for row in table(section("Limits"), "limit")}
    assert written == {name: getattr(limits, name) for name in written}
    assert {"FRAME_BYTES", "BATCH_RECORDS", "PRODUCER_IDS", "NAME_CHARS", "LABEL_COUNT", "DROP_REASONS"} <= set(
        written
    )
    assert limits.FUTURE_BATCHES == 1 << 40
    assert limits.EVENT_NUMBERS == 1 << 50
    assert (limits.LOWEST_BOUND, limits.HIGHEST_BOUND) == (1e-30, 1e30)


def test_closed_sets_of_words() -> None:
    """States, statuses, completeness, kinds and error codes."""
    for word in typing.get_args(snapshot.State):
        assert f"`{word}`" in section("Control")
    for word in typing.get_args(control.ErrorCode):
        assert f"`{word}`" in section("Control")
    for word in typing.get_args(snapshot.Completeness):
        assert f"`{word}`" in section("MetricsSnapshot")
    for word in (*typing.get_args(snapshot.ProducerStatus), *typing.get_args(snapshot.ProducerCompleteness)):
        assert f"`{word}`" in section("ProducerStat")
    assert "(" + ", ".join(f'"{kind}"' for kind in events.KINDS[:2]) + f' or "{events.KINDS[2]}")' in section(
        "Records"
    )


def test_numbers_in_the_text() -> None:
    """Socket options, patience, and edges of cells."""
    assert sockets.EVENTS_OUT == (
        zmq.XPUB,
        {zmq.MAXMSGSIZE: limits.FRAME_BYTES_HARD, zmq.SNDHWM: 64, zmq.IMMEDIATE: 0, zmq.XPUB_NODROP: 1,
         zmq.XPUB_VERBOSER: 1},
    )  # fmt: skip
    options = quoted(" ".join(row[1] for row in table(section("Who talks to whom"), "socket")))
    assert {"XPUB_NODROP", "SNDHWM", "IMMEDIATE", "XPUB_VERBOSER", "ROUTING_ID", "CONFLATE", "MAXMSGSIZE"} == set(
        options
    )
    assert f"unheard of for {limits.LATE_AFTER_S:g} s is shown as `late`, for {limits.LOST_AFTER_S:g} s" in TEXT
    assert f"{limits.RESEND_RING_BYTES // limits.MIB} MiB here" in TEXT
    assert f"({limits.RETURN_S:g} s here)" in TEXT
    assert f"the newest {limits.MARKS_KEPT}" in TEXT
    edges = " ".join(str(cells.edge(index)) for index in range(17))
    assert edges in section("SeriesStat")


def test_units() -> None:
    """Every unit with a resolution of its own."""
    text = section("Records").replace("\n", " ")
    listed = re.findall(r"(?:1 ns|one byte|one thing) for `([^`]+)`", text)
    assert [set(words.split()) for words in listed] == [set(units.TIME_NS), {"B", "bytes", *units.BYTES}, WHOLE]


# --- the sample program --------------------------------------------------------------------------


def test_the_minimal_producer_does_what_the_text_says(short_dir: Path) -> None:
    """The smallest program of section 1 runs as it stands, against sockets bound as section 2 says."""
    found = re.search(r"```python minimal\n(.*?)```", TEXT, re.DOTALL)
    assert found
    lines = [line for line in found[1].splitlines() if line and not line.startswith(("import", "pack"))]
    assert len(lines) <= 15
    control_at, events_at = f"ipc://{short_dir}/c", f"ipc://{short_dir}/e"
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router, context.socket(zmq.SUB) as sub:
        router.bind(control_at)
        sub.bind(events_at)
        sub.subscribe(codec.EVENTS)
        router.rcvtimeo = sub.rcvtimeo = 20_000
        environment = {**os.environ, "TELEMETRY_ENDPOINT": control_at}
        with subprocess.Popen([sys.executable, "-c", found[1]], env=environment) as program:
            peer, data = router.recv_multipart()
            assert codec.decode_request(data) == control.Hello()
            welcome = control.Welcome(
                run_id="r", name="n", epoch="e", state="LIVE", events=events_at, snapshots="", records=""
            )
            router.send_multipart((peer, codec.encode_control(welcome)))
            batches = [codec.decode_batch(sub.recv()) for _ in range(3)]
            assert program.wait(20) == 0
    assert [(batch.seq, batch.first) for batch in batches] == [(0, 0), (1, 2), (2, 4)]
    assert [codec.decode_record(raw) for raw in batches[2].records] == [
        Sample("latency", 1.5, 0, "ms"),
        Count("requests"),
    ]
