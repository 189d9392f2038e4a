"""Marks, params and expectations as the wire takes them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from telemetry import limits
from telemetry.client import records
from telemetry.client.records import Place
from telemetry.errors import InstrumentError
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Artifact, Axis, Expect, Mark, Note, Params, Span, Table, Uncounted


def decoded_params(values: dict[Any, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for raw in records.params(values, 5):
        record = decode_record(raw)
        assert isinstance(record, Params)
        assert record.time_ns == 5
        merged.update(record.values)
    return merged


def test_a_mark_keeps_its_labels() -> None:
    """Values become text."""
    assert decode_record(records.mark("warm", {"step": 3}, 7)) == Mark(text="warm", time_ns=7, labels={"step": "3"})


def test_a_mark_is_cut_to_the_bounds_of_the_wire() -> None:
    """A long text is no reason to lose the moment."""
    record = decode_record(records.mark("x" * 10_000, {"k" * 100: "v" * 1_000}, 0))
    assert isinstance(record, Mark)
    assert len(record.text) == limits.TEXT_CHARS
    assert record.text.endswith("…")
    assert {len(key): len(value) for key, value in record.labels.items()} == {
        limits.LABEL_KEY_CHARS: limits.LABEL_VALUE_CHARS
    }


def test_text_that_utf8_cannot_carry_is_replaced() -> None:
    """Half a surrogate pair comes from broken file names."""
    assert decode_record(records.mark("a\ud800b", {}, 0)) == Mark(text="a?b")


def test_params_are_flattened_with_dots() -> None:
    """Scalars keep their types, the rest becomes text."""
    values = {"lr": 1e-3, "model": {"layers": 2, "tied": True, "init": None}, "sizes": [1, 2], "empty": {}, 7: "x"}
    assert decoded_params(values) == {
        "lr": 1e-3,
        "model.layers": 2,
        "model.tied": True,
        "model.init": None,
        "sizes": "[1, 2]",
        "empty": "{}",
        "7": "x",
    }


def test_a_map_that_contains_itself_ends() -> None:
    """Depth is bounded."""
    endless: dict[str, Any] = {}
    endless["again"] = endless
    assert len(decoded_params(endless)) == 1


def test_many_params_are_several_records() -> None:
    """No record of params exceeds the count of the wire or the bytes of a batch."""
    assert len(decoded_params({f"k{number}": number for number in range(2_500)})) == 2_500
    fat = {f"k{number}": "é" * limits.TEXT_CHARS for number in range(150)}
    encoded = list(records.params(fat, 5))
    assert len(encoded) > 1
    assert all(len(raw) <= records.RECORD_BYTES for raw in encoded)
    assert decoded_params(fat) == fat


def test_expect_is_checked() -> None:
    """An expectation is a definition, so an error in it shows at the call."""
    assert decode_record(records.expect("n", 5, 3)) == Expect(name="n", total=5.0, time_ns=3)
    for name, total in (("", 1), ("n", -1), ("n", float("nan")), ("n", float("inf")), ("n", "5")):
        with pytest.raises(InstrumentError):
            records.expect(name, total, 0)  # type: ignore[arg-type]


def test_records_are_frozen_when_they_are_made() -> None:
    """Later changes of the caller's map don't show."""
    values = {"a": 1}
    [raw] = list(records.params(values, 0))
    values["a"] = 2
    assert msgspec.msgpack.decode(raw)[1] == {"a": 1}


@pytest.mark.parametrize("what", ["characters", "bytes", "surrogates"])
def test_a_text_that_fits_in_no_record_is_refused(what: str) -> None:
    """The longest that fits is sent."""
    longest = "x" * limits.UNCOUNTED_CHARS
    assert len(records.uncounted(Uncounted(text=longest, tokens="t"))) > limits.UNCOUNTED_CHARS
    text = {"characters": longest + "x", "bytes": "\U0001f600" * limits.UNCOUNTED_CHARS, "surrogates": "\ud800"}[
        what
    ]
    with pytest.raises(ValueError, match="surrogates" if what == "surrogates" else "too long"):
        records.uncounted(Uncounted(text=text, tokens="t"))


AT = Place(7, "train", 3)


class Unspeakable:
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def decoded_table(columns: Any, rows: Any) -> tuple[Table, int]:
    encoded, left_out = records.table("t", columns, rows, AT)
    assert len(encoded) <= records.RECORD_BYTES
    record = decode_record(encoded)
    assert isinstance(record, Table)
    assert (record.name, record.time_ns, record.axis, record.step) == ("t", *AT)
    return record, left_out


def test_an_axis_is_checked() -> None:
    """An axis is a declaration, so an error in it shows at the call."""
    made = records.axis("train", "sum", {"*/loss": "mean"}, 7)
    assert decode_record(made) == Axis("train", "sum", {"*/loss": "mean"}, 7)
    made = records.axis("train", "sum", {}, 7, "reported")
    assert decode_record(made) == Axis("train", "sum", {}, 7, "reported")
    with pytest.raises(InstrumentError, match="'late' is not a rule of closing"):
        records.axis("train", "sum", {}, 7, "late")  # type: ignore[arg-type]
    wrong: list[tuple[Any, Any, Any]] = [
        ("", "sum", {}),
        ("x" * 201, "sum", {}),
        ("a", "median", {}),
        ("a", "sum", {"": "sum"}),
        ("a", "sum", {5: "sum"}),
        ("a", "sum", {"x": "median"}),
        ("a", "sum", {f"{n}": "sum" for n in range(limits.PARAMS_PER_RECORD + 1)}),
    ]
    for name, reduce, reductions in wrong:
        with pytest.raises(InstrumentError):
            records.axis(name, reduce, reductions, 0)


def test_ranked_names_are_checked() -> None:
    """A few names, each as it is."""
    made = records.axis("train", "mean", {}, 7, ranked=("wait", "work"))
    assert decode_record(made) == Axis("train", "mean", {}, 7, ranked=["wait", "work"])
    wrong: list[tuple[Any, str]] = [
        ("wait", "is the text 'wait'"),
        ([""], "must not be empty"),
        ([5], "must be a string"),
        (["*/wait"], "is a pattern"),
        ([f"{n}" for n in range(limits.RANKED_NAMES + 1)], "has 9 ranked names; the limit is 8"),
    ]
    for ranked, message in wrong:
        with pytest.raises(InstrumentError, match=message):
            records.axis("train", "mean", {}, 7, ranked=ranked)


def test_a_text_is_cut_to_the_bounds_of_the_wire() -> None:
    """A text and its name are cut to the bounds of the wire."""
    assert decode_record(records.note("n", "hello", AT)) == Note("n", "hello", 7, "train", 3)
    record = decode_record(records.note("n" * 300, "x" * 10_000, Place(0)))
    assert isinstance(record, Note)
    assert (len(record.name), len(record.text), record.axis) == (limits.NAME_CHARS, limits.TEXT_CHARS, "")
    assert decode_record(records.note("", 5, Place(0))) == Note("_", "5")


def test_cells_keep_their_types() -> None:
    """Numbers of numpy are numbers, what is not finite is None, and the rest becomes text."""
    row = [1, 0.5, "x", True, None, math.nan, np.float32(0.25), np.int64(4), np.array([[2.5]]), 1 << 70, (1, 2)]
    table, left_out = decoded_table([f"c{n}" for n in range(len(row))], [row])
    assert table.rows == [[1, 0.5, "x", True, None, None, 0.25, 4, 2.5, str(1 << 70), "(1, 2)"]]
    assert left_out == 0
    many, _ = decoded_table(["a"], [[np.zeros(2)]])
    assert many.rows == [["[0. 0.]"]]


def test_rows_that_do_not_fit_are_left_out() -> None:
    """The others stay, in order; an endless one ends."""
    endless = iter(int, 1)
    rows = [["a", 1], ["b"], ["c", 2, 3], "de", {"x": 1, "y": 2}, 5, endless, [Unspeakable(), 1], ["f", 6]]
    table, left_out = decoded_table(("x", "y"), (row for row in rows))
    assert (table.columns, table.rows, left_out) == (["x", "y"], [["a", 1], ["f", 6]], len(rows) - 2)


def test_an_array_is_a_table() -> None:
    """Row by row."""
    table, left_out = decoded_table(["a", "b"], np.arange(4).reshape(2, 2))
    assert (table.rows, left_out) == ([[0, 1], [2, 3]], 0)


def test_a_table_is_cut_to_the_bounds_of_the_wire() -> None:
    """A table is cut by its rows and by its bytes."""
    table, left_out = decoded_table(["n"], ([n] for n in range(limits.TABLE_ROWS + 5)))
    assert (len(table.rows), left_out) == (limits.TABLE_ROWS, 5)
    fat, left_out = decoded_table(["n", "text"], [[n, "é" * limits.TEXT_CHARS] for n in range(500)])
    assert [row[0] for row in fat.rows] == list(range(500 - left_out))
    assert len(fat.rows) >= 100


def test_a_table_has_columns() -> None:
    """A table has at least one column, and at most as many as the wire takes."""
    for count in (0, limits.TABLE_COLUMNS + 1):
        with pytest.raises(ValueError, match="columns"):
            records.table("t", ["c"] * count, [], AT)
    table, _ = decoded_table(["c" * 300] * limits.TABLE_COLUMNS, [])
    assert {len(column) for column in table.columns} == {limits.NAME_CHARS}


def test_a_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is made absolute, since the process that delivers it works elsewhere. The file need not exist yet."""
    monkeypatch.chdir(tmp_path)
    for path in ("a/../b.png", b"b.png", Path("b.png"), str(tmp_path / "b.png")):
        record = decode_record(records.artifact("i", path, "image", AT))
        assert record == Artifact("i", str(tmp_path / "b.png"), "image", 7, "train", 3)


