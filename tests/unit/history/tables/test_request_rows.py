"""Requests as rows of a file, read back by programs that did not write them."""

from __future__ import annotations

import csv
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.errors import RunDirectoryError, TelemetryError, UsageError
from telemetry.history.request_log import LoggedRequest
from telemetry.history.tables.request_rows import RequestRow, row, write_requests
from telemetry.testing import ended
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.request_log import RequestEntry

MS = 1_000_000
SHIFT_NS = WALL_NS - MONO_NS
STREAMED = RequestEntry(
    number=3,
    issued_ns=MONO_NS,
    ended_ns=MONO_NS + 100 * MS,
    reason="stop",
    planned_ns=MONO_NS - MS,
    first_ns=MONO_NS + 20 * MS,
    first_tokens=2,
    gaps_ns=[10 * MS, 30 * MS],
    chunk_tokens=[3, None],
    input_tokens=7,
    output_tokens=10,
    turn="2",
    slo={"ttft": 200 * MS},
)
FAILED = RequestEntry(number=4, issued_ns=MONO_NS, ended_ns=MONO_NS + 5 * MS, outcome="failed", reason="=cmd()")


def request(entry: RequestEntry, **changes: Any) -> LoggedRequest:
    facts: dict[str, Any] = {"kind": "llm", "labels": {"model": "a b"}, "producer": "p", "offset_ns": SHIFT_NS}
    return LoggedRequest(**facts | {"entry": entry, "shift_ns": SHIFT_NS + 5} | changes)


def test_figures_of_a_row() -> None:
    """Each by its definition, in nanoseconds."""
    found = row(request(STREAMED))
    assert (found.issued_ns, found.planned_ns) == (WALL_NS, WALL_NS - MS)
    assert (found.first_ns, found.ended_ns) == (WALL_NS + 20 * MS, WALL_NS + 100 * MS)
    assert found.issued_at == WALL_NS + 5
    assert (found.latency_ns, found.ttft_ns, found.largest_gap_ns) == (100 * MS, 20 * MS, 30 * MS)
    assert found.tpot_ns == 80 * MS / 8
    assert (found.chunks, found.chunks_left_out) == (3, 0)
    assert (found.gaps_ns, found.chunk_tokens) == ([10 * MS, 30 * MS], [3, None])


def test_figures_that_are_not_known_are_null() -> None:
    """A request without output has none of them, and one piece has no time per token."""
    found = row(request(FAILED))
    assert (found.first_ns, found.ttft_ns, found.tpot_ns, found.largest_gap_ns) == (None, None, None, None)
    assert (found.planned_ns, found.first_tokens, found.output_tokens, found.chunks) == (None, None, None, 0)
    assert row(request(replace(STREAMED, output_tokens=2))).tpot_ns is None
    assert row(request(replace(STREAMED, first_tokens=None))).tpot_ns is None


def test_chunks_of_one_token_are_written_out() -> None:
    """The log leaves them out to save room; a long answer says how many chunks the log no longer has."""
    found = row(request(replace(ended([0], chunks=3).entries[0], chunks_left_out=4)))
    assert (found.chunk_tokens, found.chunks, found.chunks_left_out) == ([1, 1, 1], 8, 4)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_csv(tmp_path: Path) -> None:
    """A header and a line each; lists are joined, and no text is a formula."""
    path = tmp_path / "r.csv"
    assert write_requests([request(STREAMED), request(FAILED)], path) == 2
    streamed, failed = rows_of(path)
    assert tuple(streamed) == RequestRow._fields
    assert (streamed["labels"], streamed["slo"]) == ('{"model":"a b"}', '{"ttft":200000000}')
    assert (streamed["gaps_ns"], streamed["chunk_tokens"]) == ("10000000;30000000", "3;")
    assert (streamed["issued_ns"], streamed["tpot_ns"]) == (str(WALL_NS), "10000000.0")
    assert streamed["issued_at"] == "2023-11-14T22:13:20.000000005Z"
    assert (failed["reason"], failed["first_ns"], failed["gaps_ns"]) == ("'=cmd()", "", "")


