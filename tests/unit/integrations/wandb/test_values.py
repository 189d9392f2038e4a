"""Large values of W&B calls: only what is recorded is read, and the rest is counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from telemetry import limits
from telemetry.client import records, user_warnings
from telemetry.client.process import PROCESS
from telemetry.client.records import Place
from telemetry.integrations.wandb import values
from telemetry.integrations.wandb.values import flat, table_of

ROWS = limits.TABLE_ROWS + 5_000


class Row:
    """A row that counts how often one is read."""

    read = 0

    def __iter__(self) -> Iterator[int]:
        Row.read += 1
        return iter([1, 2])


class Table:
    columns = ("a", "b")
    data = (Row(),) * ROWS


class Frame:
    """A data frame, as far as it is read."""

    columns = ("a", "b")

    def itertuples(self, index: bool, name: str | None) -> Iterator[tuple[int, int]]:
        assert not index
        for _ in range(ROWS):
            Row.read += 1
            yield (1, 2)


@pytest.fixture(autouse=True)
def _nothing_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Row, "read", 0)
    monkeypatch.setattr(user_warnings, "_reported", set())


@pytest.mark.parametrize("table", [Table(), Frame()], ids=["table", "frame"])
def test_rows_are_read_when_the_client_asks_for_them(table: Any) -> None:
    """A table may have millions of rows, and 10,000 are recorded."""
    columns, rows = table_of(table)
    assert (columns, Row.read) == (["a", "b"], 0)
    _, left_out = records.table("t", columns, rows, Place(1))
    assert left_out == 5_000


def test_cells_of_rows_that_are_left_out_are_never_read() -> None:
    """Cells of rows beyond the limit are never read, because they may be files."""
    records.table("t", *table_of(Table()), Place(1))
    assert Row.read == limits.TABLE_ROWS


def test_a_row_that_is_no_row_is_left_out_alone() -> None:
    """The others are kept."""

    class Odd:
        columns = ("a",)
        data = ([1], 2, [3])

    assert records.table("t", *table_of(Odd()), Place(1))[1] == 1


def test_media_beyond_the_limit_of_a_list_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The message appears once, and says what to do."""

    class Image:
        _log_type = "image-file"

    before = PROCESS.unencodable.total
    found = [flat({"samples": [Image()] * count}) for count in (64, 100, 70)]
    assert [len(one) for one in found] == [64, 64, 64]
    assert list(found[1])[::63] == ["samples/0", "samples/63"]
    assert PROCESS.unencodable.total - before == 36 + 6
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "'samples' is a list of 100 files: the first 64 of each such list are recorded" in said[0]


def test_nested_values_have_names_with_dots() -> None:
    """Empty dictionaries and None are left out, wherever they are. Arrays become distributions."""
    nested = {"a": {"b": 1, "c": {}, 2: {"d": None, "e": "text"}}, "f": {}, "g": None, "h": [1.0, 2.0]}
    plain = dict(flat(nested))
    edges, counts = plain.pop("h")
    assert plain == {"a.b": 1, "a.2.e": "text"}
    assert (edges[0], edges[-1], sum(counts)) == (1.0, 2.0, 2)


def test_alerts_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets in alerts are masked: alerts often quote an error with an address."""
    marks: list[str] = []
    monkeypatch.setattr(values.client, "mark", marks.append)
    values.put_alert("down", "postgres://app:hunter2pw@db failed")
    values.put_alert("down", "")
    assert marks == ["down: postgres://app:***@db failed", "down"]