@pytest.mark.parametrize(
    ("uri", "kept"),
    [
        ("s3://bucket/a b", None),
        ("file:///tmp/x", None),
        ("data:text/plain,hello", None),
        ("C:x", "/C:x"),
        ("a:b", "/a:b"),
        ("dir/s3://x", "/dir/s3:/x"),
    ],
)
def test_a_uri_stays(uri: str, kept: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file name with a colon is none."""
    monkeypatch.chdir("/")
    record = decode_record(records.artifact("i", uri, "x" * 30, AT))
    assert isinstance(record, Artifact)
    assert record.uri == (kept or uri)
    assert len(record.kind) == limits.UNIT_CHARS


def test_a_reference_is_whole_or_refused() -> None:
    """A part of it would lead elsewhere."""
    with pytest.raises(ValueError, match="4,096 characters"):
        records.artifact("i", "/" + "x" * limits.TEXT_CHARS, "", AT)
    with pytest.raises(TypeError):
        records.artifact("i", 5, "", AT)
    with pytest.raises(UnicodeEncodeError):
        records.artifact("i", b"/\xff", "", AT)


def test_a_span_ends_after_it_begins() -> None:
    """Labels become text, as those of marks."""
    made = records.span("fwd", 5, 9, "gpu", {"rank": 3})
    assert decode_record(made) == Span("fwd", 5, 9, "gpu", {"rank": "3"})
    with pytest.raises(ValueError, match="ns before it starts"):
        records.span("fwd", 9, 5, "", {})