def test_json_lines(tmp_path: Path) -> None:
    """One object a line, with lists and maps as such."""
    path = tmp_path / "r.jsonl"
    assert write_requests([request(STREAMED), request(FAILED)], path) == 2
    streamed, failed = map(json.loads, path.read_text().splitlines())
    assert tuple(streamed) == RequestRow._fields
    assert streamed == {**row(request(STREAMED))._asdict(), "issued_at": "2023-11-14T22:13:20.000000005Z"}
    assert (failed["reason"], failed["first_ns"], failed["gaps_ns"], failed["slo"]) == ("=cmd()", None, [], {})


def _map(read: Any) -> dict[str, Any]:
    return read if isinstance(read, dict) else {pair["key"]: pair["value"] for pair in read}


@pytest.mark.sdk
def test_parquet(tmp_path: Path) -> None:
    """Another library reads the same figures, lists and times."""
    import polars

    path = tmp_path / "r.parquet"
    many = [request(replace(STREAMED, number=number)) for number in range(10_000)]
    assert write_requests([*many, request(FAILED)], path) == 10_001
    table = polars.read_parquet(path)
    assert tuple(table.columns) == RequestRow._fields
    assert table["number"].to_list() == [*range(10_000), 4]
    streamed, failed = table.row(0, named=True), table.row(-1, named=True)
    expected = row(request(replace(STREAMED, number=0)))._asdict()
    for name in ("labels", "slo"):  # some versions of the library read a map as pairs
        assert _map(streamed.pop(name)) == expected.pop(name)
    del expected["issued_at"]
    assert {name: streamed[name] for name in expected} == expected
    assert streamed["issued_at"] == datetime.fromtimestamp(WALL_NS // 10**9, UTC)
    assert table["issued_at"].dtype == polars.Datetime("ns", "UTC")
    assert (failed["first_ns"], failed["gaps_ns"], failed["output_tokens"]) == (None, [], None)


@pytest.mark.sdk
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_run_without_requests_gives_an_empty_table(tmp_path: Path, suffix: str) -> None:
    """An empty table has its columns if the form has some."""
    path = tmp_path / f"r{suffix}"
    assert write_requests([], path) == 0
    assert path.exists()
    if suffix == ".parquet":
        import polars

        assert polars.read_parquet(path).shape == (0, len(RequestRow._fields))


@pytest.mark.sdk
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_times_beyond_any_calendar_are_written(tmp_path: Path, suffix: str) -> None:
    """Impossible times from a program do not stop the export."""
    far = (1 << 63) - 1
    odd = RequestEntry(
        1,
        issued_ns=far,
        ended_ns=0,
        planned_ns=far,
        first_ns=far,
        gaps_ns=[-far],
        chunk_tokens=[far],
        output_tokens=1e300,
    )
    entries = [request(odd, offset_ns=far, shift_ns=far), request(odd, offset_ns=-far, shift_ns=-far)]
    assert write_requests(entries, tmp_path / f"r{suffix}") == 2


@pytest.mark.sdk
def test_a_number_of_chunks_beyond_64_bits_is_written(tmp_path: Path) -> None:
    """A number beyond 64 bits becomes the largest one that the column takes."""
    import polars

    far = (1 << 63) - 1
    path = tmp_path / "requests.parquet"
    write_requests([request(replace(STREAMED, chunks_left_out=far))], path)
    (found,) = polars.read_parquet(path).to_dicts()
    assert (found["chunks"], found["chunks_left_out"]) == (far, far)


def test_a_suffix_that_means_nothing_is_refused(tmp_path: Path) -> None:
    """The error lists the suffixes that select a format, and no file is written."""
    with pytest.raises(UsageError, match=r"the suffix \.txt of .*r\.txt does not select a format") as refused:
        write_requests([], tmp_path / "r.txt")
    assert refused.value.hint == "use one of .csv, .jsonl, .parquet"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A missing folder is reported as a problem of the file, which is not written."""
    with pytest.raises(RunDirectoryError, match=r"can't write .*: No such file or directory"):
        write_requests([], tmp_path / "none" / "r.csv")


def test_without_the_library_the_message_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the forms that need no library, too. An older file stays as it is."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "r.parquet"
    path.write_bytes(b"old")
    with pytest.raises(TelemetryError, match="the package `pyarrow` is not installed") as missing:
        write_requests([], path)
    assert missing.value.hint == "pip install 'telemetryd[parquet]', or choose a file that ends with .csv or .jsonl"
    assert path.read_bytes() == b"old"
    assert write_requests([], tmp_path / "r.csv") == 0
